"""Secrets are drawn one by one, remembered before anything leaves, and forgotten in the end."""

from __future__ import annotations

import pytest

from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, MalformedMessage
from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.secagg import messages as m
from dhdmm.secagg.memory import Memory
from dhdmm.secagg.states import CoordinatorState
from tests.protocol.network import MALICIOUS, SEMI_HONEST, Network, Stream, setting

BOTH = pytest.mark.parametrize("threat_model", [SEMI_HONEST, MALICIOUS])
SECRETS = ("mask_secret", "channel_secret", "seed")


class OneDrawDiffers:
    """The randomness of a seed, but one of the draws of 32 bytes is another."""

    def __init__(self, number: int | None) -> None:
        self._stream, self._other, self._number = Stream("same"), Stream("other"), number
        self._drawn = 0

    def __call__(self, size: int) -> bytes:
        usual = self._stream(size)
        if size != 32:
            return usual
        self._drawn += 1
        return self._other(32) if self._drawn - 1 == self._number else usual


def secrets_of(threat_model, differing: int | None) -> dict[str, bytes]:
    """What participant 0 holds when its shares are sealed."""
    chosen = setting(5, threat_model)
    network = Network.of(chosen)
    network.participants[0] = chosen.participant(0, OneDrawDiffers(differing), MemoryJournal())
    answers = {i: participant.begin() for i, participant in network.participants.items()}
    while not network.participants[0]._memory.seed:
        answers = network.phase(answers)
    return {name: getattr(network.participants[0]._memory, name) for name in SECRETS}


@BOTH
def test_each_secret_has_a_draw_of_its_own(threat_model) -> None:
    """Neither follows from another: shares of the seed and of the mask key do get revealed."""
    usual = secrets_of(threat_model, None)
    assert len(set(usual.values())) == 3
    for number, name in enumerate(SECRETS):
        changed = secrets_of(threat_model, number)
        assert {other for other in SECRETS if changed[other] != usual[other]} == {name}


@BOTH
def test_seed_and_mask_key_do_not_outlive_the_input(threat_model) -> None:
    network = Network.of(setting(5, threat_model))
    answers = {i: participant.begin() for i, participant in network.participants.items()}
    memory = network.participants[0]._memory
    while not memory.held:
        answers = network.phase(answers)
    assert (memory.seed, memory.mask_secret) == (b"", b"")
    assert memory.channel_secret
    while network.coordinator.result is None:
        answers = network.phase(answers)
    assert (memory.channel_secret, memory.held) == (b"", ())


@BOTH
def test_who_leaves_forgets_everything(threat_model) -> None:
    network = Network.of(setting(5, threat_model))
    answers = {i: participant.begin() for i, participant in network.participants.items()}
    participant = network.participants[0]
    while not participant._memory.held:
        answers = network.phase(answers)
    participant.abort(AbortReason.STOPPED)
    memory = participant._memory
    assert not any((memory.channel_secret, memory.held, memory.seed, memory.mask_secret))


# The journal


class FailsOnce(MemoryJournal):
    """The disk is full for one write."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._left = number

    def write(self, state: bytes, outgoing: bytes) -> None:
        self._left -= 1
        if self._left == 0:
            raise OSError("disk full")
        super().write(state, outgoing)


@pytest.mark.fault(7)
@BOTH
def test_participant_whose_journal_failed_does_nothing_more(threat_model) -> None:
    """What it would say next rests on a state that a restart does not know."""
    chosen, journal = setting(5, threat_model), FailsOnce(2)
    network, told = Network.of(chosen), list[bytes]()
    participant = network.participants[0] = chosen.participant(0, Stream(0, 0), journal)

    def keep(phase: CoordinatorState, position: int, data: bytes) -> bytes | None:
        told.extend([data] if position == 0 else [])
        return None if position == 0 else data

    network.to_participant = keep
    network.phase({i: each.begin() for i, each in network.participants.items()})
    with pytest.raises(OSError, match="disk full"):
        participant.receive(told[0])
    ended = m.Aborted(chosen.parameters.session, 0, AbortReason.STOPPED).encode()
    with pytest.raises(LocalProtocolError, match="journal failed"):
        participant.receive(ended)
    resumed = chosen.resumed(0, Stream("after the restart"), journal)
    assert isinstance(m.decode(resumed.outgoing), m.Keys)


@pytest.mark.fault(7)
def test_departure_that_was_not_journalled_is_none() -> None:
    participant = setting(5).participant(0, Stream(0), FailsOnce(2))
    participant.begin()
    with pytest.raises(OSError, match="disk full"):
        participant.abort(AbortReason.STOPPED)
    root = m.Root(participant.parameters.session, 0, bytes(32)).encode()
    with pytest.raises(LocalProtocolError, match="journal failed"):
        participant.receive(root)


@BOTH
def test_journal_of_another_round_or_seat_is_refused(threat_model) -> None:
    chosen, journal = setting(5, threat_model), MemoryJournal()
    chosen.participant(0, Stream(0), journal).begin()
    others = [
        (setting(5, threat_model, round_id=b"another round..."), 0),
        (chosen, 1),
    ]
    for other, position in others:
        with pytest.raises(LocalProtocolError, match="another session or participant"):
            other.resumed(position, Stream(1), journal)
    assert chosen.resumed(0, Stream(1), journal).outgoing is not None


def test_journal_that_is_not_one_is_refused() -> None:
    written = Memory(bytes(32), bytes(4)).encode()
    assert Memory.decode(written).session == bytes(32)
    with pytest.raises(LocalProtocolError, match="version"):
        Memory.decode(b"another format!!!!!" + written[19:])
    with pytest.raises(MalformedMessage, match="left over"):
        Memory.decode(written + b"\0")
