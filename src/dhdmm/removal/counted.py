"""What removing noise adds to the bytes and seconds of a round that is not executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.method import ByPhase, CountedRound, ModelledSeconds, Phase
from dhdmm.aggregation.wrapping import attach, detach
from dhdmm.privacy.removable import SEED_BYTES
from dhdmm.removal.round import RemovingRound

EXPANDED, EXPANDED_WORD = 40e-6, 6e-9
"""Seconds of one part, and seconds a coordinate, of vectors as long as those of Census SF1."""


class CountedRemoval:
    """The counts of the way to add up below, and the seeds that go with its last message."""

    def __init__(self, below: CountedRound, phases: Sequence[Phase], round: RemovingRound) -> None:
        self._below, self._round = below, round
        self._inputs = [phase.carries_input for phase in phases].index(True)
        self._input_phase, self._last = phases[self._inputs].name, phases[-1].name
        self._survivors = round.participants

    def opened(self, position: int, message: bytes) -> None:
        self._below.opened(position, message)

    def answered(self, position: int, message: bytes) -> None:
        self._below.answered(position, detach(message)[1])

    def draw(self, answered: NDArray[np.bool_], binomial: Callable[..., NDArray[np.int64]]) -> None:
        self._survivors = max(int(answered[self._inputs].sum()), self._round.minimum_survivors)
        self._below.draw(answered, binomial)

    def received_bytes(self) -> ByPhase:
        return self._below.received_bytes()

    def sent_bytes(self) -> ByPhase:
        seeds = bytes(SEED_BYTES * len(self._round.removed(self._survivors)))
        return {
            phase: size + len(attach(seeds if phase == self._last else b"", b""))
            for phase, size in self._below.sent_bytes().items()
        }

    def introduced(self) -> ByPhase:
        return self._below.introduced()

    def seconds(self, answered: NDArray[np.bool_]) -> ModelledSeconds:
        modelled, inputs, last = self._below.seconds(answered), self._input_phase, self._last
        one = EXPANDED + EXPANDED_WORD * self._round.length
        removed = len(self._round.removed(self._survivors)) * self._survivors
        added = modelled.participant[inputs] + one * self._round.noise.parts
        summed = modelled.closing.get(last, 0.0) + one * removed
        return replace(
            modelled,
            participant={**modelled.participant, inputs: added},
            closing={**modelled.closing, last: summed},
        )
