"""The leader: it takes reports, has them settled by the helper in batches, and adds up its shares.

A report is kept whole until the helper has accepted or refused it; then its vector is added and
forgotten. When reports are closed, what is left is settled, and the set that both have accepted is
fixed with a commitment to the leader's sum. Only then the helper gives its own sum.

What must survive a restart is in the store. Several leaders may share a round if they take turns:
any of them may settle what any has taken, and each adds to a shard of the sum of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from hashlib import sha256
from itertools import islice

import numpy as np

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.group import Element
from dhdmm.aggregation.identity import signature_holds
from dhdmm.aggregation.method import (
    ABORTED,
    FINISHED,
    PENDING,
    STATE,
    SUM,
    Aggregate,
    Phase,
    Reply,
    Store,
)
from dhdmm.aggregation.randomness import Randomness
from dhdmm.aggregation.roster import Roster
from dhdmm.twoservers import messages as m
from dhdmm.twoservers import shares
from dhdmm.twoservers.account import Account
from dhdmm.twoservers.helper import LARGEST_BATCH
from dhdmm.twoservers.reports import Absent, Reports
from dhdmm.twoservers.round import TwoServersRound
from dhdmm.twoservers.sealing import number_of

REPORTS = Phase(
    "collecting-reports",
    "Reports",
    "Participants send their sums, with noise, in one message.",
    carries_input=True,
)
SETTLING = Phase("adding-up", "Two servers", "Both servers add up what both have accepted.")
REPORTED, LEFT = "reported/", "left/"
"""Names in the store, before a position: of a settled report's hash and what became of it, and of
why somebody left. A report that is not settled is under `PENDING`, whole."""
_KEY, _SALT, _CLOSING, _ANSWER = "helper/key", "helper/salt", "helper/closing", "helper/sum"
_COUNTED, _REFUSED = b"+", b"-"
REMEMBERED = 2 * LARGEST_BATCH
"""Of so many waiting reports memory has what the helper will be shown; others are read again."""
_Seen = tuple[m.Reported, bytes]  # and the sealed seed


class Leader:
    """One round, once; if its store knows the round, it resumes from there."""

    announced: bytes | None = None

    def __init__(
        self,
        round: TwoServersRound,
        roster: Roster,
        randomness: Randomness,
        store: Store,
        shard: str = "only",
    ) -> None:
        if round.roster_digest not in roster.fingerprints or len(roster) != round.participants:
            raise LocalProtocolError("not the roster of this round")
        self._round, self._roster, self._store = round, roster, store
        self._randomness, self._shard = randomness, SUM + shard
        self._reported = np.zeros(round.participants, np.bool_)
        self._absent = Absent(round.participants)
        self._counted = Reports(round.participants)
        self._pending: dict[int, _Seen | None] = {}  # in the order of arrival
        self._sum, self._sum_is_ahead = round.group.zero(), False
        self.departed: dict[int, AbortReason] = {}
        self.state = REPORTS.name
        self.abort_reason: AbortReason | None = None
        self.result: Aggregate | None = None
        if STATE not in store:
            store[STATE] = self.state.encode()
        if self._shard in store:
            self._sum = round.group.load(store[self._shard])
        known = [name for name in store if name.startswith((PENDING, REPORTED, LEFT))]
        self.follow((name, b"" if name.startswith(PENDING) else store[name]) for name in known)

    # Who is where

    @property
    def invited(self) -> Collection[int]:
        return range(self._round.participants if self.state == REPORTS.name else 0)

    @property
    def awaited(self) -> Set[int]:
        return self._absent if self.state == REPORTS.name else frozenset()

    @property
    def survivors(self) -> Bitmap | None:
        """U, once it is fixed."""
        return self._counted.members if _CLOSING in self._store else None

    # Participants

    def prepare(self, messages: Iterable[tuple[int, bytes]]) -> None:
        """Every check is of one message alone."""

    def receive(self, position: int, data: bytes) -> Reply:
        """From whoever brings messages, who knows that the participant at `position` sent this
        one. Its signature is for the helper, who takes nobody's word: docs/adr/041."""
        message = m.decode(data)
        if message.position != position or message.session != self._round.session:
            raise RemoteProtocolError(AbortReason.WRONG_SESSION, status_hint=409)
        if isinstance(message, m.Aborted):
            return self._let_go(message)
        if not isinstance(message, m.Report):
            raise RemoteProtocolError(AbortReason.WRONG_PHASE, status_hint=409)
        if self._reported[position]:
            if was_received(self._store.get, message, data):
                return Reply.REPEATED
            raise RemoteProtocolError(AbortReason.CONFLICTING_MESSAGE, status_hint=409)
        if self.state != REPORTS.name:
            raise RemoteProtocolError(AbortReason.WRONG_PHASE, status_hint=409)
        self._check(message)
        reported = seen_by_helper(message)
        self._store[PENDING + str(position)] = data
        seen = (reported, message.sealed) if len(self._pending) < REMEMBERED else None
        self._note_waiting(position, seen)
        return Reply.WAITING

    def message_for(self, position: int) -> bytes | None:
        session = self._round.session
        if self.abort_reason is not None:
            return m.Aborted(session, position, self.abort_reason).encode()
        if self.state != REPORTS.name or _KEY not in self._store:
            return None
        key = m.decode(self._store[_KEY])
        assert isinstance(key, m.HelperKey)
        return m.HelperKey(session, position, key.key, key.signature).encode()

    def introduced(self, position: int) -> list[int]:
        return []  # the helper is named by the plan

    def _check(self, message: m.Report) -> None:
        if len(message.sealed) != self._round.sealed_bytes:
            raise RemoteProtocolError(AbortReason.MALFORMED, "a sealed seed of another length")
        self._round.group.require_packed(message.vector)

    def _let_go(self, message: m.Aborted) -> Reply:
        if not self._reported[message.position]:
            self._store[LEFT + str(message.position)] = message.reason.encode()
            self._note_departure(message.position, message.reason)
        return Reply.ACCEPTED

    # The helper

    @property
    def waits_for_helper(self) -> bool:
        return self.state == SETTLING.name and _ANSWER not in self._store

    @property
    def settled(self) -> int:
        return self._counted.count

    @property
    def asks_helper(self) -> bool:
        if self.state == REPORTS.name:
            return _KEY not in self._store or len(self._pending) >= LARGEST_BATCH
        return self.waits_for_helper

    def to_helper(self) -> bytes | None:
        """The key at first; then batches, full ones while reports come; in the end the sum."""
        if not self.asks_helper:
            return None
        if self.state == REPORTS.name and _KEY not in self._store:
            return m.KeyRequest(self._round.session, 0).encode()
        return self._batch() if self._pending else self._closing()

    def from_helper(self, request: bytes, answer: bytes) -> Mapping[int, bytes]:
        asked, said = m.decode(request), m.decode(answer)
        if said.session != self._round.session:
            raise RemoteProtocolError(AbortReason.WRONG_SESSION, "of the helper")
        match asked, said:
            case m.KeyRequest(), m.HelperKey():
                self._learn(said)
                return {}
            case m.Batch(), m.Accepted():
                return self._settle(asked, said.accepted)
            case m.Closing(), m.HelperSum():
                self._take_sum(asked, said)
                return {}
        raise RemoteProtocolError(AbortReason.MALFORMED, "not an answer of the helper")

    def _learn(self, said: m.HelperKey) -> None:
        statement = shares.key_statement(
            self._round.session, number_of(self._round.sealing), said.key
        )
        self._require_helper(statement, said.signature)
        if _KEY not in self._store:
            self._store[_KEY] = said.encode()

    def _batch(self) -> bytes:
        chosen = sorted(islice(self._pending, LARGEST_BATCH))
        reports = [self._pending[position] or self._kept(position) for position in chosen]
        sealed = b"".join(seed for _, seed in reports)
        return m.Batch(self._round.session, 0, [one for one, _ in reports], sealed).encode()

    def _settle(self, batch: m.Batch, accepted: Bitmap) -> dict[int, bytes]:
        if accepted.size != len(batch.reports):
            raise RemoteProtocolError(AbortReason.MALFORMED, "not a word about each report")
        counted: dict[int, bytes] = {}
        vectors = list[bytes]()
        group, size = self._round.group, self._round.sealed_bytes
        for index, reported in enumerate(batch.reports):
            position = reported.position
            if position not in self._pending:
                continue  # settled before
            if index in accepted:
                data = self._store[PENDING + str(position)]
                vectors.append(m.vector_in(data, group.packed_size))
                counted[position], self._sum_is_ahead = data, True
            sealed = batch.sealed[size * index : size * (index + 1)]
            known = shares.report_hash(self._round.session, reported, sealed)
            record = known + (_COUNTED if index in accepted else _REFUSED)
            self._store[REPORTED + str(position)] = record
            self._note_settled(position, record)
            del self._store[PENDING + str(position)]
        group.add_packed(self._sum, vectors)
        return counted

    def _closing(self) -> bytes | None:
        """U and the commitment, fixed before anybody is told."""
        if _CLOSING not in self._store:
            members = self._counted.members
            if len(members) < self._round.minimum_survivors:
                self.abort(AbortReason.TOO_FEW_PARTICIPANTS)
                return None
            salt, session = self._randomness(shares.SALT_BYTES), self._round.session
            commitment = shares.leader_commitment(session, salt, self._packed_total())
            self._store[_SALT] = salt
            self._store[_CLOSING] = m.Closing(session, 0, members, commitment).encode()
        return self._store[_CLOSING]

    def _take_sum(self, asked: m.Closing, said: m.HelperSum) -> None:
        """One answer ever. It has to be about the same reports."""
        if _ANSWER in self._store or asked.encode() != self._store.get(_CLOSING):
            return
        statement = shares.sum_statement(
            self._round.session, asked.commitment, said.root, said.vector
        )
        self._require_helper(statement, said.signature)
        if said.root != self._counted.root:
            raise RemoteProtocolError(AbortReason.SUM_MISMATCH, "the helper added other reports")
        self._round.group.require_packed(said.vector)
        self._store[_ANSWER] = said.encode()

    def _require_helper(self, statement: bytes, signature: bytes) -> None:
        if not signature_holds(self._round.helper, statement, signature):
            raise RemoteProtocolError(AbortReason.BAD_SIGNATURE, "of the helper")

    # The end

    def close_phase(self) -> frozenset[int]:
        """Reports are over, or the helper has answered; before that nothing is closed."""
        if self.state == REPORTS.name:
            if np.count_nonzero(self._reported) < self._round.minimum_survivors:
                return self.abort(AbortReason.TOO_FEW_PARTICIPANTS)
            self._move(SETTLING.name)
        elif self.state == SETTLING.name and not self.waits_for_helper:
            self._move(FINISHED.name)
        return frozenset()

    def abort(self, reason: AbortReason) -> frozenset[int]:
        self._store["reason"] = reason.encode()
        self._move(ABORTED.name)
        return frozenset(range(self._round.participants))

    @property
    def account(self) -> bytes | None:
        """What the transcript says of the helper."""
        if self.result is None:
            return None
        return Account(self._store[_KEY], self._store[_SALT], self._store[_ANSWER]).encode()

    def flush(self) -> None:
        if self._sum_is_ahead:
            dumped = self._round.group.dump(self._sum)
            self._store[self._shard], self._sum_is_ahead = dumped, False

    # Memory

    def follow(self, records: Iterable[tuple[str, bytes]]) -> None:
        """What others have recorded, in their order; or all there is, in any."""
        for name, value in records:
            kind, _, place = name.partition("/")
            if kind + "/" == PENDING:
                self._note_waiting(int(place), None)
            elif kind + "/" == REPORTED:
                self._note_settled(int(place), value)
                self._store.pop(PENDING + place, None)  # settled by another
            elif kind + "/" == LEFT:
                self._note_departure(int(place), AbortReason(value.decode()))
        self._recall_state(self._store[STATE].decode())

    def _note_waiting(self, position: int, seen: _Seen | None) -> None:
        self._reported[position] = True
        self._absent.discard(position)
        self._pending[position] = seen

    def _note_settled(self, position: int, record: bytes) -> None:
        self._reported[position] = True
        self._absent.discard(position)
        self._pending.pop(position, None)
        if record[-1:] == _COUNTED:
            self._counted.add([(position, record[:-1])])

    def _note_departure(self, position: int, reason: AbortReason) -> None:
        self.departed[position] = reason
        self._absent.discard(position)

    def _move(self, state: str) -> None:
        self._store[STATE] = state.encode()
        self._recall_state(state)

    def _recall_state(self, state: str) -> None:
        if state == ABORTED.name:
            self.abort_reason = AbortReason(self._store["reason"].decode())
        if state == FINISHED.name and self.result is None:
            answer = m.decode(self._store[_ANSWER])
            assert isinstance(answer, m.HelperSum)
            total, group = self._total(), self._round.group
            group.add(total, group.unpack(answer.vector))
            vector = group.residues(total)
            self.result = Aggregate(self._counted.members, vector, total.scalar)
        self.state = state

    def _kept(self, position: int) -> _Seen:
        report = m.decode(self._store[PENDING + str(position)])
        assert isinstance(report, m.Report)
        return seen_by_helper(report), report.sealed

    def _packed_total(self) -> bytes:
        return self._round.group.pack(self._total())

    def _total(self) -> Element:
        """Σ share_L over all shards; this leader's own is ahead of its record."""
        group, total = self._round.group, self._sum.copy()
        for name in self._shards():
            group.add(total, group.load(self._store[name]))
        return total

    def _shards(self) -> Iterator[str]:
        return (name for name in self._store if name.startswith(SUM) and name != self._shard)


def was_received(record: Callable[[str], bytes | None], message: m.Report, data: bytes) -> bool:
    """Whether this very report is waiting or settled."""
    known = record(REPORTED + str(message.position))
    if known is None:
        return record(PENDING + str(message.position)) == data
    reported = seen_by_helper(message)
    return known[:-1] == shares.report_hash(message.session, reported, message.sealed)


def seen_by_helper(report: m.Report) -> m.Reported:
    return m.Reported(report.position, sha256(report.vector).digest(), report.signature)
