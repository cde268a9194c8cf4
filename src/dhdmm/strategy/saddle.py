"""The strategy whose largest variance is smallest, with its certificate.

The largest variance of any answer is at least every average of them, and an average with weights p
over the queries is a total squared error: F(d, p)² with F = ‖P^½ W D^½‖_* bounds it from below, for
any probabilities d over cells and p over queries (P = diag p). F is the least of ½(tr(Wᵀ P W X⁺) +
tr(D X)) over X, linear in d and p for every X: jointly concave, and its derivatives are X_uu/2 and
the variances var_i/2 of the best X. So queries are to p what cells are to d: the same climb, d_u ←
d_u (X_uu/F)² and p_i ← p_i (var_i/F)², finds both at once. The strategy's own value is
max_u X_uu · max_i var_i; divided by F² it is the certificate.

Variances are those of weighted answers. Terms of weight 0 are not judged: they are measured with a
small part of the sensitivity, for otherwise they could not be answered at all.

Where that cannot be computed the queries of a term share its p evenly, the strategy for p is the
one of least total error, and p_t ← p_t · (largest variance of term t)². The best strategy and the
best bound of a few steps are taken.

q: mass of d per orbit of cells; p: mass per class of queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dhdmm.strategy import sizes
from dhdmm.strategy.climb import Climb, Judged, ascend
from dhdmm.strategy.columns import Columns
from dhdmm.strategy.exact import SymmetricProblem
from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.objective import Largest, Objective, Weighted
from dhdmm.strategy.optimum import Dual, Optimum, inverse_half, root
from dhdmm.strategy.query_classes import QueryClasses
from dhdmm.strategy.strategy import Strategy
from dhdmm.strategy.symmetry import Reduction
from dhdmm.strategy.watch import Watch
from dhdmm.study.workload import Workload

TOLERANCE = 5e-4
"""Stop when the largest variance is within this of its bound."""
STEPS = 200
REWEIGHTINGS = 4
"""Strategies of least total error of which the best is taken."""
SPREAD = 1e-6
"""This much of p is on all queries alike, so that none gets lost."""
UNJUDGED = 0.001
"""What terms that are not judged add to F, relative to the others."""
SAFETY = 1e-9

Solve = Callable[[Workload, Objective], Strategy]


@dataclass(frozen=True, eq=False)
class Variances:
    """What one d and one p lead to."""

    F: float
    X: Floats
    """X_uu averaged over each orbit of cells."""
    queries: Floats
    """Of every class, weighted."""


class SaddleProblem(SymmetricProblem):
    """The dual problem over cells and queries; `dual` is that for the weights p last set."""

    dual: Dual
    first, share = 2.0**15, 1.0
    together = False  # every block has queries of its own

    def __init__(self, reduction: Reduction, weights: Sequence[float]) -> None:
        """With the weights of terms."""
        super().__init__(reduction)
        self.weights = weights

    def _different_cells(self) -> Integers | Columns | None:
        """All of them, if a matrix of the cells of every block can be written out."""
        ranks = [self.builder.rank_bound(block) for block in self.blocks]
        cells = [block.dimension for block in self.blocks]
        if len(self._long) <= 1:
            fits = math.prod(self.reduction.orbit_shape) <= sizes.ORBITS
        else:
            fits = self._fits(ranks, cells) and sum(n**2 for n in cells) <= sizes.MATRICES
        return self._every_cell() if fits else None

    def _optimum(self, watch: Watch) -> Optimum:
        assert isinstance(self.cells, np.ndarray)
        self.dual = self._use(self.cells)
        self._weigh(self.weights)
        optimum = self._climb(watch)
        roots = [block.R for block in self.dual.blocks]
        found = zip(self.parts, roots, self.B, self._lengths, strict=True)
        self.parts = [replace(x, C=R @ np.linalg.pinv(B * lengths)) for x, R, B, lengths in found]
        return optimum

    def _weigh(self, weights: Sequence[float]) -> None:
        reduction = self.reduction
        classes = QueryClasses(reduction)
        terms = range(len(reduction.terms))
        self.judged = [t for t in terms if weights[t]]
        self._squared = [w**2 for w in weights]
        self._shapes = [classes.shape(t) for t in terms]
        self._cuts = np.cumsum([math.prod(self._shapes[t]) for t in self.judged])
        self._shares = [classes.shares(block) for block in self.blocks]
        self._Q = [np.linalg.qr(block.R.T)[0] for block in self.dual.blocks]
        counts = np.concatenate([classes.counts(t).ravel() for t in self.judged])
        self._even = counts / counts.sum()
        self._held = {
            t: reduction.terms[t].weight ** 2 * classes.counts(t)
            for t in terms
            if t not in self.judged
        }
        if self._held:
            q = self.dual.uniform()
            judged = self._weighed(self._masses(self._even)).evaluate(q)[0]
            held = self._weighed(self._held).evaluate(q)[0]
            factor = (UNJUDGED * judged / held) ** 2
            self._held = {t: factor * masses for t, masses in self._held.items()}

    def _masses(self, p: Floats) -> dict[int, Floats]:
        """Of every class of the judged terms, by term."""
        p = (1 - SPREAD) * p + SPREAD * self._even
        parts = np.split(p, self._cuts[:-1])
        return {
            t: self._squared[t] * part.reshape(self._shapes[t])
            for t, part in zip(self.judged, parts, strict=True)
        }

    def _weighed(self, masses: dict[int, Floats]) -> Dual:
        """The total squared error of queries with these masses."""
        blocks = []
        for block, shares, Q in zip(self.dual.blocks, self._shares, self._Q, strict=True):
            V = np.zeros((len(Q), len(Q)))
            for share in shares:
                if share.term in masses:
                    V += share.gram(masses[share.term])
            blocks.append(replace(block, R=root(Q.T @ V @ Q) @ Q.T))
        return replace(self.dual, blocks=blocks)

    def evaluate(self, q: Floats, p: Floats) -> Variances:
        self.dual = self._weighed(self._masses(p) | self._held)
        F, X = self.dual.evaluate(q)
        found = {t: np.zeros(self._shapes[t]) for t in self.judged}
        each = zip(self.dual.blocks, self._shares, self._Q, strict=True)
        for i, (block, shares, Q) in enumerate(each):
            half = Q @ np.linalg.inv(inverse_half(self.dual.weighed(i, q)) @ block.R @ Q)
            inverse = block.multiplicity * (half @ half.T)
            for share in shares:
                if share.term in found:
                    found[share.term] += share.variances(inverse)
        queries = [self._squared[t] * variances.ravel() for t, variances in found.items()]
        return Variances(F, X, np.concatenate(queries))

    def _climb(self, watch: Watch) -> Optimum:
        cells = self.dual.uniform()
        climb = Climb(np.concatenate([cells, self._even]), (len(cells),))

        def judge(both: Floats) -> Judged[None]:
            q, p = np.split(both, climb.cuts)
            found = self.evaluate(q, p)
            mean = float(((1 - SPREAD) * p + SPREAD * self._even) @ found.queries)
            x = np.concatenate([found.X / found.F, found.queries / mean])
            return Judged(x, float(found.X.max() * found.queries.max()), found.F * mean, None)

        peak = ascend(climb, judge, watch, TOLERANCE, STEPS)
        bound = self._bound(*np.split(peak.tightest, climb.cuts))
        q, p = np.split(peak.q, climb.cuts)
        self.evaluate(q, p)
        return Optimum(q, bound, peak.achieved)

    def _bound(self, q: Floats, p: Floats) -> float:
        """F(d, p)² of the judged terms alone."""
        return self._weighed(self._masses(p)).certified_bound(q) * (1 - SAFETY)


def reweighted(workload: Workload, objective: Largest, solve: Solve) -> Strategy:
    """The strategy, with its bound."""
    found = list(zip(workload.terms, objective.weights(workload), strict=True))
    judged = [bool(weight) for _, weight in found]
    total = sum(term.queries for term, weight in found if weight)
    p = [term.queries / total if weight else 0.0 for term, weight in found]
    held = _unjudged(workload, [w / math.sqrt(total) for _, w in found], judged, solve)
    best, least, bound = None, math.inf, 0.0
    for _ in range(REWEIGHTINGS):
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
        p = [share * variance**2 for share, variance in zip(p, largest, strict=True)]
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
