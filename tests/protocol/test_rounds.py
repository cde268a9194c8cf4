"""Whole rounds with one thing going wrong, for both threat models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.aggregation.method import Reply, ThreatModel
from dhdmm.aggregation.roster import Roster
from dhdmm.secagg import messages as m
from dhdmm.secagg.channels import Neighbour, keys_statement
from dhdmm.secagg.coordinator import Coordinator
from dhdmm.secagg.keys import LOW_ORDER_KEYS, KeyPair
from dhdmm.secagg.memory import Held, Memory, Seen
from dhdmm.secagg.parameters import MODELS
from dhdmm.secagg.participant import Participant
from dhdmm.secagg.states import COORDINATOR, CoordinatorState, Local, ParticipantState
from tests.protocol.network import (
    MALICIOUS,
    SEMI_HONEST,
    Network,
    Setting,
    Stream,
    assert_sum_is_of_announced_survivors,
    identity,
    roster_of,
    setting,
)
from tests.sums import NoResult, PlainSum, SecureAggregation

BOTH = pytest.mark.parametrize("threat_model", [SEMI_HONEST, MALICIOUS])


def phases(threat_model: ThreatModel) -> list[CoordinatorState]:
    table = COORDINATOR[threat_model]
    return [phase for phase in table if Local.CLOSE in table[phase]]


def silent_from(phase: CoordinatorState, who: set[int], threat_model: ThreatModel):
    """A hook: these participants' messages no longer arrive from this phase on."""
    order = phases(threat_model)

    def hook(now: CoordinatorState, position: int, data: bytes) -> bytes | None:
        return None if position in who and order.index(now) >= order.index(phase) else data

    return hook


@pytest.mark.fault(1)
@pytest.mark.parametrize(
    ("threat_model", "phase"),
    [(threat_model, phase) for threat_model in MODELS for phase in phases(threat_model)],
)
@pytest.mark.parametrize("count", [1, 2])
def test_dropouts_in_any_phase_leave_the_sum_of_the_survivors(
    threat_model: ThreatModel, phase: CoordinatorState, count: int
) -> None:
    gone = set(range(0, 2 * count, 2))
    hook = silent_from(phase, gone, threat_model)
    coordinator = Network.of(setting(7, threat_model), to_coordinator=hook).run()
    assert_sum_is_of_announced_survivors(coordinator)
    counted = phases(threat_model).index(phase) > phases(threat_model).index(
        CoordinatorState.COLLECTING_INPUTS
    )
    assert len(coordinator.result.survivors) == (7 if counted else 7 - count)


@pytest.mark.fault(2)
@BOTH
def test_aborts_and_unmasks_nothing_when_survivors_are_below_the_floor(
    threat_model: ThreatModel,
) -> None:
    hook = silent_from(CoordinatorState.COLLECTING_INPUTS, {0, 1, 2}, threat_model)
    network = Network.of(setting(7, threat_model), to_coordinator=hook)
    coordinator = network.run()
    assert coordinator.abort_reason is AbortReason.TOO_FEW_PARTICIPANTS
    assert all(p.state is ParticipantState.ABORTED for p in network.participants.values())


