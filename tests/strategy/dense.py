"""What a strategy claims, recomputed densely from its matrix: only for small domains."""

from __future__ import annotations

from fractions import Fraction
from unittest import mock

import numpy as np
from workloads import rows, workload

from dhdmm.strategy import measuring
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.factor import Ranges
from dhdmm.study.workload import Workload


def dense_rmse(W: np.ndarray, A: np.ndarray) -> float:
    """√(max column norm² · ‖W A⁺‖²_F / queries)."""
    sensitivity = np.square(A).sum(axis=0).max()
    return float(np.sqrt(sensitivity * np.square(W @ np.linalg.pinv(A)).sum() / len(W)))


def dense_optimum(W: np.ndarray, steps: int = 400) -> tuple[float, float]:
    """(a bound, what is reached) of the best root mean square error, by nothing but W's SVD.

    d_u ← d_u X_uu / F with F = ‖W D^½‖_*, X = Wᵀ (W D Wᵀ)^-½ W, over all different columns.
    """
    W = np.unique(W, axis=1)
    W = W[:, np.any(W, axis=0)]
    d = np.full(W.shape[1], 1 / W.shape[1])
    bound, reached = 0.0, np.inf
    for _ in range(steps):
        U, s, _ = np.linalg.svd(W * np.sqrt(d), full_matrices=False)
        kept = s > s[0] * 1e-9
        X = np.square((U[:, kept] / np.sqrt(s[kept])).T @ W).sum(axis=0)
        F = s.sum()
        bound, reached = max(bound, F), min(reached, np.sqrt(F * X.max()))
        d = np.maximum(d * X, 1e-12)
        d /= d.sum()
    return bound, reached


def unweighted(w: Workload) -> np.ndarray:
    weights = np.repeat([t.weight for t in w.terms], [t.queries for t in w.terms])
    return w.to_sparse().toarray() / weights[:, None]


def ranges_of_rows(strategy: Strategy) -> tuple[np.ndarray, np.ndarray]:
    """What the strategy says of each row's smallest and largest entry."""
    rows, lows, highs = np.array(strategy.row_ranges, object).T
    counts = rows.astype(np.int64)
    return np.repeat(lows, counts), np.repeat(highs, counts)


def replace_squared(A: np.ndarray) -> int:
    """The largest squared distance of two columns, or length of one: in integers."""
    fits = 4 * len(A) * int(np.abs(A).max()) ** 2 < 2**62
    gram = (lambda B: B.T @ B)(A.astype(np.int64 if fits else object))
    norms = np.diagonal(gram)
    return int(max((norms[:, None] + norms - 2 * gram).max(), norms.max()))


def check_against_dense(strategy: Strategy, w: Workload, more_rows: int = 0) -> None:
    """Everything that the strategy says about itself and the workload."""
    W, A = w.to_sparse().toarray(), strategy.to_sparse().toarray()
    assert strategy.rows == len(A) == np.linalg.matrix_rank(A)
    assert 0 <= strategy.rows - np.linalg.matrix_rank(W) <= more_rows
    assert np.isclose(strategy.rmse, dense_rmse(W, A), rtol=1e-8)
    inverse = np.linalg.pinv(A.astype(float))
    assert np.allclose(W, W @ inverse @ A, atol=1e-9 * np.abs(W).max())
    assert strategy.sensitivity_squared == int(np.square(A.astype(object)).sum(axis=0).max())
    assert strategy.replace_sensitivity_squared == replace_squared(A)
    assert strategy.max_entry == int(np.abs(A).max())
    lows, highs = ranges_of_rows(strategy)
    assert np.array_equal(lows, np.minimum(A.min(axis=1), 0))
    assert np.array_equal(highs, np.maximum(A.max(axis=1), 0))
    plain = unweighted(w)
    assert np.allclose(strategy.variances(), np.square(plain @ inverse).sum(axis=1), rtol=1e-8)
    x = np.random.default_rng(3).integers(0, 5, strategy.shape)
    measured = strategy.measure(x)
    assert np.array_equal(measured, A @ x.ravel())
    with mock.patch.object(measuring, "FEW_ENTRIES", 0):
        assert np.array_equal(strategy.measure(x), measured), "grouped"
        with mock.patch.object(measuring, "ENTRIES_TOGETHER", 1):
            assert np.array_equal(strategy.measure(x), measured), "cell by cell"
    assert np.allclose(strategy.reconstruct(measured), plain @ x.ravel(), atol=1e-7)
    cells = strategy.estimate(measured).product([Ranges.each(n) for n in strategy.shape])
    assert np.allclose(A @ cells.ravel(), measured, atol=1e-6)
    assert strategy.contains(w)


def random_workload(seed: int) -> Workload:
    """A union of Kronecker terms with small integer factors: signed, coupled, weighted."""
    rng = np.random.default_rng(seed)
    sizes = tuple(int(n) for n in rng.integers(1, 6, rng.integers(1, 4)))
    pool = [[_random_factor(rng, n) for _ in range(3)] for n in sizes]
    terms = []
    for _ in range(rng.integers(1, 4)):
        first = [factors[rng.integers(3)] for factors in pool]
        products = [(Fraction(1), first)]
        if rng.random() < 0.4:
            shape = [f.shape[0] for f in first]
            second = [
                rows(rng.integers(-1, 2, (count, n))) for count, n in zip(shape, sizes, strict=True)
            ]
            products.append((Fraction(int(rng.choice([-1, 1])), int(rng.integers(1, 3))), second))
        terms.append((float(rng.choice([0.5, 1.0, 3.0])), products))
    built = workload(sizes, *terms)
    return built if np.any(built.to_sparse().toarray()) else random_workload(seed + 1_000_003)


def _random_factor(rng: np.random.Generator, size: int):
    kind = rng.integers(5)
    if kind == 0:
        return rows(np.eye(size))
    if kind == 1:
        return rows(np.ones((1, size)))
    if kind == 2:
        return rows(np.tri(size))
    low = -1 if kind == 3 else 0
    return rows(rng.integers(low, 2, (rng.integers(1, 4), size)))


def smallest_largest(W: np.ndarray, steps: int = 3000) -> tuple[float, float]:
    """Bounds from both sides on the least √(max_u X_uu · max_i w_i X⁺ w_iᵀ) over all X.

    Mirror ascent of ‖P^½ W D^½‖_*, which is concave in the probabilities d and p together; every
    step's d and p give a lower bound, and the X that belongs to them an upper one.
    """
    d, p = np.full(W.shape[1], 1 / W.shape[1]), np.full(len(W), 1 / len(W))
    lower, upper = 0.0, np.inf
    for _ in range(steps):
        U, s, Vt = np.linalg.svd(np.sqrt(p)[:, None] * W * np.sqrt(d), full_matrices=False)
        columns, variances = (Vt.T**2 @ s) / d, (U**2 @ s) / p
        lower = max(lower, s.sum())
        upper = min(upper, np.sqrt(columns.max() * variances.max()))
        if upper < 1.001 * lower:
            break
        d, p = d * columns / s.sum(), p * variances / s.sum()
        d, p = (np.maximum(q / q.sum(), 1e-12) for q in (d, p))
    return float(lower), float(upper)
