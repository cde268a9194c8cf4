"""Other strategies for the same workload: identity, the workload itself, HDMM's Kronecker products.

All are scored as this mechanism would use them: Gaussian noise, so L2 sensitivity, and answers by
least squares. The total squared error of A with X = AᵀA is max_u X_uu · tr(V X⁺), V = WᵀW. V is a
sum of Kronecker products of small Gram matrices: W and A are never written out.

`kronecker` follows McKenna, Miklau, Hay, Machanavajjhala, "Optimizing error of high-dimensional
statistical queries under differential privacy" (2018): per attribute a p-identity strategy (OPT_0),
for a union of products by block coordinate descent (OPT_⊗). It minimises error under L1
sensitivity 1, HDMM's default; the L2 norm of its columns is then at most 1. HDMM's other two
searches, for marginals and for unions of strategies, are not here.

V: (n, n) Gram of one attribute; Θ: (p, n) non-negative; s = 1 + Θᵀ1, so that S = diag(s) = D⁻¹;
A(Θ) = [I; Θ]D has columns of L1 norm 1; M = (I + ΘᵀΘ)⁻¹, so that X⁻¹ = (AᵀA)⁻¹ = S M S.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import optimize

from dhdmm.errors import StrategyError
from dhdmm.strategy import sizes
from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.maximise import NormTable, maximum
from dhdmm.strategy.symmetry import ReducedAxis, Reduction, reduce_workload
from dhdmm.study.factor import Factor, Ranges
from dhdmm.study.workload import Workload
from dhdmm.threads import one_blas_thread

Pair = tuple[int, int]
"""Numbers of two factors of an attribute, naming their Gram FᵢᵀFⱼ."""

VALUES_PER_ROW = 16
"""HDMM's convention: p = n/16, or 1 where only single values and totals are asked for."""
SWEEPS = 12
SWEEP_TOLERANCE = 5e-3
STEPS = 100


@dataclass(frozen=True)
class Baseline:
    """A strategy by its figures; `rmse` means what it means for `Strategy`."""

    name: str
    rows: int | None
    rmse: float | None
    note: str = ""
    """Why there is no figure."""


def compare(workload: Workload, rank: int) -> list[Baseline]:
    """Identity, the workload itself, and HDMM's.

    `rank` is that of W or at least that: the rows of any strategy that answers it without bias.
    """
    with one_blas_thread():
        grams = GramSum(reduce_workload(workload))
        return [
            identity(workload, grams),
            _or_skipped(
                "workload itself", lambda: itself(workload, grams, min(rank, workload.queries))
            ),
            _or_skipped("HDMM-style (L1)", lambda: hdmm(workload, grams)),
        ]


def _or_skipped(name: str, compute: Callable[[], Baseline]) -> Baseline:
    try:
        return compute()
    except StrategyError as error:
        return Baseline(name, None, None, error.what)


def identity(workload: Workload, grams: GramSum) -> Baseline:
    """A = I: every cell is counted, sensitivity 1, total squared error tr V."""
    traces = [
        {pair: float(diagonal[axis.merged].sum()) for pair, diagonal in axis.diagonals.items()}
        for axis in grams.axes
    ]
    return Baseline("identity", workload.cells, _rmse(workload, grams.contract(traces)))


def itself(workload: Workload, grams: GramSum, rank: int) -> Baseline:
    """A = W: total squared error max_u V_uu · tr(V V⁺) = max_u V_uu · rank(W)."""
    squared = grams.largest_diagonal()
    return Baseline("workload itself", workload.queries, _rmse(workload, squared * rank))


def hdmm(workload: Workload, grams: GramSum) -> Baseline:
    """A = ⊗ A(Θ_a), optimised for L1 and scored by L2."""
    parts = kronecker(grams)
    squared = math.prod(part.largest_column for part in parts)
    error = squared * grams.contract(_traces(grams, parts))
    rows = math.prod(part.rows for part in parts)
    return Baseline("HDMM-style (L1)", rows, _rmse(workload, error))


def _rmse(workload: Workload, total_squared_error: float) -> float:
    return math.sqrt(total_squared_error / workload.queries)


class GramSum:
    """V = Σ c · ⊗ G on merged values, each G named by a pair of factors."""

    def __init__(self, reduction: Reduction) -> None:
        self.axes: tuple[ReducedAxis, ...] = reduction.axes
        self.summands: dict[tuple[Pair, ...], float] = {}
        for term in reduction.terms:
            for coefficient, pairs in term.pairs():
                self.summands[pairs] = self.summands.get(pairs, 0.0) + coefficient

    def contract(self, numbers: Sequence[dict[Pair, float]]) -> float:
        """Σ c · ∏ numbers: tr(V Y) for Y = ⊗ Y_a, given every attribute's tr(G Y_a)."""
        return math.fsum(
            c * math.prod(numbers[a][pair] for a, pair in enumerate(pairs))
            for pairs, c in self.summands.items()
        )

    def surrogate(self, a: int, numbers: Sequence[dict[Pair, float]]) -> Floats:
        """V of attribute a when all others are held: Σ c · ∏_{b≠a} numbers · G, symmetric."""
        axis = self.axes[a]
        total = np.zeros((len(axis.orbit),) * 2)
        for pairs, c in self.summands.items():
            others = math.prod(numbers[b][pair] for b, pair in enumerate(pairs) if b != a)
            total += c * others * axis.gram(pairs[a])
        return np.asarray((total + total.T) / 2)

    def largest_diagonal(self) -> float:
        """max_u V_uu over all cells, to 40 bits and never too small.

        A diagonal entry depends on a cell through few attributes a summand, and on each of these
        through the diagonals of its Grams.
        """
        tables = list(self._diagonals())
        unit = math.fsum(float(np.abs(table).max()) for _, table in tables) / 2**40
        return unit * maximum([(held, _round_up(table / unit)) for held, table in tables])

    def _diagonals(self) -> Iterator[NormTable]:
        profiles = [_diagonal_profiles(axis) for axis in self.axes]
        for pairs, c in self.summands.items():
            vectors = [profiles[a][pair] for a, pair in enumerate(pairs)]
            held = tuple(a for a, vector in enumerate(vectors) if np.ptp(vector))
            if math.prod(len(vectors[a]) for a in held) > sizes.TABLE:
                raise StrategyError("too many different cells")
            table = np.array(c * math.prod(float(v[0]) for v in vectors if not np.ptp(v)))
            for a in held:
                table = np.multiply.outer(table, vectors[a])
            yield held, table


