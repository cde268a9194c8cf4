"""A participant that adds noise in parts, and gives up those that turn out to be in excess."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from dhdmm.aggregation.journal import Journal
from dhdmm.aggregation.method import ParticipantMachine
from dhdmm.aggregation.randomness import Randomness
from dhdmm.aggregation.wrapping import AttachingJournal, Below, ParticipantOver
from dhdmm.privacy.removable import SEED_BYTES
from dhdmm.removal.round import RemovingRound, separate


class RemovingParticipant(ParticipantOver):
    """One participant in one round, around the machine of the way to add up below.

    Its journal keeps the seeds.
    `below` makes that machine with the journal that it is given.
    """

    def __init__(
        self,
        round: RemovingRound,
        randomness: Randomness,
        journal: Journal,
        below: Callable[[Journal], ParticipantMachine],
    ) -> None:
        self._round, self._randomness = round, randomness
        self._journal = AttachingJournal(journal, self._attached_to, SEED_BYTES)
        self.below = below(self._journal)

    agree_also = Below[Callable[[bytes], None]]()

    def begin(self) -> bytes | None:
        """The seeds are the first that is drawn, and are kept with the first message."""
        if not self._journal.kept:
            self._journal.kept = self._randomness(SEED_BYTES * self._round.noise.parts)
        return self._sent_or_nothing(self.below.begin())

    def receive(self, data: bytes) -> bytes | None:
        return self._sent_or_nothing(self.below.receive(data))

    def give_input(self, vector: NDArray[Any], scalar: int = 0) -> bytes:
        """The input with the noise that may be removed again."""
        round = self._round
        excess = round.expanded(round.all_parts, self._journal.kept)
        return self._sent(self.below.give_input(round.modulus.reduce(vector + excess), scalar))

    def _attached_to(self, outgoing: bytes) -> tuple[bytes, bytes]:
        """Seeds are attached to the last message, and erased with it."""
        last = self._last_attachment()
        return (b"", self._journal.kept) if last is None else (last, b"")

    def _last_attachment(self) -> bytes | None:
        """To the message that is about to be kept; None if it is not the last.

        How much is in excess follows from the bitmap of survivors that this participant has checked
        and reveals under, and from nothing else that it was told. With it leave the seeds.
        """
        if not self.over:
            return None
        if self.abort_reason is not None or self.survivors is None:
            return b""
        seeds = separate(self._journal.kept)
        return b"".join([seeds[part] for part in self._round.removed(len(self.survivors))])
