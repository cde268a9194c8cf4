"""A histogram that can be fitted on any domain: a mixture of records with independent attributes.

x̃ = Σ_k w_k · p_k1 ⊗ … ⊗ p_kd with K components. It is never negative, all that is counted from it
agrees, and nothing of the size of the domain exists. The answers to a product of factors are
Σ_k w_k · F₁p_k1 ⊗ … ⊗ F_dp_kd. The fit minimises Σ ((answer − raw) / s)² over the answers of a
release, s their standard errors, with the total held where it was measured.

It stops early, at the fit that the noise allows: on average the true answers are one standard error
from the raw ones, and a mixture that is much nearer has learnt the noise (ADR 32).

P: (K, values) of one attribute, merged values as the strategy tells them apart; F: (rows, values);
Q = P Fᵀ; w: (K,).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.release.covariance import variances
from dhdmm.release.intervals import Floats
from dhdmm.strategy.estimate import Estimate, mode_product, on_merged
from dhdmm.study.factor import Factor, Integers, Ranges, Rows
from dhdmm.study.workload import Product, Term, with_rows
from dhdmm.threads import one_blas_thread

if TYPE_CHECKING:
    from scipy import sparse

    from dhdmm.release.release import Release

Real = NDArray[np.floating[Any]]
"""Single precision while fitting, double in the end."""

COMPONENTS = 300
LARGEST_ROWS = 30_000_000
"""Components times rows of one attribute's factor; longer factors take fewer components."""
STAGES = (200, 400, 800)
"""Steps of the fit; a stage is added while the answers are farther from the raw ones than noise."""
STEP = 0.2
SPREAD = 1.0
"""Standard deviation of the components' first logits around those of the whole."""
RARE = 1e-5
"""The least share that a value has at first."""
MOST_ROWS = 5_000
"""A longer factor is fitted by values and by blocks of 2, 4, 8, … values."""
SEED = 20_230_823


@dataclass(frozen=True, eq=False)
class Queries:
    """The queries of one term on merged values; attributes that it sums over are left out."""

    products: tuple[tuple[float, dict[int, Real | None]], ...]
    """Coefficient, and F by attribute; None for the identity."""
    shape: tuple[int, ...]

    @classmethod
    def of(cls, release: Release, term: Term) -> Queries:
        products = tuple(_product(release, product) for product in term.products)
        return cls(products, term.row_shape)


def _product(release: Release, product: Product) -> tuple[float, dict[int, Real | None]]:
    found: dict[int, Real | None] = {}
    for a, (axis, factor) in enumerate(
        zip(release.plan.strategy.axes, product.factors, strict=True)
    ):
        matrix = on_merged(axis, factor).to_sparse().toarray().astype(np.float32)
        if matrix.shape == (1, 1) or not (len(matrix) == 1 and np.all(matrix == 1)):
            is_identity = matrix.shape[0] == matrix.shape[1] and bool(
                np.array_equal(matrix, np.eye(len(matrix)))
            )
            found[a] = None if is_identity else matrix
    return float(product.coefficient), found


@dataclass(frozen=True, eq=False)
class Mixture:
    """Σ_k w_k · p_k1 ⊗ … ⊗ p_kd.

    Attributes:
        weights: (K,), the records of each component.
        shares: (K, merged values) for every attribute; rows sum to 1.
        misfit: Root mean square of (answer − raw) / s over the fitted answers.
    """

    weights: Real
    shares: tuple[Real, ...]
    misfit: float = math.nan

    def count(self, queries: Queries) -> Real:
        """What the mixture counts, shaped by the factors' rows."""
        total = np.zeros(queries.shape, self.weights.dtype)
        for coefficient, factors in queries.products:
            left, right = _halves([self._rows(a, F) for a, F in factors.items()])
            w = self.weights
            counted = _khatri_rao(left, w).T @ _khatri_rao(right, np.ones_like(w))
            total += coefficient * counted.reshape(queries.shape)
        return total

    def _rows(self, a: int, F: Real | None) -> Real:
        """Q."""
        return self.shares[a] if F is None else self.shares[a] @ F.T

    def pull(self, queries: Queries, slope: Real) -> tuple[Real, dict[int, Real]]:
        """Derivatives by w and by P, from those by the counts: the transpose of `count`."""
        by_weight = np.zeros_like(self.weights)
        by_share: dict[int, Real] = {}
        for coefficient, factors in queries.products:
            Q = [self._rows(a, F) for a, F in factors.items()]
            left, right = _halves(Q)
            ones = np.ones_like(self.weights)
            L, R = _khatri_rao(left, ones), _khatri_rao(right, ones)
            G = np.float32(coefficient) * slope.reshape(L.shape[1], R.shape[1])
            by_left, by_right = R @ G.T, L @ G
            by_weight += np.einsum("ki,ki->k", by_left, L)
            slopes = [*_unravelled(left, by_left), *_unravelled(right, by_right)]
            for (a, F), by_rows in zip(factors.items(), slopes, strict=True):
                scaled = by_rows * self.weights[:, None]
                share = scaled if F is None else scaled @ F
                by_share[a] = by_share[a] + share if a in by_share else share
        return by_weight, by_share


