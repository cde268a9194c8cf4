"""The session of a running round in one worker, and how far into the round's log it has read.

Everything the session writes is kept here until the turn appends it to the log; everything others
have appended is followed before the session is asked anything.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, MutableMapping, Set

from dhdmm.planning.plan import Plan
from dhdmm.release import made
from dhdmm.release.release import Release
from dhdmm.secagg.coordinator import STATE, Reply
from dhdmm.secagg.errors import AbortReason
from dhdmm.secagg.keys import Identity
from dhdmm.secagg.randomness import Randomness
from dhdmm.secagg.round import Roster
from dhdmm.secagg.states import CoordinatorState
from dhdmm.service.store import Entry, Row, Turn
from dhdmm.session.coordinator import CoordinatorSession

_SUM = "sum/"


class Records(MutableMapping[str, bytes]):
    """A round's records as of now, and those of them that are not in the store yet."""

    def __init__(self) -> None:
        self._now: dict[str, bytes] = {}
        self._new: list[tuple[str, bytes]] = []
        self._sums: dict[str, bytes] = {}

    def learn(self, records: Iterable[tuple[str, bytes]]) -> None:
        """Take over what the store has."""
        self._now.update(records)

    def take_new(self) -> tuple[list[tuple[str, bytes]], dict[str, bytes]]:
        """What is to be appended, and what is to be overwritten: shards of the sum."""
        taken = self._new, self._sums
        self._new, self._sums = [], {}
        return taken

    def __setitem__(self, name: str, value: bytes) -> None:
        self._now[name] = value
        if name.startswith(_SUM):
            self._sums[name] = value
        else:
            self._new.append((name, value))

    def __getitem__(self, name: str) -> bytes:
        return self._now[name]

    def __contains__(self, name: object) -> bool:
        return name in self._now

    def __delitem__(self, name: str) -> None:
        raise TypeError("nothing of a round is forgotten")

    def __iter__(self) -> Iterator[str]:
        return iter(self._now)

    def __len__(self) -> int:
        return len(self._now)


class Aggregation:
    """A worker's part in a running round. Made in a turn; thrown away if a turn fails."""

    def __init__(
        self, turn: Turn, plan: Plan, roster: Roster, identity: Identity, randomness: Randomness
    ) -> None:
        self._records, self._sequence, self._added = Records(), 0, False
        self._learn(turn, turn.log_after(0))
        self._records.learn(turn.shards())
        self._session = CoordinatorSession(
            plan,
            bytes.fromhex(turn.row.id),
            roster,
            randomness,
            self._records,
            identity=identity,
            shard=secrets.token_hex(8),  # nobody else's, and not one of an earlier life
            clock=made.now,
        )

    @property
    def over(self) -> bool:
        return self._session.over

    @property
    def awaited(self) -> Set[int]:
        """Who has not spoken in this phase."""
        return self._session.machine.awaited

    @property
    def complete(self) -> bool:
        """Whether there is nobody left to wait for in this phase."""
        return not self.over and not self._session.machine.awaited

    def catch_up(self, turn: Turn) -> None:
        """Follow what other workers have appended since this one's last turn."""
        entries = turn.log_after(self._sequence)
        self._learn(turn, entries)
        if any(entry.name == STATE for entry in entries):  # sums are final when a phase is closed
            self._records.learn(turn.shards())
        self._session.machine.follow((entry.name, entry.value) for entry in entries)

    def receive(self, position: int, body: bytes) -> Reply:
        adding = self._session.machine.state is CoordinatorState.COLLECTING_INPUTS
        reply = self._session.receive(position, body)
        self._added |= adding and reply is Reply.ACCEPTED
        return reply

    def message_for(self, position: int) -> bytes | None:
        return self._session.machine.message_for(position)

    def close_phase(self, turn: Turn) -> None:
        self._records.learn(turn.shards())
        self._session.close_phase()
        self._count(turn.row)

    def abort(self, turn: Turn, reason: AbortReason) -> None:
        self._session.machine.abort(reason)
        self._count(turn.row)

    def release(self) -> Release:
        return self._session.release()

    def write(self, turn: Turn) -> None:
        """Put everything new into the store, and the figures into the round's row."""
        machine = self._session.machine
        if self._added:
            machine.flush()
        new, sums = self._records.take_new()
        if new:
            self._sequence, self._added = turn.append(new), False
            for name, value in sums.items():
                turn.put_shard(name, value)
            self._count(turn.row)

    def _count(self, row: Row) -> None:
        machine = self._session.machine
        present = machine.invited - machine.departed.keys()
        survivors = machine.survivors
        row.state, row.departed = machine.state.value, len(machine.departed)
        row.invited, row.received = len(machine.invited), len(present - machine.awaited)
        row.alive = len(present) if survivors is None else len(survivors)
        row.reason = None if machine.abort_reason is None else machine.abort_reason.value

    def _learn(self, turn: Turn, entries: list[Entry]) -> None:
        self._records.learn((entry.name, entry.value) for entry in entries)
        self._sequence = turn.row.sequence
