"""What others make of a workload of marginals, for Gaussian noise: by formula, for any curator.

A marginal of the attributes S counts every combination of their values. On the residual space T
(vectors that sum to zero over each attribute of T and are constant in all others) the Gram matrix
of S is ∏_{i∉S} n_i if T ⊆ S, and 0 otherwise; so a strategy of weighted marginals is diagonal.

n      values of every attribute; N = ∏ n_i cells; m queries
v_T    Σ over the workload's S ⊇ T of ∏_{i∉S} n_i;  d_T = ∏_{i∈T} (n_i − 1), the dimension
x_T    Σ over S ⊇ T of w_S ∏_{i∉S} n_i, where marginal S is measured with squared weight w_S;
       the squared L2 sensitivity is Σ w_S, the total squared error Σ_T d_T v_T / x_T times that
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, combinations

import numpy as np
from scipy.optimize import minimize

from dhdmm.strategy.matrix import Floats

Marginal = tuple[int, ...]


def residual_planner(shape: Sequence[int], marginals: Sequence[Marginal]) -> float:
    """RMSE of ResidualPlanner (2023): x_T ∝ √v_T, squared error (Σ d_T √v_T)²/N. It is optimal."""
    residuals = _subsets(marginals)
    d, v = _dimensions(shape, residuals), _grams(shape, residuals, marginals).sum(axis=1)
    return float(d @ np.sqrt(v)) / math.sqrt(math.prod(shape) * _queries(shape, marginals))


def weighted_marginals(shape: Sequence[int], marginals: Sequence[Marginal]) -> float:
    """RMSE of HDMM's search over marginals (OPT_M, 2018) for L2: the best weights w ≥ 0.

    The problem is convex, so any search ends at its optimum; here L-BFGS on log w.
    """
    residuals = measured = _subsets(marginals)
    grams = _grams(shape, residuals, measured)
    cost = _dimensions(shape, residuals) * _grams(shape, residuals, marginals).sum(axis=1)

    def log_error(log_weights: Floats) -> tuple[float, Floats]:
        w = np.exp(log_weights)
        x = grams @ w
        error = float((cost / x).sum())
        gradient = w / w.sum() - w * (grams.T @ (cost / x**2)) / error
        return math.log(w.sum() * error), gradient

    start = np.zeros(len(measured))
    found = minimize(
        log_error, start, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-14}
    )
    return math.sqrt(math.exp(found.fun) / _queries(shape, marginals))


def _subsets(marginals: Sequence[Marginal]) -> list[Marginal]:
    """Every subset of a marginal's attributes, once."""
    every = (combinations(S, size) for S in marginals for size in range(len(S) + 1))
    return sorted(set(chain.from_iterable(every)))


def _grams(shape: Sequence[int], residuals: Sequence[Marginal], of: Sequence[Marginal]) -> Floats:
    """(residuals, marginals): ∏_{i∉S} n_i where T ⊆ S."""
    cells = float(math.prod(shape))
    outside = np.array([cells / math.prod(shape[i] for i in S) for S in of])
    within = np.array([[set(T) <= set(S) for S in of] for T in residuals])
    return np.asarray(within * outside)


def _dimensions(shape: Sequence[int], residuals: Sequence[Marginal]) -> Floats:
    return np.array([float(math.prod(shape[i] - 1 for i in T)) for T in residuals])


def _queries(shape: Sequence[int], marginals: Sequence[Marginal]) -> int:
    return sum(math.prod(shape[i] for i in S) for S in marginals)