def _halves(Q: list[Real]) -> tuple[list[Real], list[Real]]:
    """Two runs of attributes with about as many rows each."""
    best = min(
        range(len(Q) + 1),
        key=lambda i: math.prod(q.shape[1] for q in Q[:i]) + math.prod(q.shape[1] for q in Q[i:]),
    )
    return Q[:best], Q[best:]


def _khatri_rao(Q: Sequence[Real], scale: Real) -> Real:
    """(K, product of rows): scale_k times the Kronecker product of the rows k."""
    start = scale[:, None]
    return reduce(lambda L, q: (L[:, :, None] * q[:, None, :]).reshape(len(q), -1), Q, start)


def _unravelled(Q: list[Real], slope: Real) -> list[Real]:
    """Derivatives by each factor of a Khatri–Rao product, from those by the product."""
    if len(Q) == 1:
        return [slope]
    tensor = slope.reshape(len(slope), *(q.shape[1] for q in Q))
    return [_summed(tensor, Q, i) for i in range(len(Q))]


def _summed(tensor: Real, Q: list[Real], kept: int) -> Real:
    """Σ over all axes but the first and one, each weighted by its matrix; the last axis first."""
    for i in reversed(range(len(Q))):
        if i != kept:
            shape = (len(tensor), *[1] * i, -1, *[1] * (tensor.ndim - 2 - i))
            tensor = (tensor * Q[i].reshape(shape)).sum(axis=i + 1)
    return tensor


# ---- what is fitted -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FittedTerm:
    """A term of the workload, or one with fewer rows from which its answers follow."""

    term: Term
    queries: Queries
    precision: Real
    """1 / s², shaped by the rows."""
    longer: tuple[int, Factor] | None
    """The attribute of which blocks are fitted instead of the rows of a factor, and that factor."""

    def answers(self, counted: Real) -> Floats:
        """The answers to the workload's term, from those to the fitted one."""
        table = np.asarray(counted, np.float64).reshape(self.term.row_shape)
        if self.longer is not None:
            a, factor = self.longer
            values = table.take(np.arange(factor.shape[1]), axis=a)  # the first rows of the blocks
            table = mode_product(factor, values, a)
        return table.ravel()


def fitted_terms(release: Release) -> list[FittedTerm]:
    """All terms of the workload."""
    found = []
    for term, rows in with_rows(release.plan.study.workload.terms):
        errors = release.standard_errors[rows]
        longer = _long_factor(release, term)
        if longer is not None:
            term = _by_blocks(term, longer[0])
            errors = np.sqrt(variances(release, term))
        known = errors[errors > 0]
        s = np.where(errors > 0, errors, known.min() if len(known) else 1.0)
        precision = (s**-2).reshape(term.row_shape).astype(np.float32)
        found.append(FittedTerm(term, Queries.of(release, term), precision, longer))
    return found


def _long_factor(release: Release, term: Term) -> tuple[int, Factor] | None:
    if len(term.products) > 1:
        return None
    for a, factor in enumerate(term.products[0].factors):
        axis = release.plan.strategy.axes[a]
        every_value = len(axis.orbit) == len(axis.merged) == factor.shape[1]
        if every_value and factor.shape[0] > MOST_ROWS:
            shorter = _by_blocks(term, a)
            if release.plan.strategy.membership.contains(shorter):
                return a, factor
    return None


