"""What attachments add to the bytes and seconds of a round that is not executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.identity import SIGNATURE_BYTES
from dhdmm.aggregation.method import ByPhase, CountedRound, ModelledSeconds, Phase
from dhdmm.aggregation.wrapping import attach, detach
from dhdmm.validated.attachments import ROOT_BYTES
from dhdmm.validated.round import ValidatedRound

PROVED, PROVED_WORD = 9e-3, 20e-6
COMMITTED_WORD = 2e-6
VERIFIED, VERIFIED_WORD = 0.7e-3, 2.6e-6
"""Seconds, and seconds a coordinate, as `python -m bench validation` finds them; in batches."""


class CountedAttachments:
    """The counts of the way to add up below, and what is attached to its messages."""

    def __init__(self, below: CountedRound, phases: Sequence[Phase], round: ValidatedRound) -> None:
        self._below, self._round = below, round
        names = [phase.name for phase in phases]
        place = [phase.carries_input for phase in phases].index(True)
        self._inputs, self._after, self._last = names[place], names[place + 1 :], names[-1]

    def opened(self, position: int, message: bytes) -> None:
        self._below.opened(position, detach(message)[1])

    def answered(self, position: int, message: bytes) -> None:
        self._below.answered(position, detach(message)[1])

    def draw(self, answered: NDArray[np.bool_], binomial: Callable[..., NDArray[np.int64]]) -> None:
        self._below.draw(answered, binomial)

    def received_bytes(self) -> ByPhase:
        return self._longer(self._below.received_bytes(), 0, ROOT_BYTES)

    def sent_bytes(self) -> ByPhase:
        attached = self._round.attached_bytes
        return self._longer(self._below.sent_bytes(), attached, SIGNATURE_BYTES)

    def introduced(self) -> ByPhase:
        return self._below.introduced()

    def seconds(self, answered: NDArray[np.bool_]) -> ModelledSeconds:
        modelled, k = self._below.seconds(answered), self._round.length
        proved = 0.0 if self._round.statement is None else PROVED + PROVED_WORD * k
        verified = 0.0 if self._round.statement is None else VERIFIED + VERIFIED_WORD * k
        inputs, last = self._inputs, self._last
        committed, summed = COMMITTED_WORD * k, modelled.closing.get(last, 0.0)
        return replace(
            modelled,
            participant=_more(modelled.participant, inputs, committed + proved),
            taking=_more(modelled.taking, inputs, verified),
            closing={**modelled.closing, last: summed + committed},
        )

    def _longer(self, sizes: ByPhase, at_inputs: int, afterwards: int) -> ByPhase:
        after = afterwards if self._round.list_is_agreed else 0
        attached = {self._inputs: at_inputs} | dict.fromkeys(self._after, after)
        return {
            phase: size + len(attach(bytes(attached.get(phase, 0)), b""))
            for phase, size in sizes.items()
        }


def _more(by_phase: ByPhase, phase: str, seconds: float) -> ByPhase:
    return {**by_phase, phase: by_phase[phase] + seconds}
