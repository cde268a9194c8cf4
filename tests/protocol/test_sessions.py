"""A session pays for exactly what leaves, before it leaves; and publishes no key of its own."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import pytest

from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.errors import Refused
from dhdmm.participant.policy import review
from dhdmm.planning.plan import Plan
from dhdmm.privacy.keystream import KeyStream
from dhdmm.secagg import messages as m
from dhdmm.secagg.states import CoordinatorState
from dhdmm.session.coordinator import CoordinatorSession
from dhdmm.session.participant import ParticipantSession
from tests.participant.data_holder import POLICY, ROSTER
from tests.planning.studies import planned, records, replanned
from tests.protocol.network import Stream, identity

ROUND_ID = b"a round of tests"
INPUTS = (m.MaskedInput, m.EvidencedInput)
THREATS = pytest.mark.parametrize("threat_model", ["malicious", "semi-honest"])


def plan_for(threat_model: str) -> Plan:
    if threat_model == "malicious":
        return planned()
    return replanned(aggregation={"threat_model": threat_model})


class Round:
    """Twelve sessions; participant 0 pays as it is told to, and its messages are kept."""

    def __init__(self, plan: Plan, pay: Callable[[bytes], None]) -> None:
        self.plan, self.journal = plan, MemoryJournal()
        self.store: dict[str, bytes] = {}
        self.coordinator = CoordinatorSession(plan, ROUND_ID, ROSTER, Stream("c"), self.store)
        self.people = {i: self.session(i, lambda _: None, MemoryJournal()) for i in range(1, 12)}
        self.people[0] = self.session(0, pay, self.journal)

    def session(
        self, position: int, pay: Callable[[bytes], None], journal: MemoryJournal
    ) -> ParticipantSession:
        policy = POLICY.model_copy(update={"threat_models": ["malicious", "semi-honest"]})
        return ParticipantSession(
            review(self.plan.to_bytes(), policy, ROSTER),
            ROUND_ID,
            ROSTER,
            position,
            identity(position),
            records(1),
            pay=pay,
            randomness=Stream(position),
            noise=lambda: KeyStream.from_key_for_tests(bytes((position,)) * 32),
            journal=journal,
        )

    def told(self) -> dict[int, bytes]:
        """What everybody is told when the inputs are due."""
        answers = {i: session.begin() for i, session in sorted(self.people.items())}
        while True:
            for i, answer in answers.items():
                self.coordinator.receive(i, answer)
            invited = sorted(self.coordinator.close_phase())
            messages = {i: self.coordinator.machine.message_for(i) for i in invited}
            if self.coordinator.machine.state is CoordinatorState.COLLECTING_INPUTS:
                return messages
            answers = {i: self.people[i].receive(message) for i, message in messages.items()}


@THREATS
def test_what_is_paid_for_is_what_leaves_and_nothing_else_is_paid_for(threat_model: str) -> None:
    paid: list[bytes] = []
    one = Round(plan_for(threat_model), paid.append)
    told = one.told()
    assert paid == [], "keys and shares cost nothing"
    left = one.people[0].receive(told[0])
    assert isinstance(m.decode(left), INPUTS)
    assert paid == [sha256(left).digest()]
    assert one.people[0].receive(told[0]) == left
    assert set(paid) == {sha256(left).digest()}, "the same again, for the same bytes"


@THREATS
def test_nothing_leaves_that_cannot_be_paid_for_also_after_a_restart(threat_model: str) -> None:
    """The input is journalled by then: whoever restarts pays for those very bytes, or stays out."""

    def broke(_: bytes) -> None:
        raise Refused("no budget")

    one = Round(plan_for(threat_model), broke)
    told = one.told()
    with pytest.raises(Refused, match="no budget"):
        one.people[0].receive(told[0])
    with pytest.raises(Refused, match="no budget"):
        one.session(0, broke, one.journal).begin()
    paid: list[bytes] = []
    left = one.session(0, paid.append, one.journal).begin()
    assert isinstance(m.decode(left), INPUTS)
    assert paid == [sha256(left).digest()]


@THREATS
def test_the_key_that_signs_the_transcript_is_in_no_record(threat_model: str) -> None:
    """What the recorder notes of the randomness goes into the transcript, for everybody to read."""
    one = Round(plan_for(threat_model), lambda _: None)
    secret = one.coordinator._identity.seed
    assert one.store
    assert not any(secret in value for value in one.store.values())
