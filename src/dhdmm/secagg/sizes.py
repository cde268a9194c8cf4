"""How many bytes each message has, from counts alone.

The layouts of the wire format say how large the fixed part and an item of each message are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation import wire
from dhdmm.aggregation.merkle import NODE_BYTES
from dhdmm.aggregation.messages import HEADER_BYTES
from dhdmm.secagg import messages as m
from dhdmm.secagg.counts import Counts
from dhdmm.secagg.round import RoundParameters
from dhdmm.secagg.states import CoordinatorState

Bytes = NDArray[np.int64]

_C = CoordinatorState


def _fixed_and_item(kind: type[m.Message]) -> tuple[int, int]:
    """Bytes of a message whose lists, bitmaps and blobs are empty, and of an item of its list."""
    fixed, item = HEADER_BYTES, 0
    for _, codec in wire.layout(kind):
        match codec:
            case wire.Fixed(size):
                fixed += size
            case wire.Items(size):
                fixed, item = fixed + len(codec.encode(())), size
            case wire.Records(layout):
                fixed, item = fixed + wire.COUNT_BYTES, layout.size
            case wire.Positions():
                fixed, item = fixed + wire.COUNT_BYTES, wire.COUNT_BYTES
            case _:
                fixed += wire.COUNT_BYTES
    return fixed, item


def size(kind: type[m.Message], items: Bytes | int = 0, bits: Bytes | int = 0) -> Bytes:
    """Bytes of messages with so many items and a bitmap of so many bits."""
    fixed, item = _fixed_and_item(kind)
    return np.asarray(fixed + item * items + (bits + 7) // 8, np.int64)


def received_bytes(parameters: RoundParameters, counts: Counts) -> dict[str, Bytes]:
    """What the coordinator opens each phase with."""
    c, n = counts, parameters.participants
    relayed = size(m.RelayedShares, c.held, c.neighbours)
    if not parameters.malicious:
        return {
            _C.COLLECTING_SHARES: size(m.Neighbours, c.neighbours),
            _C.COLLECTING_INPUTS: relayed,
            _C.COLLECTING_REVEALS: size(m.Survivors, bits=n),
        }
    return {
        _C.COLLECTING_CHOICES: size(m.Root),
        _C.COLLECTING_SHARES: size(m.ProvenNeighbours, c.neighbours) + NODE_BYTES * c.proof,
        _C.COLLECTING_INPUTS: relayed,
        _C.COLLECTING_ACKS: size(m.EvidencedSurvivors, c.alive, n),
        _C.COLLECTING_REVEALS: size(m.RelayedAcks, c.acked, c.neighbours),
    }


def sent_bytes(parameters: RoundParameters, counts: Counts) -> dict[str, Bytes]:
    """What a participant answers in each phase."""
    c, packed = counts, parameters.input_bytes
    shares, unmask = size(m.Shares, c.out), size(m.Unmask, c.held)
    if not parameters.malicious:
        return {
            _C.COLLECTING_KEYS: size(m.Keys),
            _C.COLLECTING_SHARES: shares,
            _C.COLLECTING_INPUTS: size(m.MaskedInput) + packed,
            _C.COLLECTING_REVEALS: unmask,
        }
    return {
        _C.COLLECTING_KEYS: size(m.SignedKeys),
        _C.COLLECTING_CHOICES: size(m.Choice, parameters.degree),
        _C.COLLECTING_SHARES: shares,
        _C.COLLECTING_INPUTS: size(m.EvidencedInput, c.included, c.neighbours) + packed,
        _C.COLLECTING_ACKS: size(m.Acks, c.to_ack),
        _C.COLLECTING_REVEALS: unmask,
    }
