"""Who has a part of the roster learns of the others from proofs, and believes nobody else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhdmm.aggregation.errors import AbortReason, MalformedMessage, RemoteProtocolError
from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.aggregation.roster import Entry, KnownRoster, PartOfRoster, Roster
from dhdmm.participant.policy import review
from dhdmm.privacy.keystream import KeyStream
from dhdmm.secagg import messages as m
from dhdmm.secagg.states import CoordinatorState
from dhdmm.session.coordinator import CoordinatorSession
from dhdmm.session.introductions import Introductions, split
from dhdmm.session.participant import ParticipantSession
from tests.participant.data_holder import POLICY, ROSTER
from tests.planning.studies import planned, records
from tests.protocol.network import Stream, identity

ROUND_ID = b"a round of tests"
VICTIM, ROBBED = 0, 5
SYBIL = identity(99)


def person(position: int, roster: KnownRoster, **options: object) -> ParticipantSession:
    signing = options.get("signing", identity(position))
    return ParticipantSession(
        review(planned().to_bytes(), POLICY, ROSTER),
        ROUND_ID,
        roster,
        position,
        signing,  # type: ignore[arg-type]
        records(1),
        pay=lambda _: None,
        randomness=Stream(position),
        noise=lambda: KeyStream.from_key_for_tests(bytes((position,)) * 32),
        journal=MemoryJournal(),
    )


class Scene:
    """A malicious coordinator has put a key of its own in somebody's place."""

    def __init__(self, robbed: bool) -> None:
        keys = list(ROSTER.identities)
        keys[ROBBED] = SYBIL.public if robbed else keys[ROBBED]
        self.shown = Roster(ROSTER.names, tuple(keys))
        self.people = {i: person(i, PartOfRoster.of(ROSTER, i)) for i in range(12)}
        if robbed:
            sybil = PartOfRoster.of(ROSTER, ROBBED)
            sybil._known[ROBBED] = self.shown.entry(ROBBED)
            self.people[ROBBED] = person(ROBBED, sybil, signing=SYBIL)
        self.session = CoordinatorSession(planned(), ROUND_ID, ROSTER, Stream("c"))
        self.session.machine._roster = self.shown  # type: ignore[attr-defined]

    def neighbours(self) -> tuple[list[int], bytes]:
        """Whose signatures the victim is shown, and the message that shows them."""
        machine = self.session.machine
        answers = {i: one.begin() for i, one in self.people.items()}
        while True:
            for i, answer in answers.items():
                assert answer is not None
                self.session.receive(i, answer)
            self.session.close_phase()
            if machine.state == CoordinatorState.COLLECTING_SHARES:
                message = machine.message_for(VICTIM)
                assert message is not None
                return list(machine.introduced(VICTIM)), message
            answers = {
                i: one.receive(self.session.message_for(i) or b"") for i, one in self.people.items()
            }


def refusal(session: ParticipantSession, told: bytes) -> AbortReason:
    """Why it is refused: an introduction at once, a message by leaving."""
    try:
        left = m.decode(session.receive(told) or b"")
    except RemoteProtocolError as error:
        return error.reason
    assert isinstance(left, m.Aborted)
    return left.reason


def test_the_message_comes_after_an_introduction_of_those_whose_signatures_it_has():
    scene = Scene(robbed=False)
    introduced, message = scene.neighbours()
    told = scene.session.message_for(VICTIM)
    assert told == Introductions(ROSTER).before(message, introduced)
    assert isinstance(m.decode(scene.people[VICTIM].receive(told) or b""), m.Shares)
    chosen = [j.position for j in m.decode(message).neighbours if j.direction & m.Direction.OUT]
    assert introduced == chosen == [i for i in range(12) if i != VICTIM]


@pytest.mark.fault(17)
@pytest.mark.parametrize("how", ["another key is shown", "it is left out", "nobody is introduced"])
def test_a_key_in_somebodys_place_is_not_believed(how: str):
    scene = Scene(robbed=True)
    introduced, message = scene.neighbours()
    told = {
        "another key is shown": Introductions(scene.shown).before(message, introduced),
        "it is left out": Introductions(ROSTER).before(
            message, [i for i in introduced if i != ROBBED]
        ),
        "nobody is introduced": message,
    }[how]
    assert refusal(scene.people[VICTIM], told) is AbortReason.BAD_PROOF


@pytest.mark.fault(17)
def test_without_the_proof_shares_would_go_to_the_key_in_its_place(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(
        PartOfRoster, "learn", lambda self, entries, _proof: self._known.update(entries)
    )
    scene = Scene(robbed=True)
    introduced, message = scene.neighbours()
    said = scene.people[VICTIM].receive(Introductions(scene.shown).before(message, introduced))
    assert isinstance(m.decode(said or b""), m.Shares)


def test_the_true_key_does_not_vouch_for_keys_that_another_signed():
    scene = Scene(robbed=True)
    introduced, message = scene.neighbours()
    told = Introductions(ROSTER).before(message, introduced)
    assert refusal(scene.people[VICTIM], told) is AbortReason.BAD_SIGNATURE


@pytest.mark.parametrize("change", ["name", "key", "position"])
def test_an_entry_that_is_not_on_the_roster_is_refused(change: str):
    part, honest = PartOfRoster(len(ROSTER), ROSTER.digest), ROSTER.entry(3)
    proof = ROSTER.tree.multiproof([3])
    part.learn({3: honest}, proof)
    assert part.identity(3) == ROSTER.identities[3]
    changed = {
        "name": {3: Entry("somebody else", honest.identity)},
        "key": {3: Entry(honest.name, SYBIL.public)},
        "position": {4: honest},
    }[change]
    with pytest.raises(RemoteProtocolError):
        part.learn(changed, proof)
    with pytest.raises(RemoteProtocolError, match="nobody has shown"):
        part.identity(4)


@given(cut=st.integers(min_value=1), flip=st.integers(min_value=0))
def test_an_introduction_that_is_cut_off_or_changed_is_refused_or_another(cut: int, flip: int):
    whole = Introductions(ROSTER).before(b"\x01 message", [1, 4, 7])
    assert split(whole).message == b"\x01 message"
    changed = bytearray(whole)
    changed[flip % len(whole)] ^= 1 << flip % 7
    for data in (whole[: -(cut % len(whole)) or None], bytes(changed)):
        try:
            entries, proof, message = split(data)
        except MalformedMessage:
            continue
        part = PartOfRoster(len(ROSTER), ROSTER.digest)
        if not entries:
            continue
        try:
            part.learn(entries, proof)
        except RemoteProtocolError:
            continue
        assert message != b"\x01 message" or data == whole


def test_a_plan_may_name_its_roster_by_either_digest():
    flat = replace(planned(), roster_digest=ROSTER.flat_digest)
    pins = POLICY.model_copy(update={"rosters": [ROSTER.flat_digest.hex()]})
    assert review(flat.to_bytes(), pins, ROSTER).plan.roster_digest == ROSTER.flat_digest
