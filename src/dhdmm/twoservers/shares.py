"""The two shares of an input, and what is said, sealed and signed about them.

    share_H = F(HKDF(s, "dhdmm1 split" ‖ session ‖ i))      share_L = y − share_H

F is the mask of `dhdmm.aggregation.group`, in which inputs are added up. Whatever is signed or
sealed begins with a label of 16 bytes, the session and, if it is about one participant, its
position i.
"""

from __future__ import annotations

from hashlib import sha256

from dhdmm.aggregation.derivation import hkdf_expand, hkdf_extract
from dhdmm.aggregation.group import Element, Group
from dhdmm.aggregation.masks import Sign
from dhdmm.aggregation.merkle import Contents, MerkleTree
from dhdmm.twoservers.messages import Reported

SEED_BYTES = SALT_BYTES = 32

_KEY = b"dhdmm1 sealing\0\0"
_SEALED = b"dhdmm1 sealed\0\0\0"
_SPLIT = b"dhdmm1 split\0\0\0\0"
_REPORT = b"dhdmm1 report\0\0\0"
_LEADER_SUM = b"dhdmm1 leadersum"
_HELPER_SUM = b"dhdmm1 helpersum"


def add_helper_share(
    group: Group, total: Element, session: bytes, position: int, seed: bytes, sign: Sign
) -> None:
    """total ± share_H in place."""
    info = _SPLIT + session + _place(position)
    group.add_masks(total, [(hkdf_expand(hkdf_extract(seed), info), sign)])


def seal_info(session: bytes, position: int) -> bytes:
    """HPKE's info: a sealed seed opens for this round and this participant only."""
    return _SEALED + session + _place(position)


def key_statement(session: bytes, suite: int, key: bytes) -> bytes:
    """What the helper signs of its key."""
    return _KEY + session + bytes([suite]) + key


def report_statement(session: bytes, position: int, sealed: bytes, vector_hash: bytes) -> bytes:
    """What a participant signs."""
    return _REPORT + session + _place(position) + sha256(sealed).digest() + vector_hash


def report_hash(session: bytes, reported: Reported, sealed: bytes) -> bytes:
    """By which both servers know a report."""
    position, vector_hash, signature = reported
    said = report_statement(session, position, sealed, vector_hash)
    return sha256(said + signature).digest()


def reports_root(hashes: Contents) -> bytes:
    """Of the reports that count, in the order of the roster; None where there is none."""
    return MerkleTree(hashes).root


def leader_commitment(session: bytes, salt: bytes, packed: bytes) -> bytes:
    """To Σ share_L, before the leader learns Σ share_H. Salted: it could be guessed otherwise."""
    return sha256(_LEADER_SUM + session + salt + packed).digest()


def sum_statement(session: bytes, commitment: bytes, root: bytes, packed: bytes) -> bytes:
    """What the helper signs of Σ share_H; the root says whose shares."""
    return _HELPER_SUM + session + commitment + root + sha256(packed).digest()


def _place(position: int) -> bytes:
    return position.to_bytes(4, "big")
