"""Step 7: the coordinator reconstructs the masks that are left in the sum, and removes them.

In the sum of the survivors' y_i there remain F(b_i) of every survivor i, and F(s_ij) for every
survivor i and dropped j in M_i. Letters as in participant.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.group import Element
from dhdmm.aggregation.masks import Sign
from dhdmm.secagg import keys, shamir
from dhdmm.secagg import messages as m
from dhdmm.secagg.collected import Collected
from dhdmm.secagg.keys import Endpoint, KeyPair
from dhdmm.secagg.messages import ShareKind
from dhdmm.secagg.neighbourhoods import Indices


class Revealed(NamedTuple):
    """Shares of all subjects: whose secret, which of the two, at which holder, the share's limbs.

    Sorted by subject, then holder.
    """

    subjects: Indices
    kinds: Indices
    holders: Indices
    limbs: NDArray[np.uint32]  # (R, L)


def unmask(collected: Collected, total: Element) -> Element:
    """Σ x_i over the survivors, from Σ y_i; or a refusal that says what is missing."""
    result, session, revealed = total.copy(), collected.session, _revealed(collected)
    survivors, masked_with = sorted(collected.inputs), _masked_with_dropped(collected)
    seeds = _seeds(collected, revealed, survivors)
    mask_keys = _mask_keys(collected, revealed, sorted(masked_with))
    left_in: list[tuple[bytes, Sign]] = [
        (keys.self_mask_seed(seed, session, i), -1)
        for i, seed in zip(survivors, seeds, strict=True)
    ]
    for j, own in mask_keys.items():
        left_in += _left_by(j, own, masked_with[j], collected)
    collected.parameters.group.add_masks(result, left_in)
    return result


def _left_by(
    j: int, mask_keys: KeyPair, masked_with: Sequence[int], collected: Collected
) -> Iterator[tuple[bytes, Sign]]:
    """What cancels F(s_ij) of a dropped j in the y_i of the survivors that masked with it."""
    dropped, session = Endpoint(j, mask_keys.public), collected.session
    others = [Endpoint(i, collected.keys[i].mask_key) for i in masked_with]
    agreed = [mask_keys.agree(other.public) for other in others]
    for other, key in zip(others, agreed, strict=True):
        sign: Sign = -1 if j > other.position else 1
        yield keys.pairwise_mask_seed(key, session, dropped, other), sign


def _seeds(collected: Collected, revealed: Revealed, survivors: Sequence[int]) -> list[bytes]:
    """b_i of every survivor, each recognised by its commitment."""
    seeds = _reconstruct(collected, revealed, survivors, ShareKind.SEED)
    for i, seed in zip(survivors, seeds, strict=True):
        if keys.seed_commitment(seed, collected.session, i) != collected.commitments[i]:
            raise RemoteProtocolError(AbortReason.INCONSISTENT_SHARES, f"seed of {i}")
    return seeds


def _mask_keys(
    collected: Collected, revealed: Revealed, dropped: Sequence[int]
) -> dict[int, KeyPair]:
    """The mask keys of every dropped participant, each recognised by its public half."""
    secrets = _reconstruct(collected, revealed, dropped, ShareKind.MASK_KEY)
    pairs = dict(zip(dropped, map(KeyPair.from_secret, secrets), strict=True))
    for j, pair in pairs.items():
        if pair.public != collected.keys[j].mask_key:
            raise RemoteProtocolError(AbortReason.INCONSISTENT_SHARES, f"mask key of {j}")
    return pairs


def _masked_with_dropped(collected: Collected) -> dict[int, list[int]]:
    """The survivors i with j in M_i, for each j in A1∖A2 that has any."""
    around, masked_with = collected.neighbourhoods, dict[int, list[int]]()
    alive = collected.alive.array()
    for entry in np.flatnonzero(collected.included & ~collected.surviving).tolist():
        i, j = int(around.owners[entry]), int(around.positions[entry])
        if alive[i]:
            masked_with.setdefault(j, []).append(i)
    return masked_with


def _revealed(collected: Collected) -> Revealed:
    """All revealed shares."""
    holders = sorted(collected.reveals)
    tables = [collected.revealed(holder) for holder in holders]
    columns = m.REVEALS.table(b"".join([table.data for table in tables])).columns
    counts = np.array([len(table) for table in tables], dtype=np.int64)
    held_by = np.repeat(np.array(holders, dtype=np.int64), counts)
    order = np.argsort(columns["f0"], kind="stable")
    limbs = np.ascontiguousarray(columns["f2"][order]).view("<u4").reshape(-1, shamir.LIMBS)
    return Revealed(columns["f0"][order], columns["f1"][order], held_by[order], limbs)


def _reconstruct(
    collected: Collected, revealed: Revealed, subjects: Sequence[int], kind: ShareKind
) -> list[bytes]:
    """One secret of each subject from the shares that were revealed."""
    of_kind = revealed.kinds == kind
    shared, holders, limbs = revealed.subjects[of_kind], revealed.holders[of_kind], revealed.limbs
    starts = np.searchsorted(shared, np.array(subjects, dtype=shared.dtype))
    ends = np.searchsorted(shared, np.array(subjects, dtype=shared.dtype), side="right")
    threshold = collected.parameters.threshold
    return shamir.reconstruct(starts, ends, holders, limbs[of_kind], threshold)
