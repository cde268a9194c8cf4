"""A trusted curator with an HDMM-style strategy: A = ⊗ A_a, Gaussian noise, least squares.

The search is that of strategies.py. Errors are of the weighted rows, as everywhere for strategies;
the evaluation's workloads have no weights.

A_a = [I; Θ]D (p + n, n);  A_a⁺ = (A_aᵀA_a)⁻¹A_aᵀ;  σ noise a measurement at L2 sensitivity 1.
Noise is continuous, as in HDMM, from a NumPy generator: a simulation, nothing is secret.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from threadpoolctl import threadpool_limits

from dhdmm.strategy.alternatives import Baseline, GramSum, PIdentity, hdmm, kronecker
from dhdmm.strategy.matrix import Floats
from dhdmm.strategy.symmetry import ReducedTerm, Reduction, reduce_workload
from dhdmm.study.workload import Workload


@dataclass(frozen=True, eq=False)
class KroneckerStrategy:
    """HDMM's strategy for one workload, found once and used at any noise."""

    reduction: Reduction
    parts: tuple[PIdentity, ...]
    figures: Baseline

    @classmethod
    def of(cls, workload: Workload) -> KroneckerStrategy:
        reduction = reduce_workload(workload)
        with threadpool_limits(limits=1, user_api="blas"):
            grams = GramSum(reduction)
            return cls(reduction, tuple(kronecker(grams)), hdmm(workload, grams))

    def expected_rmse(self, sigma: float) -> float:
        """At noise σ a measurement and sensitivity 1."""
        assert self.figures.rmse is not None
        return sigma * self.figures.rmse

    def errors(self, sigma: float, generator: np.random.Generator) -> Floats:
        """(queries,): what least squares makes of one draw of the noise."""
        shape = tuple(inverse.shape[1] for inverse in self._inverses)
        estimate = sigma * self._sensitivity * generator.standard_normal(shape)
        for a, inverse in enumerate(self._inverses):
            estimate = _along(inverse, estimate, a)
        return np.concatenate([self._term(term, estimate) for term in self.reduction.terms])

    @cached_property
    def _inverses(self) -> list[Floats]:
        return [_pseudo_inverse(part) for part in self.parts]

    @property
    def _sensitivity(self) -> float:
        return math.sqrt(math.prod(part.largest_column for part in self.parts))

    def _term(self, term: ReducedTerm, estimate: Floats) -> Floats:
        total = np.zeros(())
        for coefficient, index in zip(term.coefficients, term.indices, strict=True):
            answer = float(coefficient) * estimate
            for a, axis in enumerate(self.reduction.axes):
                moved = np.moveaxis(answer, a, 0)
                flat = axis.factors[index[a]].dot(moved.reshape(len(moved), -1))
                answer = np.moveaxis(flat.reshape(-1, *moved.shape[1:]), 0, a)
            total = total + answer
        return np.asarray(term.weight * total.ravel())


def _pseudo_inverse(part: PIdentity) -> Floats:
    s = 1 + part.theta.sum(axis=0)
    A = np.concatenate([np.eye(len(s)), part.theta]) / s
    return np.asarray(part.inverse_gram @ A.T)


def _along(matrix: Floats, tensor: Floats, axis: int) -> Floats:
    return np.moveaxis(np.tensordot(matrix, tensor, axes=(1, axis)), 0, axis)
