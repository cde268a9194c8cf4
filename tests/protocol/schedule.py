"""One random run of a round from one seed: everything that can go wrong on a network, does.

Messages are delivered in random order, twice, late, from the past and from another session; anybody
falls silent for good, or crashes and comes back from its journal; the coordinator crashes and comes
back from its last commit. Nobody cheats: that is for the adversary's tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.aggregation.method import Reply
from dhdmm.secagg import messages as m
from dhdmm.secagg.coordinator import Coordinator
from dhdmm.secagg.participant import Participant
from dhdmm.secagg.states import ParticipantState
from tests.protocol.network import FINAL, MALICIOUS, SEMI_HONEST, Setting, Stream, setting

EXPECTED_REFUSALS = {AbortReason.WRONG_PHASE, AbortReason.WRONG_SESSION}
# nobody cheats, so these are the only reasons to leave: too many others did
EXPECTED_ABORTS = {
    AbortReason.TOO_FEW_PARTICIPANTS,
    AbortReason.TOO_FEW_ACKS,
    AbortReason.TOO_FEW_SHARES,
}


class FlakyJournal(MemoryJournal):
    """Fails now and then, before or after it has kept what it was given."""

    def __init__(self, dice: Stream, failure_rate: float) -> None:
        super().__init__()
        self._dice, self._rate = dice, failure_rate

    def write(self, state: bytes, outgoing: bytes) -> None:
        fails = self._dice.chance(self._rate)
        if fails and self._dice.chance(0.5):
            raise OSError("disk full")
        super().write(state, outgoing)
        if fails:
            raise OSError("no answer from the disk")


@dataclass(frozen=True)
class Weather:
    """Probabilities per event."""

    silence: float  # a participant is never heard again
    restart: float  # a participant restarts
    crash: float  # the coordinator restarts from its last commit
    again: float  # a delivered message stays on the network and will come once more
    foreign: float  # a message of another session comes
    deadline: float  # the phase is closed although somebody is awaited
    journal: float  # a journal fails


CALM = Weather(0, 0, 0, 0, 0, 0, 0)


def random_weather(dice: Stream) -> Weather:
    """From calm to storm; each kind of trouble may be absent."""

    def rate(highest: float) -> float:
        return highest * dice.below(1000) / 1000 if dice.chance(0.6) else 0.0

    return Weather(
        silence=rate(0.02),
        restart=rate(0.1),
        crash=rate(0.04),
        again=rate(0.3),
        foreign=rate(0.05),
        deadline=rate(0.015),
        journal=rate(0.05),
    )


def random_setting(dice: Stream) -> Setting:
    """Both models, complete and sparse graphs, loose and strict floors, 2ᵇ and a prime."""
    threat_model = (SEMI_HONEST, MALICIOUS)[dice.below(2)]
    n = 3 + min(dice.below(10), dice.below(10))
    degree = n - 1
    if n > 4 and dice.chance(0.4):
        sparse = range(3, n - 1) if threat_model is MALICIOUS else range(2, n - 1, 2)
        degree = dice.pick(sparse)
    return setting(
        n,
        threat_model,
        degree=degree,
        threshold=degree // 2 + 1 + dice.below((degree - 1) // 3 + 1),
        minimum_survivors=max(2, n - dice.below(1 + n // 2)),
        modulus=(2**16, 2**25, 2**40, 2**32)[dice.below(4)],
    )


@dataclass
class Run:
    """The state of one simulated round."""

    setting: Setting
    weather: Weather
    dice: Stream
    journal: Callable[[Stream, float], MemoryJournal] = FlakyJournal
    coordinator: Coordinator = field(init=False)
    participants: dict[int, Participant] = field(init=False)
    released: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    left: dict[int, AbortReason] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._store: dict[str, bytes] = {}
        parameters, roster = self.setting.parameters, self.setting.roster
        self.coordinator = Coordinator(parameters, roster, self.dice, self._store)
        self._journals = {
            i: self.journal(self.dice, self.weather.journal) for i in self.setting.everybody
        }
        self.participants = {}
        self._up: list[tuple[int, bytes]] = []  # on their way to the coordinator
        self._down: list[tuple[int, bytes]] = []  # on their way to a participant
        self._commit()

    def finish(self) -> Coordinator:
        for i in self.setting.everybody:
            self._restart(i)
        while self.coordinator.state not in FINAL:
            self._step()
        for i, message in self._down:  # what is still on its way arrives in the end
            self._to_participant(i, message)
        return self.coordinator

    def _step(self) -> None:
        weather, dice, coordinator = self.weather, self.dice, self.coordinator
        heard = coordinator._senders(), coordinator.departed
        assert coordinator.awaited == coordinator.invited.difference(*heard)
        waiting = len(self._up) + len(self._down)
        if not waiting or not self.coordinator.awaited or dice.chance(weather.deadline):
            self._close()
        elif dice.chance(weather.crash):
            self._crash()
        elif dice.chance(weather.restart) and self.participants:
            self._restart(dice.pick(self.participants))
        elif dice.chance(weather.silence) and self.participants:
            del self.participants[dice.pick(self.participants)]
        else:
            self._deliver(dice.below(waiting))

    def _deliver(self, index: int) -> None:
        upward = index < len(self._up)
        queue = self._up if upward else self._down
        place = index if upward else index - len(self._up)
        position, data = queue[place]
        if not self.dice.chance(self.weather.again):
            queue[place] = queue[-1]
            queue.pop()
        if self.dice.chance(self.weather.foreign):
            data = data[:2] + self.dice(32) + data[34:]  # the session id
        (self._to_coordinator if upward else self._to_participant)(position, data)

    def _to_coordinator(self, position: int, data: bytes) -> None:
        try:
            reply = self.coordinator.receive(position, data)
        except RemoteProtocolError as error:
            if error.reason not in EXPECTED_REFUSALS:
                raise
            return
        assert reply is not Reply.EXCLUDED
        if self.dice.chance(0.5):
            self._commit()

    def _to_participant(self, position: int, data: bytes) -> None:
        participant = self.participants.get(position)
        if participant is None:
            return
        try:
            answer = participant.receive(data)
            if participant.state is ParticipantState.READY_FOR_INPUT:
                answer = participant.give_input(self.setting.unit_vector(position))
        except RemoteProtocolError as error:
            if error.reason not in EXPECTED_REFUSALS:
                raise
        except OSError:
            self._restart(position)
        else:
            self._send(position, answer)

    def _send(self, position: int, answer: bytes | None) -> None:
        if answer is None:
            return
        message = m.decode(answer)
        if isinstance(message, m.Unmask):
            for reveal in message.reveals:
                self.released.setdefault((position, reveal.position), set()).add(reveal.kind)
        if isinstance(message, m.Aborted):
            self.left[position] = message.reason
        self._up.append((position, answer))

    def _restart(self, position: int) -> None:
        """From the journal, with other randomness than before."""
        journal = self._journals[position]
        randomness = Stream(self.dice(16))
        participant = self.setting.resumed(position, randomness, journal)
        self.participants[position] = participant
        try:
            answer = participant.outgoing or participant.begin()
        except OSError:
            return self._restart(position)
        self._send(position, answer)
        self._poll(position)
        return None

    def _poll(self, position: int) -> None:
        message = self.coordinator.message_for(position)
        if message is not None:
            self._down.append((position, message))

    def _close(self) -> None:
        for i in sorted(self.coordinator.close_phase()):
            self._poll(i)
        self._commit()

    def _commit(self) -> None:
        self.coordinator.flush()
        self._committed = dict(self._store)

    def _crash(self) -> None:
        """What was not committed was not acknowledged either: participants send it again."""
        parameters, roster = self.setting.parameters, self.setting.roster
        self._store = dict(self._committed)
        self.coordinator = Coordinator(parameters, roster, Stream(), self._store)
        for i, participant in self.participants.items():
            self._send(i, participant.outgoing)
            self._poll(i)


def run(
    seed: int,
    weather: Weather | None = None,
    journal: Callable[[Stream, float], MemoryJournal] = FlakyJournal,
) -> Run:
    """The run that a seed stands for."""
    dice = Stream("schedule", seed)
    chosen = random_setting(dice)
    simulated = Run(chosen, weather or random_weather(dice), dice, journal)
    simulated.finish()
    return simulated
