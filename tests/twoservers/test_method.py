"""Two servers as a way to add up: parameters, plans, studies, reports, and the page of messages."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dhdmm
from dhdmm.aggregation import wire
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.method import ParameterError
from dhdmm.aggregation.roster import Roster
from dhdmm.cohort.helper import LocalHelper
from dhdmm.errors import DataError, PrivacyError, Refused, StudyError, VerificationError
from dhdmm.planning.draft import Draft
from dhdmm.planning.plan import NO_HELPER, Plan
from dhdmm.release.verify import verify
from dhdmm.runner import enrol, run_round
from dhdmm.session.coordinator import CoordinatorSession
from dhdmm.study.describe import describe
from dhdmm.study.spec import Study
from dhdmm.twoservers import messages as m
from dhdmm.twoservers.method import TwoServers
from tests.protocol.network import Stream
from tests.round.small import people, small_plan, small_text

TWO = {"threat_model": "two-servers"}


def test_the_honest_floor_is_what_is_certain_to_remain() -> None:
    parameters = TwoServers().choose(100, 0.05, 0.1)
    assert (parameters.minimum_survivors, parameters.corrupt) == (90, 5)
    assert parameters.honest_floor == 85
    TwoServers().check(parameters, 100, 0.05, 0.1)
    with pytest.raises(ParameterError):
        TwoServers().check(replace(parameters, minimum_survivors=80), 100, 0.05, 0.1)
    with pytest.raises(ParameterError, match="honest"):
        TwoServers().choose(4, 0.5, 0.25)


@pytest.mark.slow
def test_a_plan_names_its_helper_and_comes_back_as_it_was() -> None:
    helper = bytes([3]) * 32
    plan = dhdmm.plan(Study.from_text(small_text(**TWO)), helper=helper)
    again = Plan.from_bytes(plan.to_bytes())
    assert again.helper == helper
    assert again.digest == plan.digest
    assert Draft.of(plan).digest != Draft.of(replace(plan, helper=bytes(32))).digest
    assert small_plan(**TWO).helper == NO_HELPER
    with pytest.raises(PrivacyError, match="preview"):
        replace(small_plan(**TWO), roster_digest=helper).round(bytes(16))
    with pytest.raises(PrivacyError, match="one server"):
        dhdmm.plan(Study.from_text(small_text()), helper=helper)


def test_what_is_not_supported_is_refused_in_words() -> None:
    with pytest.raises(StudyError, match="sealing"):
        Study.from_text(small_text() + "  sealing: x25519\n")
    with pytest.raises(DataError, match="whose key is not here"):
        enrol(dhdmm.plan(Study.from_text(small_text(**TWO)), helper=bytes([3]) * 32))


def test_it_is_described_in_words() -> None:
    study = Study.from_text(small_text(**TWO))
    assert "while one of the two servers" in str(describe(study))


@pytest.mark.parametrize("sealing", ["mlkem768-x25519", "x25519"])
def test_a_round_in_one_process_is_verified_from_its_full_transcript(sealing: str) -> None:
    plan = dhdmm.plan(Study.from_text(small_text(**TWO) + f"  sealing: {sealing}\n"))
    outcome = run_round(enrol(plan), people(12), dropout=0.1, full_transcript=True)
    assert len(outcome.survivors) == 11
    transcript = outcome.release.transcript
    found = verify(transcript)
    assert "the sum recomputed from 11 messages" in found.checks
    assert any("signed its half of the sum" in check for check in found.checks)
    assert any("falsified" in open_ for open_ in found.unproven)


@pytest.mark.slow
def test_a_leader_that_publishes_another_sum_is_found_out() -> None:
    outcome = run_round(enrol(small_plan(**TWO)), people(12))
    account = outcome.release.transcript.account
    forged = replace(account, measurement=account.measurement + 1)
    sealed = type(outcome.release.transcript).seal(forged, Identity(bytes(32)))
    with pytest.raises(VerificationError, match="has not signed this sum"):
        verify(sealed)
    kept = type(outcome.release.transcript).seal(account, Identity(bytes(32)))
    assert verify(kept).release.survivors == 12


@pytest.mark.slow
def test_a_report_is_one_function() -> None:
    """All that a participant does; the leader takes it, and the sum is right."""
    random = Stream("report")
    identities = [Identity.generate(random) for _ in range(12)]
    roster = Roster(tuple(f"p{i}" for i in range(12)), tuple(one.public for one in identities))
    helper_identity = Identity.generate(random)
    study = Study.from_text(small_text(**TWO))
    plan = dhdmm.plan(study, roster=roster, helper=helper_identity.public)
    helper = LocalHelper(plan, bytes(16), roster, helper_identity, random)
    leader = CoordinatorSession(plan, bytes(16), roster, random, helper=helper)
    leader.consult()
    for i, histogram in enumerate(people(12)):
        made = dhdmm.report(
            plan,
            histogram,
            identities[i],
            round_id=bytes(16),
            position=i,
            key=leader.message_for(i),
        )
        leader.receive(i, made)
    leader.close_phase()
    leader.consult()
    leader.close_phase()
    release = leader.release()
    assert release.survivors == 12
    assert np.isfinite(release.answers).all()
    with pytest.raises(Refused, match="two servers"):
        dhdmm.report(
            small_plan(), people(2)[1], identities[0], round_id=bytes(16), position=0, key=b""
        )


def test_the_page_lists_every_message_and_field() -> None:
    text = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
    for kind in m.TYPES.values():
        fields = [(name, codec.words) for name, codec in wire.layout(kind)]
        section = re.search(
            rf"^### 0x{kind.TYPE:02X} {kind.__name__}\n(.*?)(?=^##|\Z)", text, re.M | re.S
        )
        assert section, f"{kind.__name__} is not described"
        rows = [row.split("|")[1:3] for row in section[1].splitlines() if row.startswith("| `")]
        described = [(name.strip().strip("`"), layout.strip()) for name, layout in rows]
        assert described == fields


@pytest.mark.slow
@pytest.mark.parametrize("level", ["sum", "bounded"])
def test_a_validated_round_is_checked_by_anybody(level: str) -> None:
    """Both servers verify; the sum is the one that was committed to, whatever a server says."""
    outcome = run_round(
        enrol(small_plan(**TWO, validation=level)), people(12), full_transcript=True
    )
    assert len(outcome.survivors) == 12
    found = verify(outcome.release.transcript)
    said = " ".join(found.checks)
    assert "the sum is the one that 12 survivors signed commitments to" in said
    assert "signed its half of the sum" in said
    assert "the sum recomputed from 12 messages" in said
    assert not any("falsified" in one for one in found.unproven)
    if level == "bounded":
        assert "12 survivors proved to have an input no longer than" in said