def _round_up(table: Floats) -> Integers:
    return np.asarray(np.ceil(table).astype(np.int64))


def _diagonal_profiles(axis: ReducedAxis) -> dict[Pair, Floats]:
    """Each Gram's diagonal over the values that differ in some diagonal."""
    diagonals = np.stack(list(axis.diagonals.values()), axis=1)
    different = np.unique(diagonals, axis=0).astype(np.float64)
    return dict(zip(axis.met, different.T, strict=True))


@dataclass(frozen=True, eq=False)
class PIdentity:
    """A(Θ) = [I; Θ]D of one attribute."""

    theta: Floats

    @property
    def rows(self) -> int:
        """Rows that are not zero: the search may find that it needs fewer than p."""
        used = np.count_nonzero(self.theta.any(axis=1))
        return len(self.theta.T) + int(used)

    @property
    def largest_column(self) -> float:
        """max_u (AᵀA)_uu: the squared L2 sensitivity."""
        s = 1 + self.theta.sum(axis=0)
        return float(((1 + (self.theta**2).sum(axis=0)) / s**2).max())

    @cached_property
    def inverse_gram(self) -> Floats:
        """(AᵀA)⁻¹ = S M S."""
        s = 1 + self.theta.sum(axis=0)
        M = np.eye(len(s)) - self.theta.T @ _projected(self.theta)
        return np.asarray(s[:, None] * M * s)


def _projected(theta: Floats) -> Floats:
    """Θ M = (I + ΘΘᵀ)⁻¹ Θ, a p × p solve."""
    return np.asarray(np.linalg.solve(np.eye(len(theta)) + theta @ theta.T, theta))


def error_and_gradient(theta: Floats, V: Floats) -> tuple[float, Floats]:
    """tr(V (AᵀA)⁻¹) = sᵀ(V∘M)s and its gradient in Θ, in O(p n²)."""
    s = 1 + theta.sum(axis=0)
    K = _projected(theta)
    M = np.eye(len(s)) - theta.T @ K
    through_scale = (V * M) @ s
    Y = (K * s) @ V * s
    through_inverse = Y - (Y @ theta.T) @ K  # Θ M (S V S) M
    return float(s @ through_scale), 2 * (through_scale - through_inverse)


def kronecker(grams: GramSum) -> list[PIdentity]:
    """OPT_⊗: attributes in turn, each by OPT_0 on its surrogate, until a sweep gains little."""
    if max(len(axis.orbit) for axis in grams.axes) > sizes.BASELINE_VALUES:
        raise StrategyError(f"an attribute has more than {sizes.BASELINE_VALUES:,} values")
    parts = [PIdentity(_start(axis)) for axis in grams.axes]
    numbers = _traces(grams, parts)
    error = grams.contract(numbers)
    for _ in range(SWEEPS):
        for a, axis in enumerate(grams.axes):
            parts[a] = improve(parts[a], grams.surrogate(a, numbers))
            numbers[a] = _trace(axis, parts[a])
        before, error = error, grams.contract(numbers)
        if error > (1 - SWEEP_TOLERANCE) * before:
            break
    return parts


def improve(part: PIdentity, V: Floats) -> PIdentity:
    """OPT_0: L-BFGS on Θ ≥ 0 from where it is."""
    theta, unit = part.theta, error_and_gradient(part.theta, V)[0]
    if not theta.size:
        return part

    def objective(flat: Floats) -> tuple[float, Floats]:
        error, gradient = error_and_gradient(flat.reshape(theta.shape), V)
        return error / unit, gradient.ravel() / unit

    bounds = optimize.Bounds(0, np.inf)
    options = {"maxiter": STEPS, "ftol": 1e-6}
    found = optimize.minimize(
        objective, theta.ravel(), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return PIdentity(found.x.reshape(theta.shape))


def _start(axis: ReducedAxis) -> Floats:
    """p rows in [0, 1) without a pattern, the same every time: multiples of the golden ratio."""
    n = len(axis.orbit)
    simple = all(_is_plain(factor) for factor in axis.factors)
    p = 0 if n == 1 else 1 if simple else max(1, n // VALUES_PER_ROW)
    return np.asarray((np.arange(1, p * n + 1) * math.sqrt(1.25) + 0.5) % 1).reshape(p, n)


def _is_plain(factor: Factor) -> bool:
    """Single values and totals only."""
    if not isinstance(factor, Ranges):
        return False
    lengths = factor.high - factor.low
    return bool(np.all((lengths == 1) | (lengths == factor.size)))


def _traces(grams: GramSum, parts: Sequence[PIdentity]) -> list[dict[Pair, float]]:
    return [_trace(axis, part) for axis, part in zip(grams.axes, parts, strict=True)]


def _trace(axis: ReducedAxis, part: PIdentity) -> dict[Pair, float]:
    """tr(G (AᵀA)⁻¹) of every Gram."""
    return {pair: float((axis.gram(pair) * part.inverse_gram).sum()) for pair in axis.met}
