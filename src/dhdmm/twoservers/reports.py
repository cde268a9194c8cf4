"""Whose reports are in a server's sum: a bit and a hash a participant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

import numpy as np

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.identity import signature_holds
from dhdmm.aggregation.merkle import Computed
from dhdmm.twoservers import shares
from dhdmm.twoservers.messages import Reported

_RECORD = np.dtype([("position", ">u4"), ("hash", "V32")])

Hashes = Iterable[tuple[int, bytes]]


def require_signed(session: bytes, reported: Reported, sealed: bytes, public: bytes) -> None:
    """By the identity of this seat, for this round, about this seed and this vector."""
    said = shares.report_statement(session, reported.position, sealed, reported.vector_hash)
    if not signature_holds(public, said, reported.signature):
        raise RemoteProtocolError(AbortReason.BAD_SIGNATURE, "of a report")


class Reports:
    """The reports that count, by position."""

    def __init__(self, participants: int) -> None:
        self._known = np.zeros(participants, np.bool_)
        self._hashes = np.zeros(participants, "V32")
        self.count = 0

    def __contains__(self, position: int) -> bool:
        return 0 <= position < len(self._known) and bool(self._known[position])

    def hash_at(self, position: int) -> bytes | None:
        return bytes(self._hashes[position]) if position in self else None

    def add(self, new: Hashes) -> None:
        for position, known in new:
            self.count += not self._known[position]
            self._known[position], self._hashes[position] = True, np.void(known)

    @property
    def members(self) -> Bitmap:
        return Bitmap.from_array(self._known)

    @property
    def root(self) -> bytes:
        """Of the tree over the roster, absent where no report counts."""
        return shares.reports_root(Computed(len(self._known), self.hash_at))

    @staticmethod
    def record(new: Hashes) -> bytes:
        """For `recall`."""
        return np.array([(i, known) for i, known in new], _RECORD).tobytes()

    def recall(self, record: bytes) -> None:
        read = np.frombuffer(record, _RECORD)
        self.add(zip(read["position"].tolist(), map(bytes, read["hash"]), strict=True))


class Absent(Set[int]):
    """Positions from which nothing has come yet; how many they are is known without a pass."""

    def __init__(self, participants: int) -> None:
        self._absent = np.ones(participants, np.bool_)
        self._count = participants

    def discard(self, position: int) -> None:
        self._count -= bool(self._absent[position])
        self._absent[position] = False

    def __contains__(self, position: object) -> bool:
        if not isinstance(position, int) or not 0 <= position < len(self._absent):
            return False
        return bool(self._absent[position])

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(self._absent).tolist())

    def __len__(self) -> int:
        return self._count

    @classmethod
    def _from_iterable(cls, it: Iterable[int]) -> frozenset[int]:  # type: ignore[override]
        return frozenset(it)
