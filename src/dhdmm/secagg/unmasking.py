"""Step 7: the coordinator reconstructs the masks that are left in the sum, and removes them.

In the sum of the survivors' y_i there remain F(b_i) of every survivor i, and F(s_ij) for every
survivor i and dropped j in M_i. Letters as in participant.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from dhdmm.secagg import keys, masks, shamir
from dhdmm.secagg.collected import Collected
from dhdmm.secagg.errors import AbortReason, RemoteProtocolError
from dhdmm.secagg.keys import Endpoint, KeyPair
from dhdmm.secagg.messages import ShareKind


def unmask(collected: Collected, total: masks.Vector) -> masks.Vector:
    """Σ x_i over the survivors, from Σ y_i; or a refusal that says what is missing."""
    result, session = total.copy(), collected.session
    survivors, mourners = sorted(collected.evidence), _mourners(collected)
    dropped = sorted(mourners)
    left_in: list[tuple[bytes, masks.Sign]] = [
        (keys.self_mask_seed(seed, session, i), -1)
        for i, seed in zip(survivors, _seeds(collected, survivors), strict=True)
    ]
    for j, mask_keys in zip(dropped, _mask_keys(collected, dropped), strict=True):
        gone = Endpoint(j, mask_keys.public)
        for i in mourners[j]:
            other = Endpoint(i, collected.keys[i].mask_key)
            agreed = mask_keys.agree(other.public)
            seed = keys.pairwise_mask_seed(agreed, session, gone, other)
            left_in.append((seed, -1 if j > i else 1))
    masks.add_masks(collected.parameters.modulus, result, left_in)
    return collected.parameters.modulus.reduce(result)


def _seeds(collected: Collected, survivors: Sequence[int]) -> list[bytes]:
    """b_i of every survivor, each recognised by its commitment."""
    seeds = _reconstruct(collected, survivors, ShareKind.SEED)
    for i, seed in zip(survivors, seeds, strict=True):
        committed = collected.shares[i].seed_commitment
        if keys.seed_commitment(seed, collected.session, i) != committed:
            raise RemoteProtocolError(AbortReason.INCONSISTENT_SHARES, f"seed of {i}")
    return seeds


def _mask_keys(collected: Collected, dropped: Sequence[int]) -> list[KeyPair]:
    """The mask keys of every dropped participant, each recognised by its public half."""
    secrets = _reconstruct(collected, dropped, ShareKind.MASK_KEY)
    pairs = [KeyPair.from_secret(secret) for secret in secrets]
    for j, pair in zip(dropped, pairs, strict=True):
        if pair.public != collected.keys[j].mask_key:
            raise RemoteProtocolError(AbortReason.INCONSISTENT_SHARES, f"mask key of {j}")
    return pairs


def _mourners(collected: Collected) -> dict[int, list[int]]:
    """The survivors i with j in M_i, for each j in A1∖A2 that has any."""
    around, mourners = collected.neighbourhoods, dict[int, list[int]]()
    left_in = collected.included & ~collected.surviving
    for i in sorted(collected.evidence):
        for j in around.positions[around.entries(i, left_in)].tolist():
            mourners.setdefault(j, []).append(i)
    return mourners


def _reconstruct(collected: Collected, subjects: Sequence[int], kind: ShareKind) -> list[bytes]:
    """One secret of each subject from the shares that were revealed."""
    revealed: dict[int, dict[int, bytes]] = {subject: {} for subject in subjects}
    for holder, message in sorted(collected.reveals.items()):
        for reveal in message.reveals:
            if reveal.kind == kind and reveal.position in revealed:
                revealed[reveal.position][holder] = reveal.share
    return shamir.reconstruct(list(revealed.values()), collected.parameters.threshold)
