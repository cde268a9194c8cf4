"""Commitments and proofs: ms of processor time, alone and in batches, over the floor that is the
library's own sum of as many multiples of points."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial

import numpy as np
from py_arkworks_bls12381 import G1Point, Scalar

from bench.primitives import microseconds
from dhdmm.validation.commitment import Limbs, commit, sum_is_committed
from dhdmm.validation.group import ORDER, bases, encode_point
from dhdmm.validation.proof import Statement
from dhdmm.validation.proving import prove
from dhdmm.validation.verification import Claim, faults

LENGTHS = (200, 3_112, 10_000)
BATCHES = (4, 20)
DEVIATION = 3.0


def floor(length: int) -> float:
    """One sum of multiples by numbers of any size: what T₁ costs at the least."""
    points = list(bases(length).g)
    scalars = [Scalar(int.from_bytes(os.urandom(32), "little") % ORDER) for _ in points]
    return microseconds(lambda: G1Point.multiexp_unchecked(points, scalars)) / 1e3


def report(length: int) -> None:
    lowest = floor(length)
    noise = np.random.default_rng(0).normal(0, DEVIATION, (max(BATCHES), length)).round()
    vectors = [[int(entry) for entry in row] for row in noise]
    statement = Statement(length, int(1.2 * DEVIATION * length**0.5) + 10)
    limbs = Limbs.for_sums(3_000, 2**30)
    drawn = [limbs.draw(os.urandom) for _ in vectors]
    blindings = [limbs.blinding(one) for one in drawn]
    pairs = list(zip(vectors, blindings, strict=True))
    claims = [
        Claim(b"", encode_point(commit(y, r)), prove(statement, b"", y, r, os.urandom))
        for y, r in pairs
    ]
    total = [sum(column) for column in zip(*vectors, strict=True)]
    blinding = limbs.blinding([sum(column) for column in zip(*drawn, strict=True)])
    points = [commit(y, r) for y, r in pairs]
    timed: dict[str, Callable[[], object]] = {
        "commit": partial(commit, *pairs[0]),
        "prove": partial(prove, statement, b"", *pairs[0], os.urandom),
        "verify 1": partial(faults, statement, claims[:1], os.urandom),
        "check the sum": partial(sum_is_committed, points, total, blinding),
    }
    costs = {name: microseconds(work) / 1e3 for name, work in timed.items()}
    for size in BATCHES:
        work = partial(faults, statement, claims[:size], os.urandom)
        costs[f"verify 1 of {size}"] = microseconds(work) / 1e3 / size
    size_of_proof = statement.proof_bytes / 1e3
    print(f"{length:,} entries: floor {lowest:.1f} ms; a proof of {size_of_proof:.1f} kB")
    for name, cost in costs.items():
        print(f"  {name:<16}{cost:>8.1f} ms{cost / lowest:>8.2f} floors")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS))
    for length in options.parse_args().lengths:
        report(length)


if __name__ == "__main__":
    main()
