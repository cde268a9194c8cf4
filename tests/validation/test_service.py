"""Validated rounds through the service: real coordinators, real participants, TLS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dhdmm.client.join import Ending
from dhdmm.validated import participant
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
        checks = served.join(persons[0], whole=True).verified.checks
    assert {outcome.ending for outcome in outcomes} == {Ending.RELEASED}
    assert "the sum is the one that 6 survivors signed commitments to" in checks


@pytest.mark.slow
@pytest.mark.fault(20)
def test_a_liar_is_not_counted_and_the_others_are_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    persons = crowd(tmp_path, 6)
    liar = persons[3].named.identity.public
    monkeypatch.setattr(participant, "prove", spoiled_for(liar, participant.prove))
    study = study_of(validation="bounded", dropout=0.2)
    with coordinator(tmp_path, study, roster_file(persons)) as served:
        served.consent(*persons)
        outcomes = served.join_all(persons)
        verified = served.join(persons[0], whole=True).verified
    endings = [outcome.ending for outcome in outcomes]
    assert endings == [Ending.RELEASED] * 3 + [Ending.LEFT_BEHIND] + [Ending.RELEASED] * 2
    assert verified.release.survivors == 5
    assert "the input of participant 4 was refused: the projections are not" in " ".join(
        verified.checks
    )


def spoiled_for(public: bytes, prove: Callable[..., bytes]) -> Callable[..., bytes]:
    def spoiled(statement: Any, context: bytes, *given: Any) -> bytes:
        proof = prove(statement, context, *given)
        return proof[:-32] + bytes(32) if context.endswith(public) else proof

    return spoiled
