"""The second kind of phantom: its bound in exact integers, and the attack that it bounds."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import count

import numpy as np
import pytest

from dhdmm.aggregation.method import ThreatModel
from dhdmm.secagg.parameters import choose
from dhdmm.secagg.phantoms import exposed_phantoms, unmet_phantoms

BITS = 44


def tail(n: int, marked: int, k: int, t: int) -> Fraction:
    """Pr[Hyp(n−1, marked, k) ≥ t]."""
    ways = sum(
        math.comb(marked, x) * math.comb(n - 1 - marked, k - x) for x in range(max(t, 0), k + 1)
    )
    return Fraction(ways, math.comb(n - 1, k))


def supported(n: int, c: int, k: int, t: int, holders: int) -> int:
    if n * tail(n, c, k, t - holders) <= Fraction(1, 2**BITS):
        return 0
    sets, chance = math.comb(n - c, holders), tail(n, c + holders, k, t)
    rare = (f for f in count(1) if sets * math.comb(n - c, f) * chance**f * 2**BITS <= 1)
    return next(rare) - 1


def exact(n: int, c: int, s: int, k: int, t: int, unmet: int) -> int:
    """Straight from the formulas of docs/parameters.md."""
    d = n - s + unmet
    u = d + supported(n, c, k, t, d)
    sets, chance = math.comb(n - c, u), tail(n, c + u - 1, k, t)
    rare = (r for r in count(1) if sets * math.comb(u, r) * chance**r * 2**BITS <= 1)
    return supported(n, c, k, t, next(rare) - 1)


@pytest.mark.parametrize(
    ("n", "fraction"), [(300, 0.05), (1_000, 0.1), (10_000, 0.05), (20_000, 0.05)]
)
def test_bound_on_exposed_phantoms_agrees_with_exact_arithmetic(n, fraction) -> None:
    chosen = choose(n, fraction, fraction, ThreatModel.MALICIOUS)
    c, s, k, t = chosen.corrupt, chosen.minimum_survivors, chosen.degree, chosen.threshold
    unmet = unmet_phantoms(n, c, k, 42)
    assert exposed_phantoms(n, c, s, k, t, unmet, BITS) == exact(n, c, s, k, t, unmet)
    assert chosen.margin == unmet + exact(n, c, s, k, t, unmet)


@pytest.mark.slow
def test_exposing_a_phantom_costs_more_than_all_dropouts() -> None:
    """Those declared dead are spent on exposing one more: its holders reveal, others ack to them.

    On the graph of the plan all dropouts do not pay for one phantom; at a threshold of 8 they do.
    """
    n = 10_000
    chosen = choose(n, 0.05, 0.05, ThreatModel.MALICIOUS)
    generator = np.random.default_rng(1)
    out = [set(generator.choice(n - 1, chosen.degree, replace=False).tolist()) for _ in range(n)]
    corrupt = set(range(chosen.corrupt))
    dropouts = n - chosen.minimum_survivors

    def cost(target: int, threshold: int) -> int:
        """How many must be declared dead so that the target's mask key is exposed."""
        holders = out[target] - corrupt
        revealers = set(sorted(holders)[: threshold - len(out[target] & corrupt)])
        needed = set(revealers)
        for j in revealers:
            missing = threshold - len(out[j] & (corrupt | needed))
            needed |= set(sorted(out[j] - corrupt - needed)[: max(missing, 0)])
        return len(needed)

    targets = range(chosen.corrupt, n, 20)
    assert min(cost(i, chosen.threshold) for i in targets) > dropouts
    assert min(cost(i, threshold=8) for i in targets) <= dropouts
