"""Nanoseconds a noise value: dhdmm's exact discrete Gaussian beside OpenDP's, in one run."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from time import process_time

import opendp.prelude as dp

from dhdmm.privacy.gaussian import DiscreteGaussian
from dhdmm.privacy.keystream import KeyStream

SIGMAS = (2, 100, 10**4, 10**6, 10**9)
COUNT = 100_000
REPEATS = 3
GOAL = 40


def nanoseconds_each(draw: Callable[[], object]) -> float:
    """Processor time, the best of several runs: other load on the machine disturbs it least."""
    best = float("inf")
    for _ in range(REPEATS):
        start = process_time()
        draw()
        best = min(best, process_time() - start)
    return best / COUNT * 1e9


def ours(sigma: int) -> float:
    """DiscreteGaussian, its table already built."""
    noise, stream = DiscreteGaussian(Fraction(sigma) ** 2), KeyStream.fresh()
    noise.sample(1, stream)
    return nanoseconds_each(lambda: noise.sample(COUNT, stream))


def opendp(sigma: int) -> float:
    """OpenDP's exact sampler, as its Gaussian mechanism on a vector of integer zeros."""
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    mechanism = dp.m.make_gaussian(*space, scale=float(sigma))
    zeros = [0] * COUNT
    return nanoseconds_each(lambda: mechanism(zeros))


def main() -> None:
    dp.enable_features("contrib")
    print(f"Exact discrete Gaussian, {COUNT:,} samples, ns of processor time a sample")
    print(f"{'sigma':>14}{'dhdmm':>10}{'OpenDP':>10}{'ratio':>10}   (goal: {GOAL} or more)")
    for sigma in SIGMAS:
        fast, slow = ours(sigma), opendp(sigma)
        print(f"{sigma:>14,}{fast:>10.1f}{slow:>10,.0f}{slow / fast:>9,.0f}x")


if __name__ == "__main__":
    main()
