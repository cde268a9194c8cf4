"""A Merkle tree over the roster, and one proof for many of its leaves.

    leaf i:        SHA-256(0x00 ‖ n ‖ i ‖ content)
    absent leaf i: SHA-256(0x02 ‖ n ‖ i)
    inner node:    SHA-256(0x01 ‖ left ‖ right)

with n, the number of leaves, and i as 4-byte big-endian integers. A level of odd length passes its
last node up unchanged; n is bound into every leaf, so the shape cannot be argued about.
A proof lists, level by level from the leaves and left to right, the siblings that the verifier
cannot compute; it is checked with one hash a node and never touches the rest of the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from dhdmm.secagg.errors import AbortReason, LocalProtocolError, RemoteProtocolError

NODE_BYTES = 32


class MerkleTree:
    """The coordinator's tree; `contents[i]` is None where the participant at i is absent."""

    def __init__(self, contents: Sequence[bytes | None]) -> None:
        n = len(contents)
        if not n:
            raise LocalProtocolError("a tree without leaves")
        self.levels = [[leaf_hash(content, i, n) for i, content in enumerate(contents)]]
        while len(self.levels[-1]) > 1:
            below = self.levels[-1]
            level = [_node(*below[i : i + 2]) for i in range(0, len(below) - 1, 2)]
            self.levels.append(level + below[len(level) * 2 :])

    @property
    def root(self) -> bytes:
        return self.levels[-1][0]

    def multiproof(self, positions: Iterable[int]) -> bytes:
        """The nodes that turn the leaves at `positions` into the root, 32 bytes each."""
        known = set(positions)
        if not known or not 0 <= min(known) <= max(known) < len(self.levels[0]):
            raise LocalProtocolError("no such leaves")
        proof: list[bytes] = []
        for level in self.levels[:-1]:
            siblings = sorted({i ^ 1 for i in known} - known)
            proof += [level[i] for i in siblings if i < len(level)]
            known = {i >> 1 for i in known}
        return b"".join(proof)


def verify_multiproof(
    root: bytes, size: int, contents: Mapping[int, bytes | None], proof: bytes
) -> None:
    """Refuse unless `contents` are leaves of the tree of `size` leaves with this root.

    Strict: missing and left-over proof bytes are both errors.
    """
    if not contents or not all(0 <= i < size for i in contents):
        raise RemoteProtocolError(AbortReason.BAD_PROOF, "positions outside the roster")
    known = {i: leaf_hash(contents[i], i, size) for i in sorted(contents)}
    used = 0
    while size > 1:
        parents: dict[int, bytes] = {}
        for i, node in known.items():
            if i >> 1 in parents:
                continue
            sibling = i ^ 1
            if sibling >= size:
                parents[i >> 1] = node
                continue
            other = known.get(sibling)
            if other is None:
                other = proof[used : used + NODE_BYTES]
                used += NODE_BYTES
            parents[i >> 1] = _node(other, node) if i & 1 else _node(node, other)
        known, size = parents, (size + 1) // 2
    if used != len(proof) or known[0] != root:
        raise RemoteProtocolError(AbortReason.BAD_PROOF, "proof does not lead to the root")


def leaf_hash(content: bytes | None, index: int, size: int) -> bytes:
    place = size.to_bytes(4, "big") + index.to_bytes(4, "big")
    if content is None:
        return sha256(b"\x02" + place).digest()
    return sha256(b"\x00" + place + content).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()
