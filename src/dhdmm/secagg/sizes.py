"""How many bytes each message has, from counts alone.

The wire format is asked, not copied: an empty message and one with one item give the fixed part and
the size of an item.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.modulus import packed_size
from dhdmm.secagg import messages as m
from dhdmm.secagg.counts import Counts
from dhdmm.secagg.keys import EVIDENCE_BYTES
from dhdmm.secagg.merkle import NODE_BYTES
from dhdmm.secagg.round import RoundParameters
from dhdmm.secagg.shamir import SHARE_BYTES
from dhdmm.secagg.states import CoordinatorState

Bytes = NDArray[np.int64]

_C = CoordinatorState
_START = bytes(32), 0  # session and position
_HASH = _KEY = bytes(32)
_NOBODY = Bitmap(0, b"")
_TAG = bytes(EVIDENCE_BYTES)
_MAKERS: dict[type[m.Message], Callable[[int], m.Message]] = {
    m.Keys: lambda _: m.Keys(*_START, _KEY, _KEY),
    m.SignedKeys: lambda _: m.SignedKeys(*_START, _KEY, _KEY, bytes(64)),
    m.Root: lambda _: m.Root(*_START, _HASH),
    m.Choice: lambda c: m.Choice(*_START, tuple(range(c))),
    m.Neighbours: lambda c: m.Neighbours(*_START, (m.PublicKeys(0, _KEY, _KEY),) * c),
    m.ProvenNeighbours: lambda c: m.ProvenNeighbours(
        *_START, (m.SignedPublicKeys(0, 1, _KEY, _KEY, bytes(64)),) * c, b""
    ),
    m.Shares: lambda c: m.Shares(*_START, _HASH, (bytes(m.CIPHERTEXT_BYTES),) * c),
    m.RelayedShares: lambda c: m.RelayedShares(*_START, _NOBODY, (bytes(m.CIPHERTEXT_BYTES),) * c),
    m.MaskedInput: lambda _: m.MaskedInput(*_START, b""),
    m.EvidencedInput: lambda c: m.EvidencedInput(*_START, b"", _NOBODY, (_TAG,) * c),
    m.Survivors: lambda _: m.Survivors(*_START, _NOBODY),
    m.EvidencedSurvivors: lambda c: m.EvidencedSurvivors(*_START, _NOBODY, (_TAG,) * c),
    m.Acks: lambda c: m.Acks(*_START, (_TAG,) * c),
    m.RelayedAcks: lambda c: m.RelayedAcks(*_START, _NOBODY, (_TAG,) * c),
    m.Unmask: lambda c: m.Unmask(*_START, (m.Reveal(0, 0, bytes(SHARE_BYTES)),) * c),
}


def _fixed_and_item(kind: type[m.Message]) -> tuple[int, int]:
    fixed = len(_MAKERS[kind](0).encode())
    return fixed, len(_MAKERS[kind](1).encode()) - fixed


def size(kind: type[m.Message], items: Bytes | int = 0, bits: Bytes | int = 0) -> Bytes:
    """Bytes of messages with so many items and a bitmap of so many bits."""
    fixed, item = _fixed_and_item(kind)
    return np.asarray(fixed + item * items + (bits + 7) // 8, np.int64)


def received_bytes(parameters: RoundParameters, counts: Counts) -> dict[str, Bytes]:
    """What the coordinator opens each phase with."""
    c, n = counts, parameters.participants
    relayed = size(m.RelayedShares, c.deposits, c.neighbours)
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
    c, packed = counts, packed_size(parameters.modulus, parameters.length)
    shares, unmask = size(m.Shares, c.out), size(m.Unmask, c.deposits)
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
