"""What a round takes from a ledger is the ρ of its plan, wherever the round is run from."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from dhdmm.participant.data_sets import accounted
from dhdmm.privacy.ledger import Ledger
from dhdmm.runner import enrol
from tests.round.small import small_plan
from tests.service.participant.people import coordinator, crowd, roster_file, study_of


def test_a_run_on_one_machine_reserves_and_spends_its_price(tmp_path: Path) -> None:
    enrolment, path = enrol(small_plan()), tmp_path / "ledger"
    ledger = Ledger.create(path, Fraction(1), lambda: datetime(2030, 1, 1, tzinfo=UTC))
    with accounted([ledger], enrolment.plan, enrolment.round_id) as pay:
        assert (ledger.reserved(), ledger.spent()) == (enrolment.plan.rho, 0)
        pay()
        assert (ledger.reserved(), ledger.spent()) == (0, enrolment.plan.rho)


@pytest.mark.slow
def test_a_participant_of_a_service_spends_the_price_of_its_plan(tmp_path: Path) -> None:
    persons = crowd(tmp_path, 6)
    with coordinator(tmp_path, study_of(), roster_file(persons)) as here:
        here.consent(*persons)
        here.join_all(persons)
        plan = here.join(persons[0], whole=True).verified.release.plan
    for person in persons:
        assert person.member.ledger.spent() == plan.rho
