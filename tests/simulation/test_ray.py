"""The same cohorts on a real Ray cluster of this machine."""

import os
from importlib.util import find_spec

import numpy as np
import pytest

import dhdmm
from dhdmm.errors import DhdmmError
from dhdmm.simulation import on_ray
from tests.round.small import small_plan

pytestmark = pytest.mark.slow

needs_ray = pytest.mark.skipif(
    find_spec("ray") is None and "DHDMM_CI" not in os.environ, reason="dhdmm[ray] is not installed"
)


@needs_ray
@pytest.mark.parametrize(
    "model", ["malicious", pytest.param("two-servers", marks=pytest.mark.soak)]
)
def test_cohorts_on_ray_give_the_round_that_local_ones_do(
    monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    plan = small_plan(threat_model=model, participants=30)
    options = {"dropout": 0.1, "seed": 4}
    on_cluster = dhdmm.simulate(plan, engine="ray", workers=2, **options)
    here = dhdmm.simulate(plan, engine="local", **options)
    assert on_cluster.sum_correct
    assert on_cluster.effort.cpu_s > here.trace.participant_seconds.sum()
    assert np.array_equal(on_cluster.trace.sent_bytes, here.trace.sent_bytes)
    assert np.array_equal(on_cluster.release.measurement, here.release.measurement)
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(DhdmmError, match="Ray is not installed") as error:
        dhdmm.simulate(small_plan(), engine="ray")
    assert "dhdmm[ray]" in str(error.value.hint)
    assert on_ray.ray_cohorts is not None
