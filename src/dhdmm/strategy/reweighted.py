"""A small largest variance where the saddle point cannot be computed: weights of whole terms.

Any probabilities p over the queries give a bound on the largest variance, and a strategy
(saddle.py). Here the queries of a term share its p evenly, the strategy for p is the one that
`solve` finds of least total error, and p_t ← p_t · (largest variance of term t). The best strategy
and the best bound of a few steps are taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from dhdmm.strategy.objective import Largest, Objective, Weighted
from dhdmm.strategy.saddle import UNJUDGED
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.workload import Workload

STEPS = 6

Solve = Callable[[Workload, Objective], Strategy]


def reweighted(workload: Workload, objective: Largest, solve: Solve) -> Strategy:
    """The strategy, with its bound."""
    found = list(zip(workload.terms, objective.weights(workload), strict=True))
    judged = [bool(weight) for _, weight in found]
    total = sum(term.queries for term, weight in found if weight)
    p = [term.queries / total if weight else 0.0 for term, weight in found]
    held = _unjudged(workload, [w / math.sqrt(total) for _, w in found], judged, solve)
    best, least, bound = None, math.inf, 0.0
    for _ in range(STEPS):
        given = [
            weight * math.sqrt(share / term.queries) if weight else term.weight * held
            for (term, weight), share in zip(found, p, strict=True)
        ]
        strategy = solve(workload, Weighted(tuple(given)))
        bound = max(bound, strategy.lower_bound or 0.0) if all(judged) else bound
        largest = objective.by_term(workload, strategy.reconstruction)
        value = strategy.sensitivity_squared * max(largest)
        if value < least:
            best, least, kept = strategy, value, given
        p = [share * variance for share, variance in zip(p, largest, strict=True)]
        p = [share / math.fsum(p) for share in p]
    assert best is not None
    if not all(judged):
        bound = _part(workload, kept, judged, solve)
    return replace(best, objective=objective, lower_bound=bound)


def _unjudged(
    workload: Workload, weights: Sequence[float], judged: Sequence[bool], solve: Solve
) -> float:
    """What multiplies the weights of terms that are not judged: they cost next to nothing."""
    if all(judged):
        return 0.0
    plain = [term.weight for term in workload.terms]
    rest = _part(workload, plain, [not one for one in judged], solve)
    return UNJUDGED * _part(workload, weights, judged, solve) / rest


def _part(
    workload: Workload, weights: Sequence[float], chosen: Sequence[bool], solve: Solve
) -> float:
    """The bound on the total error, root, of some of the terms alone."""
    numbers = iter(range(len(weights)))
    items = [
        replace(item, terms=tuple(t for t in item.terms if chosen[next(numbers)]), derived=())
        for item in workload.items
    ]
    part = replace(workload, items=tuple(item for item in items if item.terms))
    given = tuple(w for w, is_chosen in zip(weights, chosen, strict=True) if is_chosen)
    return solve(part, Weighted(given)).lower_bound or 0.0