def _by_blocks(term: Term, attribute: int) -> Term:
    """The term with a row for every value of the attribute, then for blocks of 2, 4, 8, …"""
    product = term.products[0]
    factors = list(product.factors)
    size = factors[attribute].shape[1]
    widths = [2**i for i in range(size.bit_length())]
    low = np.concatenate([np.arange(0, size, width) for width in widths])
    width = np.concatenate([np.full(-(-size // width), width) for width in widths])
    factors[attribute] = Ranges(low, np.minimum(low + width, size), size)
    return replace(term, products=(replace(product, factors=tuple(factors)),))


def answers_of(fitted: Sequence[FittedTerm], counted: Sequence[Real]) -> Floats:
    """All answers of the workload, from what was counted for the fitted terms."""
    return np.concatenate([one.answers(table) for one, table in zip(fitted, counted, strict=True)])


# ---- fitting ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Start:
    """Where a fit begins: the share of every value, and the number of records."""

    shares: tuple[Floats, ...]
    total: float
    holds_total: bool
    """Whether the total was measured; otherwise it is fitted too."""


def start_of(release: Release, estimate: Estimate, beside: Mixture | None = None) -> Start:
    """One-way tables of an estimate, and of a mixture beside it, without what is negative."""
    axes = release.plan.strategy.axes
    everything = [Ranges.total(len(axis.merged)) for axis in axes]
    term = Term(1.0, (Product(Fraction(1), tuple(everything)),), (None,) * len(axes))
    total = float(estimate.product(everything).sum())
    if beside is not None:
        total += float(beside.weights.sum())
    shares = []
    for a, axis in enumerate(axes):
        classes = Rows(_indicators(axis.merged, len(axis.orbit)))
        by_value = estimate.product([*everything[:a], classes, *everything[a + 1 :]]).ravel()
        if beside is not None:
            by_value = by_value + beside.weights @ beside.shares[a]
        positive = np.maximum(by_value / max(total, 1.0), RARE)
        shares.append(positive / positive.sum())
    measured = release.plan.strategy.membership.contains(term)
    return Start(tuple(shares), max(total, 1.0), measured)


def _indicators(merged: Integers, classes: int) -> sparse.csr_array:
    """(classes, values): which values the strategy takes for one."""
    from scipy import sparse

    values = np.arange(len(merged))
    return sparse.csr_array((np.ones_like(values), (merged, values)), shape=(classes, len(values)))


def fit(fitted: Sequence[FittedTerm], raw: Sequence[Floats], start: Start) -> Mixture:
    """The mixture whose answers are near the raw ones, of each fitted term in turn."""
    wanted = [
        values.astype(np.float32).reshape(f.term.row_shape)
        for f, values in zip(fitted, raw, strict=True)
    ]
    longest = max(math.prod(f.term.row_shape) for f in fitted)
    count = max(2, min(COMPONENTS, LARGEST_ROWS // longest))
    rng = np.random.default_rng(SEED)
    logits = [
        (np.log(share) + rng.normal(0, SPREAD, (count, len(share)))).astype(np.float32)
        for share in start.shares
    ]
    logits.append(np.full(count, math.log(start.total / count), np.float32))
    queries = sum(values.size for values in wanted)
    with one_blas_thread():  # many small products
        for steps in STAGES:
            loss = _descend(fitted, wanted, logits, start, steps)
            if loss <= queries:
                break
    exact = _mixture([x.astype(np.float64) for x in logits], start)
    return replace(exact, misfit=math.sqrt(loss / queries))


def _descend(
    fitted: Sequence[FittedTerm],
    wanted: Sequence[Real],
    logits: list[Real],
    start: Start,
    steps: int,
) -> float:
    """Steps of Adam (Kingma, Ba 2015) on the logits, which change in place; the last loss."""
    first, second = ([np.zeros_like(x) for x in logits] for _ in range(2))
    for step in range(1, steps + 1):
        mixture = _mixture(logits, start)
        loss, slopes = _slopes(fitted, wanted, mixture, start)
        rate = STEP * min(1.0, 2 * (1 - step / steps) + 0.02)
        for x, g, m, v in zip(logits, slopes, first, second, strict=True):
            m += 0.1 * (g - m)
            v += 0.01 * (g * g - v)
            scale = np.sqrt(v / (1 - 0.99**step)) + 1e-12
            x -= rate / (1 - 0.9**step) * m / scale
    return loss


def _mixture(logits: Sequence[Real], start: Start) -> Mixture:
    shares = tuple(map(_softmax, logits[:-1]))
    weights = start.total * _softmax(logits[-1]) if start.holds_total else np.exp(logits[-1])
    return Mixture(weights.astype(logits[-1].dtype), shares)


def _softmax(x: Real) -> Real:
    raised = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def _slopes(
    fitted: Sequence[FittedTerm], wanted: Sequence[Real], mixture: Mixture, start: Start
) -> tuple[float, list[Real]]:
    """Σ ((answer − raw) / s)² and its derivatives, halved, by the logits."""
    loss = 0.0
    by_weight = np.zeros_like(mixture.weights)
    by_share = [np.zeros_like(P) for P in mixture.shares]
    for one, values in zip(fitted, wanted, strict=True):
        error = mixture.count(one.queries) - values
        weighted = error * one.precision
        loss += float(np.vdot(error, weighted))
        more, shares = mixture.pull(one.queries, weighted)
        by_weight += more
        for a, slope in shares.items():
            by_share[a] += slope
    found = [
        P * (g - (P * g).sum(axis=1, keepdims=True))
        for P, g in zip(mixture.shares, by_share, strict=True)
    ]
    mean = (mixture.weights @ by_weight) / start.total if start.holds_total else 0.0
    return loss, [*found, mixture.weights * (by_weight - mean)]
