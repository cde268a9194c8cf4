"""What a round with two servers costs, without executing it: the same for every participant."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.messages import HEADER_BYTES
from dhdmm.aggregation.method import ByPhase, ModelledSeconds
from dhdmm.twoservers.leader import REPORTS, SETTLING
from dhdmm.twoservers.round import TwoServersRound
from dhdmm.twoservers.sealing import public_bytes

_SIGNATURE = 64

MICROSECONDS = {
    "report": 260.0,  # seal, derive, sign and journal
    "word": 0.012,  # stream, subtract and pack
    "taken": 80.0,  # decode, hash, verify and keep
    "settled": 110.0,  # both servers: verify again, open, derive
    "added word": 0.01,  # unpack and add at one, stream and add at the other
    "leaf": 3.0,  # of the trees of both
}
"""Not measured one by one. What servers do adds up to the 0.22 ms a report that
`python -m research.two_servers` found for 3,112 sums; its division, and what a participant does,
are assumed."""


class CountedReports:
    """Sizes do not depend on who else takes part."""

    def __init__(self, round: TwoServersRound) -> None:
        self._round = round
        self._each = np.ones(round.participants, np.int64)

    def opened(self, position: int, message: bytes) -> None:
        """Every key is as long."""

    def answered(self, position: int, message: bytes) -> None:
        """So is every report."""

    def draw(self, answered: NDArray[np.bool_], binomial: Callable[..., NDArray[np.int64]]) -> None:
        """Nothing is left to chance."""

    def received_bytes(self) -> ByPhase:
        key = HEADER_BYTES + 4 + public_bytes(self._round.sealing) + _SIGNATURE
        return {REPORTS.name: key * self._each}

    def sent_bytes(self) -> ByPhase:
        return {
            REPORTS.name: (HEADER_BYTES + 8 + self._round.input_bytes + _SIGNATURE) * self._each
        }

    def introduced(self) -> ByPhase:
        return {}

    def seconds(self, answered: NDArray[np.bool_]) -> ModelledSeconds:
        cost = {name: microseconds * 1e-6 for name, microseconds in MICROSECONDS.items()}
        length, none = self._round.length, 0.0 * self._each
        participant = cost["report"] + cost["word"] * length + none
        taking = cost["taken"] + cost["settled"] + cost["added word"] * length + none
        return ModelledSeconds(
            {REPORTS.name: participant},
            {REPORTS.name: none},
            {REPORTS.name: taking},
            {SETTLING.name: cost["leaf"] * self._round.participants},
        )
