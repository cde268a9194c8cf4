"""A coordinator that subtracts from the sum what participants no longer need in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, MalformedMessage, RemoteProtocolError
from dhdmm.aggregation.method import Aggregate, CoordinatorMachine, Phase, Reply, Store
from dhdmm.aggregation.wrapping import Below, CoordinatorOver, detach
from dhdmm.privacy.removable import SEED_BYTES
from dhdmm.removal.account import Account
from dhdmm.removal.round import RemovingRound

REMOVED = "removed/"
"""Before a position in the store: the seeds of what this participant removed."""


class RemovingCoordinator(CoordinatorOver):
    """The coordinator of one round, around the machine of the way to add up below."""

    def __init__(
        self, round: RemovingRound, last: Phase, store: Store, below: CoordinatorMachine
    ) -> None:
        self._round, self._last, self._store, self.below = round, last.name, store, below
        self._result: Aggregate | None = None

    # As the machine below says

    state = Below[str]()
    awaited = Below[Set[int]]()
    abort_reason = Below[AbortReason | None]()
    message_for = Below[Callable[[int], bytes | None]]()
    close_phase = Below[Callable[[], frozenset[int]]]()
    to_helper = Below[Callable[[], bytes | None]]()
    from_helper = Below[Callable[[bytes, bytes], Mapping[int, bytes]]]()
    follow = Below[Callable[[Iterable[tuple[str, bytes]]], None]]()

    # With seeds

    def prepare(self, messages: Iterable[tuple[int, bytes]]) -> None:
        self.below.prepare(_detached(messages))

    def receive(self, position: int, data: bytes) -> Reply:
        seeds, message = detach(data)
        known = self._store.get(REMOVED + str(position))
        if seeds and known is None:
            self._require_due(seeds)
        if seeds and known not in (None, seeds):
            raise RemoteProtocolError(AbortReason.CONFLICTING_MESSAGE, status_hint=409)
        departed = len(self.departed)
        reply = self.below.receive(position, message)
        if seeds and reply is Reply.ACCEPTED and len(self.departed) == departed:
            self._store[REMOVED + str(position)] = seeds
        return reply

    @property
    def result(self) -> Aggregate | None:
        """Without the noise that was in excess; who sent no seeds leaves its own in."""
        found = self.below.result
        if found is None:
            return None
        if self._result is None:
            self._result = self._without_excess(found)
        return self._result

    @property
    def account(self) -> bytes | None:
        result = self.below.result
        if result is None:
            return None
        given = self._given(result.survivors)
        removed = Bitmap.of(self._round.participants, given)
        below = self.below.account
        seeds = b"" if below is None else b"".join(given.values())
        return Account(removed, seeds, below).encode()

    def _without_excess(self, found: Aggregate) -> Aggregate:
        modulus, given = self._round.modulus, self._given(found.survivors)
        parts, total = self._round.removed(len(found.survivors)), found.total.copy()
        for seeds in given.values():
            total -= self._round.expanded(parts, seeds)
        left = tuple(i for i in found.survivors.members() if parts and i not in given)
        return replace(found, total=modulus.reduce(total), unremoved=left)

    def _given(self, survivors: Bitmap) -> dict[int, bytes]:
        """The seeds of those who removed something, in the order of the roster."""
        records = ((i, self._store.get(REMOVED + str(i))) for i in survivors.members())
        return {i: seeds for i, seeds in records if seeds is not None}

    def _require_due(self, seeds: bytes) -> None:
        if self.state != self._last or self.survivors is None:
            raise MalformedMessage("seeds that nobody asked for")
        due = SEED_BYTES * len(self._round.removed(len(self.survivors)))
        if len(seeds) != due:
            raise MalformedMessage(f"{len(seeds)} bytes of seeds where {due} are due")


def _detached(messages: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    for position, data in messages:
        try:
            yield position, detach(data)[1]
        except RemoteProtocolError:
            continue  # `receive` will say so
