"""What sizes and operations of a round depend on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


@dataclass
class Counts:
    """One number per participant, (n,); 0 where it did not get that far."""

    neighbours: Numbers
    out: Numbers
    proof: Numbers  # nodes of the Merkle proof
    held: Numbers  # neighbours whose shares it holds
    included: Numbers  # neighbours it masks with
    alive: Numbers  # neighbours that survive
    to_ack: Numbers  # those of them whose shares it holds
    acked: Numbers  # acks it is shown

    @classmethod
    def zeros(cls, participants: int) -> Counts:
        return cls(*(np.zeros(participants, np.int64) for _ in range(8)))
