"""Secrets from shares by holder, as tests and benchmarks have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dhdmm.secagg import shamir


def reconstruct(shares: Sequence[Mapping[int, bytes]], threshold: int) -> list[bytes]:
    """Each secret from its holders' shares (position → 36 bytes); holders may differ."""
    sizes = np.array([len(given) for given in shares], dtype=np.int64)
    ends = np.cumsum(sizes, dtype=np.int64)
    holders = np.array([holder for given in shares for holder in given], dtype=np.int64)
    encoded = b"".join(share for given in shares for share in given.values())
    limbs = np.frombuffer(encoded, dtype="<u4").reshape(-1, shamir.LIMBS)
    return shamir.reconstruct(ends - sizes, ends, holders, limbs, threshold)
