"""What the transcript of a round needs to know, noted during the round.

The notes are kept in a store beside the coordinator's own records, so a restart forgets none. The
messages themselves are kept only where somebody asked for a full transcript: in the `archive`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256

from dhdmm.aggregation import method
from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.lists import Slots
from dhdmm.aggregation.method import Store
from dhdmm.aggregation.randomness import Randomness
from dhdmm.release.transcript import DIGEST_BYTES, PhaseRecord, Recording

COINS, ROOT, DATE = "transcript/coins", "transcript/root", "transcript/date"


class Recorder:
    """The notes of one round with `participants` on its roster."""

    def __init__(
        self, phases: Sequence[method.Phase], participants: int, notes: Store, archive: Store | None
    ) -> None:
        self._states = [phase.name for phase in phases]
        self._participants = participants
        self._notes, self._archive = notes, archive

    def listening(self, randomness: Randomness) -> Randomness:
        """The same randomness; what is drawn from it for the graph is noted."""

        def draw(size: int) -> bytes:
            drawn = randomness(size)
            self._notes[COINS] = self.coins + drawn
            return drawn

        return draw

    def counted(self, state: str, position: int, message: bytes) -> None:
        """This message was accepted in this phase."""
        self._notes[_note(state, position)] = sha256(message).digest()
        if self._archive is not None:
            self._archive[_note(state, position)] = message

    def announced(self, root: bytes) -> None:
        """Everybody is told this Merkle root."""
        self._notes[ROOT] = root

    def finished(self, date: str | None) -> None:
        """The round has its sum since then. It is noted once: transcripts must not differ in it."""
        if date is not None and DATE not in self._notes:
            self._notes[DATE] = date.encode()

    @property
    def date(self) -> str | None:
        noted = self._notes.get(DATE)
        return None if noted is None else noted.decode()

    @property
    def coins(self) -> bytes:
        return self._notes.get(COINS, b"")

    @property
    def root(self) -> bytes | None:
        return self._notes.get(ROOT)

    def phases(self) -> tuple[PhaseRecord, ...]:
        return tuple(
            PhaseRecord(
                state,
                Bitmap.of(self._participants, self._noted(self._notes, state)),
                Slots(b"".join(self._kept(self._notes, state)), DIGEST_BYTES),
            )
            for state in self._states
        )

    def recording(self) -> Recording | None:
        if self._archive is None:
            return None
        messages = [tuple(self._kept(self._archive, state)) for state in self._states]
        return Recording(self.coins, tuple(messages))

    def _noted(self, store: Store, state: str) -> Iterator[int]:
        """Positions, in the order of the roster."""
        return (i for i in range(self._participants) if _note(state, i) in store)

    def _kept(self, store: Store, state: str) -> Iterator[bytes]:
        return (store[_note(state, i)] for i in self._noted(store, state))


def _note(state: str, position: int) -> str:
    return f"transcript/{state}/{position}"
