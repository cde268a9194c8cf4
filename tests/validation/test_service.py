"""Validated rounds through the service: real coordinators, real participants, TLS."""

from __future__ import annotations

from pathlib import Path

import pytest

from dhdmm.client.join import Ending
from tests.service.participant.people import coordinator, crowd, roster_file, study_of


@pytest.mark.slow
@pytest.mark.parametrize("threat_model", ["malicious", "semi-honest"])
@pytest.mark.parametrize("validation", ["sum", "bounded"])
def test_a_validated_round_is_released_and_verified_by_its_participants(
    threat_model: str, validation: str, tmp_path: Path
) -> None:
    persons = crowd(tmp_path, 6)
    study = study_of(threat_model=threat_model, validation=validation)
    with coordinator(tmp_path, study, roster_file(persons)) as served:
        served.consent(*persons)
        outcomes = served.join_all(persons)
    assert {outcome.ending for outcome in outcomes} == {Ending.RELEASED}
    checks = outcomes[0].verified.checks
    assert "the sum is the one that 6 survivors signed commitments to" in checks
