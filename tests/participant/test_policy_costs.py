"""Checking a stranger's plan has bounds of its own: memory and work, counted before they are spent.

The plans are reviewed in a process that the operating system would end if it took too much: they
are refused long before that. Without the count it is ended (`the same without limits`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dhdmm.effort import Limit, allocate, borrow, limited, work
from dhdmm.errors import TooCostly
from dhdmm.participant import policy
from dhdmm.participant.policy import PolicyReason, PolicyRefusal, review_preview
from dhdmm.planning.draft import draft
from dhdmm.study.spec import Study
from tests.participant.costly_plans import PLANS, POLICY, ranges

pytestmark = pytest.mark.slow

PEAK_MEGABYTES = 500
AGES = """
study: ages
schema: {age: {type: integer, range: [0, 9999]}}
workload: [{name: ages, by: [age]}]
privacy: {unit: record, epsilon: 1.0, delta: 1.0e-6, corrupt_fraction: 0.05}
aggregation: {participants: 100, max_records_per_participant: 1000}
"""
SF1 = Path(__file__).parents[2] / "examples" / "census-sf1" / "study.yaml"


def reviewed_apart(*names: str, weakened: str = "") -> subprocess.CompletedProcess[str]:
    """In a process of its own, with one thread of linear algebra: threads reserve memory."""
    program = (
        f"{weakened}\nfrom tests.participant import costly_plans as c\nc.main({list(names)!r})"
    )
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )


@pytest.fixture(scope="module")
def verdicts() -> dict[str, list]:
    done = reviewed_apart(*PLANS)
    assert done.returncode == 0, done.stderr
    return {name: rest for name, *rest in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", PLANS)
def test_a_costly_plan_is_refused_within_the_limits(verdicts, name):
    size, _reason, _what, peak = verdicts[name]
    assert size < 6 * 2**20
    assert peak < PEAK_MEGABYTES


def test_most_of_them_are_refused_for_what_they_would_cost(verdicts):
    costly = [
        name for name, (_, reason, *_) in verdicts.items() if reason == PolicyReason.TOO_LARGE
    ]
    cheap_by_structure = {name for name in PLANS if name.startswith("contrast")}
    assert set(costly) == set(PLANS) - cheap_by_structure


def test_the_same_without_limits_is_ended_by_the_operating_system():
    weakened = "\n".join(
        [
            "from dhdmm.participant import policy",
            "from dhdmm.effort import Limit",
            "policy.UNKNOWN_STUDY = Limit(megabytes=1e9, seconds=1e9)",
        ]
    )
    done = reviewed_apart("30 times all ranges of 4,001 values", weakened=weakened)
    assert done.returncode != 0
    assert "MemoryError" in done.stderr


def test_a_study_that_was_agreed_to_may_cost_more(monkeypatch):
    monkeypatch.setattr(policy, "UNKNOWN_STUDY", Limit(megabytes=1, seconds=1))
    plan = ranges(1, 600)
    with pytest.raises(PolicyRefusal) as refused:
        review_preview(plan, POLICY)
    assert refused.value.reason is PolicyReason.TOO_LARGE
    assert "listed under 'studies'" in str(refused.value)
    digest = policy.sha256(policy.encoded_study(plan)).hexdigest()
    with pytest.raises(PolicyRefusal) as refused:
        review_preview(plan, POLICY.model_copy(update={"studies": [digest]}))
    assert refused.value.reason is not PolicyReason.TOO_LARGE


@pytest.mark.parametrize("study", [Study.from_text(AGES), Study.load(SF1)], ids=["ages", "sf1"])
def test_honest_plans_need_a_small_part_of_the_limits(monkeypatch, study):
    """Ten thousand ages once took 2.4 GB to plan and 1.6 GB to review."""
    small = Limit(megabytes=60, seconds=0.5)
    monkeypatch.setattr(policy, "UNKNOWN_STUDY", small)
    generous = POLICY.model_copy(update={"threat_models": ["malicious", "semi-honest"]})
    with limited(Limit(megabytes=300, seconds=60)):
        made = draft(study).plan(100 if study.name == "ages" else 3000)
    assert review_preview(made.to_bytes(), generous).plan.digest == made.digest


def test_what_is_borrowed_does_not_add_up_and_what_is_kept_does():
    with limited(Limit(megabytes=1, seconds=1)):
        for _ in range(100):
            borrow(100_000)
        allocate(100_000)
        with pytest.raises(TooCostly):
            borrow(100_000)
    allocate(1e18)  # nothing is limited outside


def test_work_is_limited_too():
    with limited(Limit(megabytes=1, seconds=1)), pytest.raises(TooCostly, match="1 s of computing"):
        work(1e12)