@BOTH
def test_participant_refuses_a_survivor_set_below_the_floor(threat_model: ThreatModel) -> None:
    def shrink(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        message = m.decode(data)
        if isinstance(message, m.Survivors):
            few = m.Bitmap.of(7, [position, (position + 1) % 7])
            return replace(message, alive=few).encode()
        return data

    network = Network.of(setting(7, threat_model), to_participant=shrink)
    coordinator = network.run()
    assert coordinator.result is None
    reasons = {p.abort_reason for p in network.participants.values()}
    assert reasons == {AbortReason.TOO_FEW_PARTICIPANTS}


@BOTH
@pytest.mark.parametrize("modulus", [2**1, 2**20, 2**32, 2**33, 2**63])
def test_real_and_ideal_sum_agree(threat_model: ThreatModel, modulus: int) -> None:
    chosen = setting(8, threat_model, modulus=modulus, minimum_survivors=4)
    dice = Stream("inputs", modulus)
    inputs = {
        i: np.array([dice.below(modulus) for _ in range(8)], dtype=np.uint64) for i in range(8)
    }
    dropouts = {
        CoordinatorState.COLLECTING_KEYS: {1},
        CoordinatorState.COLLECTING_INPUTS: {4},
        CoordinatorState.COLLECTING_REVEALS: {0},
    }
    real = SecureAggregation(
        chosen.parameters, chosen.roster, [identity(i) for i in range(8)], dice, dropouts
    )
    ideal = PlainSum(chosen.parameters, dropouts)
    assert real.sum(inputs).survivors == ideal.sum(inputs).survivors
    assert real.sum(inputs).total.tolist() == ideal.sum(inputs).total.tolist()


@BOTH
def test_real_and_ideal_sum_refuse_alike(threat_model: ThreatModel) -> None:
    chosen = setting(6, threat_model, minimum_survivors=5)
    inputs = {i: np.ones(6, dtype=np.int64) for i in range(4)}
    real = SecureAggregation(
        chosen.parameters, chosen.roster, [identity(i) for i in range(6)], Stream(0)
    )
    for aggregation in (real, PlainSum(chosen.parameters)):
        with pytest.raises(NoResult) as refusal:
            aggregation.sum(inputs)
        assert refusal.value.reason is AbortReason.TOO_FEW_PARTICIPANTS


@pytest.mark.fault(8, 9)
@BOTH
def test_duplicate_is_counted_once_and_another_body_is_refused(threat_model: ThreatModel) -> None:
    network = Network.of(setting(5, threat_model))
    coordinator = network.coordinator
    repeated: list[tuple[int, bytes]] = []

    def twice(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        assert coordinator.receive(position, data) is Reply.ACCEPTED
        repeated.append((position, data))
        return data

    network.to_coordinator = twice
    network.run()
    assert_sum_is_of_announced_survivors(coordinator)
    for position, data in repeated:  # even when its phase is long over
        assert coordinator.receive(position, data) is Reply.REPEATED
        last = bytes((data[-1] ^ 1,))
        with pytest.raises(RemoteProtocolError) as refusal:
            coordinator.receive(position, data[:-1] + last)
        assert refusal.value.reason in (
            AbortReason.CONFLICTING_MESSAGE,
            AbortReason.MALFORMED,  # when the last byte is padding or the like
        )
    assert_sum_is_of_announced_survivors(coordinator)


@pytest.mark.fault(10)
@BOTH
def test_late_message_is_refused_by_its_phase(threat_model: ThreatModel) -> None:
    late: dict[CoordinatorState, bytes] = {}

    def hold(phase: CoordinatorState, position: int, data: bytes) -> bytes | None:
        if position != 3:
            return data
        late[phase] = data
        return None

    network = Network.of(setting(6, threat_model), to_coordinator=hold)
    coordinator = network.run()
    assert_sum_is_of_announced_survivors(coordinator)
    assert 3 not in coordinator.result.survivors
    with pytest.raises(RemoteProtocolError) as refusal:
        coordinator.receive(3, late[CoordinatorState.COLLECTING_KEYS])
    assert refusal.value.reason is AbortReason.WRONG_PHASE


@pytest.mark.fault(11)
@BOTH
def test_messages_of_another_round_are_refused_by_both_sides(threat_model: ThreatModel) -> None:
    other_down: dict[tuple[CoordinatorState, int], bytes] = {}
    other_up: dict[tuple[CoordinatorState, int], bytes] = {}

    def record(into):
        def hook(phase: CoordinatorState, position: int, data: bytes) -> bytes:
            into[phase, position] = data
            return data

        return hook

    other = setting(5, threat_model, round_id=b"yesterday, noon.")
    Network.of(other, to_coordinator=record(other_up), to_participant=record(other_down)).run()
    network = Network.of(setting(5, threat_model), seed=1)

    def replay_up(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        with pytest.raises(RemoteProtocolError) as refusal:
            network.coordinator.receive(position, other_up[phase, position])
        assert refusal.value.reason is AbortReason.WRONG_SESSION
        return data

    def replay_down(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        if (phase, position) in other_down:
            with pytest.raises(RemoteProtocolError) as refusal:
                network.participants[position].receive(other_down[phase, position])
            assert refusal.value.reason is AbortReason.WRONG_SESSION
        return data

    network.to_coordinator, network.to_participant = replay_up, replay_down
    assert_sum_is_of_announced_survivors(network.run())


@pytest.mark.fault(25)
@BOTH
def test_tampered_share_counts_as_no_share(threat_model: ThreatModel) -> None:
    def tamper(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        message = m.decode(data)
        if not isinstance(message, m.RelayedShares) or position != 2:
            return data
        first, *others = message.ciphertexts
        spoilt = (first[:-1] + bytes((first[-1] ^ 1,)), *others)
        return replace(message, ciphertexts=spoilt).encode()

    network = Network.of(setting(6, threat_model), to_participant=tamper)
    assert_sum_is_of_announced_survivors(network.run())


def test_sender_of_an_unreadable_share_or_its_accuser_stays_out() -> None:
    """On a sparse graph the accuser did not choose the sender, so it leaves it out of M_i."""
    accusers: set[int] = set()

    def tamper(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        message = m.decode(data)
        if isinstance(message, m.RelayedShares) and position == 2:
            spoilt = tuple(bytes(len(c)) for c in message.ciphertexts)
            return replace(message, ciphertexts=spoilt).encode()
        return data

    replies: dict[int, Reply] = {}
    chosen = setting(12, degree=5, threshold=4, minimum_survivors=6)
    network = Network.of(chosen, to_participant=tamper)

    def note(phase: CoordinatorState, position: int, data: bytes) -> bytes | None:
        if phase is CoordinatorState.COLLECTING_INPUTS:
            replies[position] = network.coordinator.receive(position, data)
            accusers.update([position] if replies[position] is Reply.EXCLUDED else [])
            return None
        return data

    network.to_coordinator = note
    coordinator = network.run()
    assert accusers
    if coordinator.result is not None:
        assert_sum_is_of_announced_survivors(coordinator)
        assert accusers.isdisjoint(coordinator.result.survivors.members())


@pytest.mark.fault(26)
@BOTH
def test_wrong_share_is_detected_and_the_round_aborts(threat_model: ThreatModel) -> None:
    def falsify(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        message = m.decode(data)
        if not isinstance(message, m.Unmask) or position != 4:
            return data
        first, *others = message.reveals
        false = first._replace(share=bytes(len(first.share)))
        return replace(message, reveals=(false, *others)).encode()

    coordinator = Network.of(setting(6, threat_model), to_coordinator=falsify).run()
    assert coordinator.result is None
    assert coordinator.abort_reason is AbortReason.INCONSISTENT_SHARES


@pytest.mark.fault(21)
@BOTH
@pytest.mark.parametrize("damage", [lambda v: v[:-1], lambda v: v + b"\0", lambda v: b""])
def test_masked_vector_of_wrong_length_is_refused_before_it_is_added(
    threat_model: ThreatModel, damage
) -> None:
    network = Network.of(setting(5, threat_model))

    def hook(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        message = m.decode(data)
        if isinstance(message, m.MaskedInput):
            with pytest.raises(RemoteProtocolError) as refusal:
                network.coordinator.receive(
                    position, replace(message, vector=damage(message.vector)).encode()
                )
            assert refusal.value.reason is AbortReason.MALFORMED
        return data

    network.to_coordinator = hook
    assert_sum_is_of_announced_survivors(network.run())


def stop_before(network: Network, state: CoordinatorState) -> dict[int, bytes]:
    """Run up to a phase; the answers that are ready to be sent in it."""
    answers = {i: participant.begin() for i, participant in network.participants.items()}
    while network.coordinator.state is not state:
        answers = network.phase(answers)
    return answers


@pytest.mark.fault(6)
@BOTH
def test_second_survivor_set_is_refused_also_after_a_restart(threat_model: ThreatModel) -> None:
    chosen = setting(6, threat_model)
    bitmaps: dict[int, bytes] = {}

    def keep(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        if isinstance(m.decode(data), m.Survivors):
            bitmaps[position] = data
        return data

    network = Network.of(chosen, to_participant=keep)
    answers = stop_before(network, CoordinatorState.COLLECTING_REVEALS)
    journal = network.participants[0]._journal
    resumed = chosen.resumed(0, Stream("other"), journal)
    assert resumed.outgoing == answers[0]
    first = m.decode(bitmaps[0])
    second = replace(first, alive=m.Bitmap.of(6, range(5))).encode()
    for participant in (network.participants[0], resumed):
        with pytest.raises(RemoteProtocolError) as refusal:
            participant.receive(second)
        assert refusal.value.reason is AbortReason.SECOND_BITMAP
        assert participant.outgoing == answers[0]


def test_second_root_is_refused_also_after_a_restart() -> None:
    chosen = setting(5)
    network = Network.of(chosen)
    stop_before(network, CoordinatorState.COLLECTING_CHOICES)
    journal = network.participants[1]._journal
    resumed = chosen.resumed(1, Stream("other"), journal)
    other_root = m.Root(chosen.parameters.session, 1, bytes(32)).encode()
    for participant in (network.participants[1], resumed):
        answer = m.decode(participant.receive(other_root))
        assert isinstance(answer, m.Aborted)
        assert answer.reason is AbortReason.SECOND_ROOT


@BOTH
def test_restarted_participant_resends_exactly_what_it_sent(threat_model: ThreatModel) -> None:
    chosen = setting(5, threat_model)
    network = Network.of(chosen)

    def restart(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        journal = network.participants[position]._journal
        network.participants[position] = chosen.resumed(position, Stream(phase), journal)
        assert network.participants[position].outgoing == data
        return data

    network.to_coordinator = restart
    assert_sum_is_of_announced_survivors(network.run())


@pytest.mark.fault(7)
@BOTH
def test_nothing_leaves_when_the_journal_fails(threat_model: ThreatModel) -> None:
    class Full(MemoryJournal):
        def write(self, state: bytes, outgoing: bytes) -> None:
            raise OSError("disk full")

    participant = setting(5, threat_model).participant(0, Stream(0), Full())
    with pytest.raises(OSError, match="disk full"):
        participant.begin()
    assert participant.outgoing is None
    with pytest.raises(LocalProtocolError):
        participant.begin()


@pytest.mark.fault(4)
@BOTH
def test_coordinator_resumed_at_every_message_gives_the_same_result(
    threat_model: ThreatModel,
) -> None:
    chosen = setting(5, threat_model)
    expected = Network.of(chosen).run().result
    network = Network.of(chosen)

    def resume(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        network.coordinator.flush()
        store = dict(network.coordinator._store)
        network.coordinator = Coordinator(chosen.parameters, chosen.roster, Stream(), store)
        return data

    network.to_coordinator = resume
    result = network.run().result
    assert result.survivors == expected.survivors
    assert result.total.tolist() == expected.total.tolist()


class SharedLog:
    """One store of two coordinators that take turns, as a log of what each has recorded."""

    class View(dict[str, bytes]):
        def __init__(self, log: list[tuple[str, bytes]]) -> None:
            super().__init__(log)
            self._log, self.read = log, len(log)

        def __setitem__(self, name: str, value: bytes) -> None:
            super().__setitem__(name, value)
            self._log.append((name, value))
            self.read = len(self._log)

        def setdefault(self, name: str, value: bytes = b"") -> bytes:
            if name not in self:
                self[name] = value
            return self[name]

        def news(self) -> list[tuple[str, bytes]]:
            news, self.read = self._log[self.read :], len(self._log)
            self.update(news)
            return news

    def __init__(self, chosen: Setting) -> None:
        self.chosen, self.log = chosen, list[tuple[str, bytes]]()
        self.views = [self.View(self.log)]
        first = Coordinator(chosen.parameters, chosen.roster, Stream("graph"), self.views[0], "0")
        self.coordinators = [first]
        self.turn = 0
        self.join()

    def join(self) -> None:
        shard = str(len(self.coordinators))
        self.views.append(self.View(self.log))
        parameters, roster = self.chosen.parameters, self.chosen.roster
        joined = Coordinator(parameters, roster, Stream(), self.views[-1], shard)
        self.coordinators.append(joined)

    def next(self) -> Coordinator:
        self.coordinators[self.turn].flush()
        self.turn = (self.turn + 1) % len(self.coordinators)
        self.coordinators[self.turn].follow(self.views[self.turn].news())
        return self.coordinators[self.turn]


@BOTH
def test_coordinators_that_take_turns_give_the_same_sum_as_one(threat_model: ThreatModel) -> None:
    chosen = setting(5, threat_model)
    expected = Network.of(chosen).run().result
    network, shared = Network.of(chosen), SharedLog(chosen)

    def next_coordinator(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        if phase is CoordinatorState.COLLECTING_INPUTS and position == 2:
            shared.join()  # and the one whose turn it was dies with nothing unsaid
        network.coordinator = shared.next()
        return data

    network.coordinator = shared.coordinators[0]
    network.to_coordinator = next_coordinator
    result = network.run().result
    assert result.survivors == expected.survivors
    assert result.total.tolist() == expected.total.tolist()
    shards = [name for name, _ in shared.log if name.startswith("sum/")]
    assert len(set(shards)) == 3


@BOTH
def test_a_coordinator_that_is_not_told_of_the_others_takes_a_message_twice(
    threat_model: ThreatModel,
) -> None:
    chosen = setting(5, threat_model)
    shared = SharedLog(chosen)
    first, second = shared.coordinators
    keys = chosen.participant(0, Stream(0), MemoryJournal()).begin()
    assert first.receive(0, keys) is Reply.ACCEPTED
    assert second.receive(0, keys) is Reply.ACCEPTED
    told = SharedLog(chosen)
    assert told.coordinators[0].receive(0, keys) is Reply.ACCEPTED
    assert told.next().receive(0, keys) is Reply.REPEATED


def test_participant_refuses_a_roster_that_is_not_the_pinned_one() -> None:
    chosen = setting(5)
    sybils = Roster(roster_of(5).names, tuple(identity(i + 10).public for i in range(5)))
    with pytest.raises(LocalProtocolError, match="unpinned-roster"):
        replace(chosen, roster=sybils).participant(0, Stream(0), MemoryJournal())


def test_participant_refuses_a_seat_that_its_identity_does_not_own() -> None:
    chosen = setting(5)
    with pytest.raises(LocalProtocolError, match="does not own"):
        Participant(chosen.parameters, chosen.roster, identity(1), 0, Stream(0), MemoryJournal())


def test_roster_with_one_identity_twice_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="twice"):
        Roster(("a", "b"), (identity(0).public, identity(0).public))


def test_threshold_that_would_let_both_secrets_out_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="2·threshold"):
        setting(9, degree=8, threshold=4)


@BOTH
def test_a_session_begins_once(threat_model: ThreatModel) -> None:
    chosen, journal = setting(5, threat_model), MemoryJournal()
    chosen.participant(0, Stream(0), journal).begin()
    with pytest.raises(LocalProtocolError, match="resume"):
        chosen.participant(0, Stream(1), journal).begin()


@pytest.mark.parametrize("key", sorted(LOW_ORDER_KEYS))
def test_coordinator_refuses_keys_with_which_no_neighbour_could_agree(key: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as refusal:
        KeyPair.from_secret(Stream(0)(32)).agree(key)
    assert refusal.value.reason is AbortReason.BAD_PUBLIC_KEY
    chosen = setting(5, SEMI_HONEST)
    coordinator = Coordinator(chosen.parameters, chosen.roster, Stream(0))
    good = KeyPair.from_secret(Stream(1)(32)).public
    with pytest.raises(RemoteProtocolError) as refusal:
        coordinator.receive(0, m.Keys(chosen.parameters.session, 0, good, key).encode())
    assert refusal.value.reason is AbortReason.BAD_PUBLIC_KEY


def test_coordinator_refuses_keys_that_are_taken_or_badly_signed() -> None:
    chosen = setting(5)
    first, second = (chosen.participant(i, Stream(i), MemoryJournal()) for i in range(2))
    coordinator = Coordinator(chosen.parameters, chosen.roster, Stream(0))
    honest = m.decode(first.begin())
    with pytest.raises(RemoteProtocolError) as refusal:
        coordinator.receive(0, replace(honest, signature=bytes(64)).encode())
    assert refusal.value.reason is AbortReason.BAD_SIGNATURE
    assert coordinator.receive(0, honest.encode()) is Reply.ACCEPTED
    own = m.decode(second.begin())
    copied = honest.mask_key, own.channel_key
    statement = keys_statement(chosen.parameters.session, 1, *copied)
    thief = m.SignedKeys(chosen.parameters.session, 1, *copied, identity(1).sign(statement))
    with pytest.raises(RemoteProtocolError) as refusal:
        coordinator.receive(1, thief.encode())
    assert refusal.value.reason is AbortReason.REPEATED_KEY


def test_secrets_are_erased_when_they_have_served() -> None:
    network = Network.of(setting(5))
    stop_before(network, CoordinatorState.COLLECTING_ACKS)
    memory = network.participants[0]._memory
    assert not memory.seed
    assert not memory.mask_secret
    answers = {i: p.outgoing for i, p in network.participants.items()}
    while network.coordinator.result is None:
        answers = network.phase(answers)
    assert not memory.channel_secret
    assert not memory.held


def test_state_of_a_participant_stays_small() -> None:
    """Degree 70 and 140 neighbours in all, everything filled in at once."""
    memory = Memory(bytes(32), bytes(4))
    memory.mask_secret = memory.channel_secret = memory.seed = memory.root = bytes(32)
    memory.signature, memory.out_neighbours = bytes(64), tuple(range(70))
    memory.seen = tuple(Seen(code, bytes(32)) for code in range(5))
    memory.neighbours = tuple(Neighbour(i, 3, bytes(32), bytes(32)) for i in range(140))
    memory.held = tuple(Held(i, bytes(72)) for i in range(70))
    memory.included, memory.alive = m.Bitmap.of(140, range(140)), m.Bitmap.of(3000, range(3000))
    assert Memory.decode(memory.encode()) == memory
    assert len(memory.encode()) <= 20_000


def test_no_secret_in_any_repr() -> None:
    network = Network.of(setting(4))
    answers = stop_before(network, CoordinatorState.COLLECTING_INPUTS)
    participant = network.participants[0]
    shown = (
        repr(participant)
        + repr(participant._memory)
        + repr([m.decode(a) for a in answers.values()])
    )
    for secret in (participant._memory.channel_secret, *(h.pair for h in participant._memory.held)):
        assert secret.hex() not in shown
        assert repr(secret)[2:-1] not in shown
