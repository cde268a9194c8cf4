"""A Merkle tree over the roster, and one proof for many of its leaves.

    leaf i:        SHA-256(0x00 ‖ n ‖ i ‖ content)
    absent leaf i: SHA-256(0x02 ‖ n ‖ i)
    inner node:    SHA-256(0x01 ‖ left ‖ right)

with n, the number of leaves, and i as 4-byte big-endian integers. A level of odd length passes its
last node up unchanged; n is bound into every leaf, so the shape cannot be argued about.
A proof lists, level by level from the leaves and left to right, the siblings that the verifier
cannot compute; it is checked with one hash per node and never touches the rest of the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError

NODE_BYTES = 32


class Contents(Protocol):
    """Of all leaves, in order."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[bytes | None]: ...


@dataclass(frozen=True)
class Computed:
    """Contents that are made when it is their turn: there may be a million."""

    size: int
    content: Callable[[int], bytes | None]

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[bytes | None]:
        return map(self.content, range(self.size))


class MerkleTree:
    """The coordinator's tree; `contents[i]` is None where the participant at i is absent."""

    def __init__(self, contents: Contents) -> None:
        n = len(contents)
        if not n:
            raise LocalProtocolError("a tree without leaves")
        level, nodes, starts, fillers = bytearray(), bytearray(), list[int](), list[int]()
        for i, content in enumerate(contents):
            level += leaf_hash(content, i, n)
        # all nodes below the root in one array, odd levels filled up: siblings differ in one bit
        while (count := len(level) // NODE_BYTES) > 1:
            starts.append(len(nodes) // NODE_BYTES)
            nodes += level
            if count % 2:
                fillers.append(len(nodes) // NODE_BYTES)
                nodes += bytes(NODE_BYTES)
            level = _level_above(level)
        self.root, self.size = bytes(level), n
        self._starts = np.array(starts, np.int64)
        self._nodes = np.frombuffer(nodes, dtype=f"V{NODE_BYTES}")
        self._is_node = np.ones(len(self._nodes), dtype=np.bool_)
        self._is_node[fillers] = False

    def multiproof(self, positions: Iterable[int]) -> bytes:
        """The nodes that turn the leaves at `positions` into the root, 32 bytes each."""
        leaves = np.sort(np.array(list(positions), dtype=np.int64))
        if not len(leaves) or not 0 <= leaves[0] <= leaves[-1] < self.size:
            raise LocalProtocolError("no such leaves")
        # level by level, each from left to right: in the order of the array, with repetitions
        levels = np.arange(len(self._starts))[:, None]
        known = ((leaves >> levels) + self._starts[:, None]).ravel()
        known = known[_differs(known)]
        fresh = _differs(known >> 1)  # not the second of two children that are both known
        alone = np.append(fresh[1:], True) & fresh
        siblings = known[alone] ^ 1
        return bytes(self._nodes.take(siblings[self._is_node[siblings]]))


def _differs(ascending: NDArray[np.int64]) -> NDArray[np.bool_]:
    """From the element before it."""
    differs = np.ones(len(ascending), dtype=np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=differs[1:])
    return differs


def verify_multiproof(
    root: bytes, size: int, contents: Mapping[int, bytes | None], proof: bytes
) -> None:
    """Refuse unless `contents` are leaves of the tree of `size` leaves with this root.

    Strict: missing and left-over proof bytes are both errors.
    """
    if not contents or not all(0 <= i < size for i in contents):
        raise RemoteProtocolError(AbortReason.BAD_PROOF, "positions outside the roster")
    positions = sorted(contents)
    nodes, used = [leaf_hash(contents[i], i, size) for i in positions], 0
    while size > 1:
        nodes, used = _parents(positions, nodes, size, proof, used)
        positions = sorted({i >> 1 for i in positions})
        size = (size + 1) // 2
    if used != len(proof) or nodes[0] != root:
        raise RemoteProtocolError(AbortReason.BAD_PROOF, "proof does not lead to the root")


def _parents(
    positions: list[int], nodes: list[bytes], size: int, proof: bytes, used: int
) -> tuple[list[bytes], int]:
    """The parents of these nodes of a level of `size` nodes, and how much of the proof is used."""
    parents, waiting = [], b""  # waiting: a left node whose right one comes next
    for i, following, node in zip(positions, [*positions[1:], size], nodes, strict=True):
        if waiting:
            parents.append(_node(waiting, node))
            waiting = b""
        elif i & 1:
            parents.append(_node(proof[used : used + NODE_BYTES], node))
            used += NODE_BYTES
        elif following > i + 1:
            parents.append(_node(node, proof[used : used + NODE_BYTES]))
            used += NODE_BYTES
        elif following < size:
            waiting = node
        else:  # the last of an odd level
            parents.append(node)
    return parents, used


def leaf_hash(content: bytes | None, index: int, size: int) -> bytes:
    place = size.to_bytes(4, "big") + index.to_bytes(4, "big")
    if content is None:
        return sha256(b"\x02" + place).digest()
    return sha256(b"\x00" + place + content).digest()


def _level_above(level: bytearray) -> bytearray:
    above, pair = bytearray(), 2 * NODE_BYTES
    paired = len(level) // pair * pair
    for at in range(0, paired, pair):
        above += _node(level[at : at + NODE_BYTES], level[at + NODE_BYTES : at + pair])
    return above + level[paired:]


def _node(left: bytes | bytearray, right: bytes | bytearray) -> bytes:
    return sha256(b"\x01" + left + right).digest()


def expected_proof(size: int, leaves: NDArray[np.int64]) -> NDArray[np.int64]:
    """Nodes of a multiproof for random leaves of a tree of this size, on average.

    Of the nodes over b leaves, those are sent that lead to none of the proven leaves and whose
    sibling does: size/b · (Pr[some proven leaf among 2b] − Pr[among b]).
    """
    total, block = np.zeros(len(leaves)), 1
    while block < size:
        among = [1 - (1 - min(1.0, b / size)) ** leaves for b in (block, 2 * block)]
        total += size / block * (among[1] - among[0])
        block *= 2
    return np.rint(total).astype(np.int64)
