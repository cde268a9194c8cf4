"""Many proofs are verified in other processes, so that this one can do other work."""

from __future__ import annotations

import atexit
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from functools import cache

from dhdmm.aggregation.randomness import Randomness
from dhdmm.validation.group import EncodingError, decode_point
from dhdmm.validation.proof import Statement
from dhdmm.validation.verification import Claim, faults

ALONE = 16
"""So many proofs, and fewer, are verified here: a process has to be started, and to make the
generators for itself."""
TOGETHER = 64
"""So many go to a process at once: more gain little."""


def faults_of(
    statement: Statement | None, randomness: Randomness, claims: list[Claim]
) -> dict[int, str]:
    """Which of the claims do not hold, and why; without a statement only commitments are read."""
    if statement is None:
        reasons = ((i, _unreadable(claim)) for i, claim in enumerate(claims))
        return {i: why for i, why in reasons if why is not None}
    if len(claims) <= ALONE:
        return faults(statement, claims, randomness)
    share = min(TOGETHER, -(-len(claims) // _cores()))
    starts = range(0, len(claims), share)
    waiting = [_pool().submit(_work, statement, claims[at : at + share]) for at in starts]
    return {
        at + i: why
        for at, found in zip(starts, waiting, strict=True)
        for i, why in found.result().items()
    }


def _unreadable(claim: Claim) -> str | None:
    if claim.proof:
        return "a proof of nothing that is to be proved"
    try:
        decode_point(claim.commitment)
    except EncodingError as error:
        return str(error)
    return None


def _work(statement: Statement, claims: list[Claim]) -> dict[int, str]:
    return faults(statement, claims, os.urandom)


def _cores() -> int:
    return os.cpu_count() or 1


@cache
def _pool() -> ProcessPoolExecutor:
    """Started anew rather than forked: a server has threads."""
    pool = ProcessPoolExecutor(_cores(), multiprocessing.get_context("spawn"))
    atexit.register(pool.shutdown, wait=False, cancel_futures=True)
    return pool
