"""The trusted party that secure aggregation replaces: everybody hands it the input in the open.

It shows what a way to add up has to offer, and is never among those that a study may ask for.

A message is its kind (one letter), the session, the sender's or receiver's position and a body.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.group import Element, Group
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import Journal
from dhdmm.aggregation.method import (
    ABORTED,
    FINISHED,
    STATE,
    SUM,
    Aggregate,
    Checked,
    CountedRound,
    ParameterError,
    Phase,
    Reply,
    RoundTerms,
    Store,
)
from dhdmm.aggregation.modulus import Modulus, SumRange
from dhdmm.aggregation.randomness import Randomness
from dhdmm.aggregation.roster import Roster

ARRIVAL = Phase("arriving", "Arrival", "Everybody says that it is here.")
INPUTS = Phase("collecting-inputs", "Sums", "Everybody sends its sums.", carries_input=True)
_NEXT = {ARRIVAL.name: INPUTS.name, INPUTS.name: FINISHED.name}
_HERE, _ASK, _INPUT, _ABORTED = b"h", b"a", b"i", b"x"
_KIND_IN = {ARRIVAL.name: _HERE, INPUTS.name: _INPUT}
_HEAD = 1 + 32 + 4
_FIELDS = ("minimum_survivors", "corrupt")


@dataclass(frozen=True)
class IdealParameters:
    minimum_survivors: int
    corrupt: int

    @property
    def honest_floor(self) -> int:
        return self.minimum_survivors - self.corrupt

    def fields(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in _FIELDS}


@dataclass(frozen=True)
class IdealRound:
    plan_digest: bytes
    round_id: bytes
    roster_digest: bytes
    participants: int
    minimum_survivors: int
    modulus: Modulus
    length: int
    scalar_modulus: int = 1
    sum_ranges: tuple[SumRange, ...] = ()

    @cached_property
    def session(self) -> bytes:
        said = b"dhdmm ideal 1" + self.plan_digest + self.round_id + self.roster_digest
        return hashlib.sha256(said).digest()

    @property
    def input_bytes(self) -> int:
        return self.group.packed_size

    @cached_property
    def group(self) -> Group:
        return Group(self.modulus, self.length, self.scalar_modulus, self.sum_ranges)

    def encode(self, kind: bytes, position: int, body: bytes = b"") -> bytes:
        return kind + self.session + position.to_bytes(4, "big") + body

    def decode(self, data: bytes, position: int) -> tuple[bytes, bytes]:
        """The kind and the body of a message from or to this participant."""
        if not data.startswith(self.encode(data[:1], position)):
            raise RemoteProtocolError(AbortReason.WRONG_SESSION, status_hint=409)
        return data[:1], data[_HEAD:]


class IdealParticipant:
    """Says that it is here, and its input when it is asked for it."""

    def __init__(self, round: IdealRound, position: int, journal: Journal) -> None:
        self._round, self._position, self._journal = round, position, journal
        kept = journal.read()
        self.outgoing = None if kept is None else kept[1]
        self.ready_for_input = False
        self.abort_reason: AbortReason | None = None
        self.round_aborted: AbortReason | None = None
        self.root: bytes | None = None
        self.survivors: Bitmap | None = None

    @property
    def input_is_outgoing(self) -> bool:
        return self.outgoing is not None and self.outgoing.startswith(_INPUT)

    @property
    def over(self) -> bool:
        return self.input_is_outgoing or self.abort_reason is not None

    @property
    def progress(self) -> str:
        return "said all there is to say" if self.over else "waiting to be asked for the sums"

    def begin(self) -> bytes:
        return self._send(_HERE)

    def receive(self, data: bytes) -> bytes | None:
        kind, body = self._round.decode(data, self._position)
        if kind == _ABORTED:
            self.round_aborted = AbortReason(body.decode())
            return self.outgoing if self.over else self.abort(self.round_aborted)
        self.ready_for_input = not self.over
        return self.outgoing if self.over else None

    def give_input(self, vector: NDArray[Any], scalar: int = 0) -> bytes:
        if not self.ready_for_input:
            raise LocalProtocolError("nobody has asked for the input")
        self.ready_for_input = False
        group = self._round.group
        return self._send(_INPUT, group.pack(group.element(vector, scalar)))

    def abort(self, reason: AbortReason) -> bytes:
        self.abort_reason = reason
        return self._send(_ABORTED, reason.encode())

    def agree_also(self, said: bytes) -> None:
        """Nobody is told of survivors."""

    def computed(self) -> bytes:
        return b""

    def reuse(self, computed: bytes) -> None:
        """There is nothing to compute again."""

    def _send(self, kind: bytes, body: bytes = b"") -> bytes:
        self.outgoing = self._round.encode(kind, self._position, body)
        self._journal.write(b"", self.outgoing)
        return self.outgoing


class IdealCoordinator:
    """Adds up what it is sent."""

    def __init__(self, round: IdealRound, store: Store, shard: str) -> None:
        self._round, self._store, self._shard = round, store, SUM + shard
        self._sum = round.group.zero()
        self._senders: dict[str, set[int]] = {_HERE.decode(): set(), _INPUT.decode(): set()}
        self.departed: dict[int, AbortReason] = {}
        self.announced: bytes | None = None
        if self._shard in store:
            self._sum = round.group.load(store[self._shard])
        if STATE not in store:
            store[STATE] = ARRIVAL.name.encode()
        self.follow(store.items())

    @property
    def state(self) -> str:
        return self._store[STATE].decode()

    @property
    def invited(self) -> frozenset[int]:
        if self.state == INPUTS.name:
            return frozenset(self._senders[_HERE.decode()])
        return frozenset(range(self._round.participants) if self.state == ARRIVAL.name else ())

    @property
    def awaited(self) -> frozenset[int]:
        return self.invited.difference(self._spoken(), self.departed)

    @property
    def survivors(self) -> Bitmap | None:
        fixed = self.state == FINISHED.name
        counted = self._senders[_INPUT.decode()]
        return Bitmap.of(self._round.participants, counted) if fixed else None

    @property
    def result(self) -> Aggregate | None:
        if self.survivors is None:
            return None
        group, total = self._round.group, self._sum.copy()
        for name in self._store:
            if name.startswith(SUM) and name != self._shard:
                group.add(total, group.load(self._store[name]))
        return Aggregate(self.survivors, group.modulus.reduce(total.vector), total.scalar)

    @property
    def abort_reason(self) -> AbortReason | None:
        return AbortReason(self._store["reason"].decode()) if "reason" in self._store else None

    account: bytes | None = None
    settled: int | None = None
    asks_helper = waits_for_helper = False

    def to_helper(self) -> bytes | None:
        return None

    def from_helper(self, request: bytes, answer: bytes) -> dict[int, bytes]:
        raise LocalProtocolError("nobody was asked")

    def prepare(self, messages: Iterable[tuple[int, bytes]]) -> None:
        """Nothing is checked together."""

    def receive(self, position: int, data: bytes) -> Reply:
        kind, body = self._round.decode(data, position)
        name, digest = f"{kind.decode()}/{position}", hashlib.sha256(data).digest()
        if name in self._store:
            if self._store[name] == digest:
                return Reply.REPEATED
            raise RemoteProtocolError(AbortReason.CONFLICTING_MESSAGE, status_hint=409)
        if kind not in (_KIND_IN.get(self.state), _ABORTED) or position not in self.invited:
            raise RemoteProtocolError(AbortReason.WRONG_PHASE, status_hint=409)
        if kind == _INPUT:
            self._round.group.add(self._sum, self._unpacked(body))
        self._store[name] = digest
        self.follow([(name, digest)])
        return Reply.ACCEPTED

    def close_phase(self) -> frozenset[int]:
        if len(self._spoken()) < self._round.minimum_survivors:
            return self.abort(AbortReason.TOO_FEW_PARTICIPANTS)
        self._store[STATE] = _NEXT[self.state].encode()
        return self.invited

    def abort(self, reason: AbortReason) -> frozenset[int]:
        self._store["reason"], self._store[STATE] = reason.encode(), ABORTED.name.encode()
        return frozenset(range(self._round.participants))

    def message_for(self, position: int) -> bytes | None:
        if self.abort_reason is not None:
            return self._round.encode(_ABORTED, position, self.abort_reason.encode())
        asked = self.state == INPUTS.name and position in self.invited
        return self._round.encode(_ASK, position) if asked else None

    def introduced(self, position: int) -> list[int]:
        return []  # nobody signs anything

    def follow(self, records: Iterable[tuple[str, bytes]]) -> None:
        for name, _ in list(records):
            kind, _, position = name.partition("/")
            if kind in self._senders:
                self._senders[kind].add(int(position))
            elif kind == _ABORTED.decode():
                self.departed[int(position)] = AbortReason.STOPPED

    def flush(self) -> None:
        if self._senders[_INPUT.decode()]:
            self._store[self._shard] = self._round.group.dump(self._sum)

    def _spoken(self) -> set[int]:
        return self._senders.get(_KIND_IN.get(self.state, b"").decode(), set())

    def _unpacked(self, body: bytes) -> Element:
        return self._round.group.unpack(body)


@dataclass(frozen=True)
class IdealSum:
    """Σ x_i in the open."""

    version: int = 1
    phases: tuple[Phase, ...] = (ARRIVAL, INPUTS)
    needs_pinned_roster: bool = False
    has_helper: bool = False
    announces_root: bool = False
    parameter_names: tuple[str, ...] = field(default=_FIELDS)

    def choose(
        self, participants: int, corrupt_fraction: float, max_dropout: float
    ) -> IdealParameters:
        corrupt = max(1, int(corrupt_fraction * participants))
        chosen = IdealParameters(participants - int(max_dropout * participants), corrupt)
        if chosen.honest_floor < 1:
            raise ParameterError("no honest noise is certain to remain")
        return chosen

    def check(
        self,
        parameters: IdealParameters,
        participants: int,
        corrupt_fraction: float,
        max_dropout: float,
    ) -> None:
        if parameters != self.choose(participants, corrupt_fraction, max_dropout):
            raise ParameterError("not the parameters that follow from the fractions")

    def parameters_of(self, fields: Mapping[str, int], participants: int) -> IdealParameters:
        return IdealParameters(**{name: fields[name] for name in _FIELDS})

    def round(self, parameters: IdealParameters, terms: RoundTerms) -> IdealRound:
        agreed = {
            name: value
            for name, value in vars(terms).items()
            if name not in ("norm_bound", "helper", "noise_variance")
        }
        return IdealRound(**agreed, minimum_survivors=parameters.minimum_survivors)

    def fewest_senders(self, round: IdealRound, phase: Phase) -> int:
        return round.minimum_survivors

    def participant(
        self,
        round: IdealRound,
        roster: Roster,
        identity: Identity | None,
        position: int,
        randomness: Randomness,
        journal: Journal,
    ) -> IdealParticipant:
        return IdealParticipant(round, position, journal)

    def coordinator(
        self,
        round: IdealRound,
        roster: Roster,
        randomness: Randomness,
        store: Store,
        shard: str = "only",
    ) -> IdealCoordinator:
        return IdealCoordinator(round, store, shard)

    def largest_message(self, round: IdealRound) -> int:
        return _HEAD + round.input_bytes

    def carries_input(self, data: bytes) -> bool:
        return data.startswith(_INPUT)

    def was_received(
        self, record: Callable[[str], bytes | None], data: bytes, position: int
    ) -> bool:
        name = f"{data[:1].decode('latin-1')}/{position}"
        return record(name) == hashlib.sha256(data).digest()

    def abort_message(self, round: IdealRound, position: int, reason: AbortReason) -> bytes:
        return round.encode(_ABORTED, position, reason.encode())

    def counted(self, round: IdealRound) -> CountedRound:
        raise LocalProtocolError("there is no model of what a trusted party costs")

    def check_account(self, *_: Any) -> Checked:
        return Checked()
