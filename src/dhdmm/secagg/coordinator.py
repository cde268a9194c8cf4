"""The coordinator of one round, as a state machine that collects, closes a phase, and answers.

The methods follow the steps of docs/secure-aggregation.md. Each of the sets G, A1, A2 is the set of
accepted senders of a phase; it is fixed when the phase is closed, before anybody is told.

What must survive a restart is in a store of byte strings: the state, one record per message,
without its vector, and the running sum. A caller whose store is a database calls `flush` before it
commits.

Several coordinators may share one round if they take turns: each adds to a shard of the sum of its
own, and before its turn it is told with `follow` what the others have recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from hashlib import sha256

import numpy as np

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.group import Element
from dhdmm.aggregation.method import STATE, SUM, Aggregate, Reply, Store, ThreatModel
from dhdmm.aggregation.randomness import Randomness
from dhdmm.aggregation.roster import Roster
from dhdmm.secagg import messages as m
from dhdmm.secagg.acceptance import Acceptance
from dhdmm.secagg.collected import DIGEST_BYTES, Collected, record_name
from dhdmm.secagg.graph import Positions, harary_neighbours
from dhdmm.secagg.round import RoundParameters
from dhdmm.secagg.states import (
    COORDINATOR,
    CoordinatorState,
    Event,
    Local,
    collected_in,
    state_after,
)
from dhdmm.secagg.unmasking import unmask

_C = CoordinatorState
_OVER = (_C.FINISHED, _C.ABORTED)
_RECORDED = frozenset(str(kind.TYPE) for kind in m.MESSAGES)
_QUORATE = (_C.COLLECTING_KEYS, _C.COLLECTING_CHOICES, _C.COLLECTING_SHARES, _C.COLLECTING_INPUTS)
_OPENINGS: Mapping[ThreatModel, Mapping[_C, Callable[[Collected, int], m.Message]]] = {
    ThreatModel.SEMI_HONEST: {
        _C.COLLECTING_SHARES: Collected.neighbours,
        _C.COLLECTING_INPUTS: Collected.relayed_shares,
        _C.COLLECTING_REVEALS: Collected.survivors,
    },
    ThreatModel.MALICIOUS: {
        _C.COLLECTING_CHOICES: Collected.root,
        _C.COLLECTING_SHARES: Collected.neighbours,
        _C.COLLECTING_INPUTS: Collected.relayed_shares,
        _C.COLLECTING_ACKS: Collected.survivors,
        _C.COLLECTING_REVEALS: Collected.relayed_acks,
    },
}


class Coordinator(Acceptance):
    """One round, once; if its store knows the round, it resumes from there.

    The caller decides when a phase is over: it owns the clock.
    `receive` takes one participant's message; `close_phase` fixes whose messages count and moves
    on; `message_for` is what a participant is to be sent now.
    """

    def __init__(
        self,
        parameters: RoundParameters,
        roster: Roster,
        randomness: Randomness,
        store: Store | None = None,
        shard: str = "only",
    ) -> None:
        named = parameters.roster_digest in roster.fingerprints
        if not named or len(roster) != parameters.participants:
            raise LocalProtocolError("not the roster of this round")
        self._store: Store = {} if store is None else store
        graph = _graph(parameters, randomness, self._store)
        super().__init__(parameters, roster, Collected(parameters, graph, self._store))
        self._table = COORDINATOR[parameters.threat_model]
        self.state = _C.COLLECTING_KEYS
        self.abort_reason: AbortReason | None = None
        self.result: Aggregate | None = None
        self.invited = frozenset(range(parameters.participants))  # who may speak in this phase
        self._shard, self._awaited = SUM + shard, set[int]()
        if STATE in self._store:
            self._recall()
        else:
            self._store[STATE] = self.state.encode()
            self._await()

    def follow(self, records: Iterable[tuple[str, bytes]]) -> None:
        """Take over what others have recorded in this round, in their order.

        The store has these records already; what they mean is learnt here.
        """
        for name, value in records:
            if name == STATE:
                self._recall_state(_C(value.decode()))
            elif name.partition("/")[0] in _RECORDED:
                self._recall_message(value)

    @property
    def awaited(self) -> Set[int]:
        """Whose message of this phase may still come; if nobody's, there is nothing to wait for.

        It is kept up to date with every message: whoever serves many asks after every few.
        """
        return self._awaited

    @property
    def departed(self) -> Mapping[int, AbortReason]:
        """Who said that it left, and why."""
        return self._collected.departed

    @property
    def survivors(self) -> Bitmap | None:
        """A2, once it is fixed."""
        fixed = (_C.COLLECTING_ACKS, _C.COLLECTING_REVEALS, _C.FINISHED)
        return self._collected.alive if self.state in fixed else None

    @property
    def announced(self) -> bytes | None:
        """The root of everybody's keys, in the phase in which everybody is told it."""
        return self._collected.tree.root if self.state is _C.COLLECTING_CHOICES else None

    # Events

    def receive(self, position: int, data: bytes) -> Reply:
        """Take a participant's message, or refuse it with `RemoteProtocolError` untouched."""
        message, digest = m.decode(data), sha256(data).digest()
        if message.position != position or message.session != self._session_of(message):
            raise RemoteProtocolError(AbortReason.WRONG_SESSION, status_hint=409)
        record = record_name(type(message), position)
        known = self._store.get(record)
        if known is not None and known.startswith(digest):
            return Reply.REPEATED
        if known is not None:
            raise RemoteProtocolError(AbortReason.CONFLICTING_MESSAGE, status_hint=409)
        self._state_after(type(message))
        if position not in self.invited:
            raise RemoteProtocolError(AbortReason.WRONG_PHASE, "not invited", status_hint=409)
        reply = self._check(message)
        if reply is Reply.ACCEPTED:
            if isinstance(message, m.MaskedInput):  # its vector is kept in the sum only
                message = replace(message, vector=b"")
                data = message.encode()
            self._keep(message)
            self._store[record] = digest + data
        else:
            self._store[record] = digest
        return reply

    def close_phase(self) -> frozenset[int]:
        """The deadline has passed: fix whose messages count. Gives those who have a message now."""
        following, senders = self._state_after(Local.CLOSE), frozenset(self._senders())
        if self.state in _QUORATE and len(senders) < self.parameters.minimum_survivors:
            return self.abort(AbortReason.TOO_FEW_PARTICIPANTS)
        if following is _C.FINISHED:
            try:
                self.result = self._unmasked()
            except RemoteProtocolError as error:
                return self.abort(error.reason)
            senders = frozenset()
        self.state, self.invited = following, senders
        self._await()
        self._store[STATE] = following.encode()
        return senders

    def abort(self, reason: AbortReason) -> frozenset[int]:
        """End the round without a result; everybody is told."""
        self.state, self.abort_reason = self._state_after(Local.ABORT), reason
        self._await()
        self._store["reason"], self._store[STATE] = reason.encode(), self.state.encode()
        return frozenset(range(self.parameters.participants))

    def introduced(self, position: int) -> list[int]:
        """Those whose signatures are in the message for this participant: whom it chose."""
        if self.state is not _C.COLLECTING_SHARES or not self.parameters.malicious:
            return []
        return self._collected.chosen_by(position)

    def message_for(self, position: int) -> bytes | None:
        """What this participant is to be sent in this phase, as often as it asks."""
        if self.abort_reason is not None:
            return m.Aborted(self.parameters.session, position, self.abort_reason).encode()
        opening = _OPENINGS[self.parameters.threat_model].get(self.state)
        if opening is None or position not in self.invited:
            return None
        return opening(self._collected, position).encode()

    settled: int | None = None
    asks_helper = waits_for_helper = False

    def to_helper(self) -> bytes | None:
        """There is none."""
        return None

    def from_helper(self, request: bytes, answer: bytes) -> Mapping[int, bytes]:
        raise LocalProtocolError("nobody was asked")

    @property
    def account(self) -> bytes | None:
        """Nothing is known of single inputs."""
        return None

    def prepare(self, messages: Iterable[tuple[int, bytes]]) -> None:
        """Every check is of one message alone."""

    def flush(self) -> None:
        """Bring the store up to date with this coordinator's shard of the running sum."""
        if self._sum_is_ahead:
            dumped = self.parameters.group.dump(self._sum)
            self._store[self._shard], self._sum_is_ahead = dumped, False

    # Plumbing

    def _state_after(self, event: Event) -> _C:
        return state_after(self._table, self.state, event)

    def _session_of(self, message: m.Message) -> bytes:
        """session' exists once the keys are closed; keys and departures are said under session."""
        early = self.state is _C.COLLECTING_KEYS or isinstance(message, m.Keys | m.Aborted)
        return self.parameters.session if early else self._collected.session

    def _senders(self) -> frozenset[int]:
        return frozenset(self._collected.senders(collected_in(self._table, self.state)))

    def _unmasked(self) -> Aggregate:
        total = unmask(self._collected, self._total())
        vector = self.parameters.modulus.reduce(total.vector)
        return Aggregate(self._collected.alive, vector, total.scalar)

    def _total(self) -> Element:
        """Σ y_i over all shards; this coordinator's own is ahead of its record."""
        group, total = self.parameters.group, self._sum.copy()
        for name in self._store:
            if name.startswith(SUM) and name != self._shard:
                group.add(total, group.load(self._store[name]))
        return total

    def _recall(self) -> None:
        """Replay the records, phase by phase: what one phase fixed, the next is understood by."""
        reached = _C(self._store[STATE].decode())
        if self._shard in self._store:
            self._sum = self.parameters.group.load(self._store[self._shard])
        self._recall_messages(m.Aborted)
        for phase in self._table:
            if phase is reached or phase not in _OVER:
                self._recall_state(phase)
                self._recall_messages(collected_in(self._table, phase))
            if phase is reached:
                break

    def _recall_state(self, following: _C) -> None:
        if following is _C.ABORTED:
            self.abort_reason = AbortReason(self._store["reason"].decode())
        elif following is _C.FINISHED:
            self.result, self.invited = self._unmasked(), frozenset()
        elif following is not self.state:
            self.invited = self._senders()
        self.state = following
        self._await()

    def _await(self) -> None:
        """In a phase that begins, or begins again after a restart."""
        self._awaited = set(self.invited.difference(self._senders(), self._collected.departed))

    def _keep(self, message: m.Message) -> None:
        super()._keep(message)
        self._awaited.discard(message.position)

    def _recall_messages(self, kind: type[m.Message] | None) -> None:
        if kind is None:
            return
        for position in range(self.parameters.participants):
            self._recall_message(self._store.get(record_name(kind, position), b""))

    def _recall_message(self, record: bytes) -> None:
        """A digest alone is of a message that was refused."""
        if len(record) > DIGEST_BYTES:
            self._keep(m.decode(record[DIGEST_BYTES:]))


def _graph(parameters: RoundParameters, randomness: Randomness, store: Store) -> Positions | None:
    """Semi-honest step 1: drawn once, kept with the round."""
    n, degree = parameters.participants, parameters.degree
    if parameters.malicious:
        return None
    if "graph" not in store:
        if STATE in store:
            raise LocalProtocolError("the store has a round under way and no graph")
        store["graph"] = harary_neighbours(n, degree, randomness).astype(">u4").tobytes()
    graph = np.frombuffer(store["graph"], dtype=">u4").reshape(n, degree)
    return graph.astype(np.int64)
