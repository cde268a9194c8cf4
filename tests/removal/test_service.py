"""Rounds that remove excess noise through the service: real coordinators, participants, TLS."""

from __future__ import annotations

from pathlib import Path

import pytest

from dhdmm.client.join import Ending
from tests.service.participant.people import coordinator, crowd, roster_file, study_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("threat_model", ["malicious", "semi-honest"])
def test_excess_noise_is_removed_over_a_network(threat_model: str, tmp_path: Path) -> None:
    persons = crowd(tmp_path, 6)
    asked = study_of(threat_model=threat_model, dropout=0.3)
    study = asked.with_aggregation(excess_noise="remove")
    with coordinator(tmp_path, study, roster_file(persons)) as served:
        served.consent(*persons)
        outcomes = served.join_all(persons)
        verified = served.join(persons[0], whole=True).verified
    assert {outcome.ending for outcome in outcomes} == {Ending.RELEASED}
    assert "6 of 6 survivors removed excess noise" in verified.checks
    release = verified.release
    assert release.measurement_variance == float(6 * release.plan.removable.base)
