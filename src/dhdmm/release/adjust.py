"""Answers that look like counts, beside the unbiased ones: not negative, whole, agreeing.

Raw answers are unbiased, and every adjustment biases them. So each one keeps the raw answers, says
how far it moved them, and estimates its own bias by repeating itself on simulated rounds.

*Agreeing* (`consistent`) means: all answers are counted from one histogram x̃ over the cells that
the strategy tells apart. Non-negative, x̃ = argmin_{x ≥ 0} ‖A'x − M̂‖², the likeliest histogram.
The true A'x is among the candidates and they form a convex set, so A'x̃ is never farther from it
than M̂ is. Whole, x̃ is rounded cell by cell, each cell making up for what the ones before did to
A'x̃. Without `consistent` each answer is cut at 0 and rounded by itself: this works for any number
of cells, and totals no longer agree with their parts.

σ: standard deviation of one measurement; A: A' on merged cells, (rows, merged cells).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from scipy import sparse
from scipy.optimize import minimize

from dhdmm.errors import DhdmmError
from dhdmm.release.effect import REPLICATES, Effect, deviation, effect_of, noises, with_bias
from dhdmm.release.frames import DerivedTable, appended, columns_of
from dhdmm.release.intervals import Floats
from dhdmm.release.tables import Table
from dhdmm.strategy.blocks import MeasuredAxis
from dhdmm.strategy.estimate import mode_product
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.factor import Ranges
from dhdmm.study.workload import Term

if TYPE_CHECKING:
    from dhdmm.release.release import Release

LARGEST_MATRIX = 200_000_000
"""Rows times merged cells up to which one histogram is fitted."""
PRECISION = 1e-8
"""Relative, of the loss: its answers are within a thousandth of a standard error."""


@dataclass(frozen=True)
class Rules:
    """What adjusted answers must be."""

    nonnegative: bool
    integers: bool
    consistent: bool


@dataclass(frozen=True, eq=False)
class AdjustedTable(DerivedTable):
    """One table of a release with its adjusted answers.

    Attributes:
        raw: The table as the release has it.
        values: The adjusted answers.
        bias: Their estimated bias; None if it was not estimated.
    """

    raw: Table
    values: Floats
    bias: Floats | None

    def to_arrow(self) -> pa.Table:
        """The table as an Arrow table.

        Returns:
            The raw table's columns, then `adjusted_value` and, if estimated, `estimated_bias`.
        """
        columns = {"adjusted_value": self.values}
        if self.bias is not None:
            columns["estimated_bias"] = self.bias
        return appended(columns_of(self.raw.to_arrow()), columns)


@dataclass(frozen=True, eq=False)
class Adjusted(Mapping[str, AdjustedTable]):
    """A release's answers under some rules: a mapping from the names of tables to the tables.

    `answers` are all adjusted answers, `bias` their estimated bias (None if it was not estimated),
    `effect` says how far they moved.
    """

    release: Release
    rules: Rules
    answers: Floats
    """In the workload's order, like `release.answers`."""
    bias: Floats | None
    effect: Effect

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __getitem__(self, name: str) -> AdjustedTable:
        raw, rows = self.release[name], self.release.rows(name)
        return AdjustedTable(
            raw, self.answers[rows], None if self.bias is None else self.bias[rows]
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.release)

    def __len__(self) -> int:
        return len(self.release)


def adjust(release: Release, rules: Rules, replicates: int = REPLICATES) -> Adjusted:
    """Adjusted answers with their measured effect; 0 replicates leave the bias unestimated."""
    if not (rules.nonnegative or rules.integers):
        raise DhdmmError("nothing to adjust", hint="ask for nonnegative or integers, or both")
    if replicates < 0 or replicates == 1:
        raise DhdmmError("a bias is estimated from at least 2 simulated rounds, or from none")
    how = _OneHistogram(release, rules) if rules.consistent else _EachByItself(release, rules)
    if not replicates:
        return Adjusted(release, rules, how.answers, None, effect_of(release, how.answers))
    errors = np.stack([how.again(noise) - how.answers for noise in noises(release, replicates)])
    effect = with_bias(effect_of(release, how.answers), errors, release.standard_errors)
    return Adjusted(release, rules, how.answers, errors.mean(axis=0), effect)


# ---- two ways -----------------------------------------------------------------------------------


class _EachByItself:
    """Every answer cut at 0 and rounded, whatever the others are."""

    def __init__(self, release: Release, rules: Rules) -> None:
        self.release, self.rules = release, rules
        self.answers = _cut(release.answers, rules)

    def again(self, noise: Floats) -> Floats:
        """The outcome had these been the true answers, and this the noise."""
        noisy = self.answers + self.release.plan.strategy.reconstruct(noise)
        return _cut(noisy, self.rules)


def _cut(answers: Floats, rules: Rules) -> Floats:
    kept = np.maximum(answers, 0) if rules.nonnegative else answers
    return np.rint(kept) + 0.0 if rules.integers else kept  # + 0.0: no negative zero


class _OneHistogram:
    """All answers counted from one histogram over merged cells."""

    def __init__(self, release: Release, rules: Rules) -> None:
        self.release, self.rules = release, rules
        self.A = _merged_matrix(release.plan.strategy)
        self.x = self._histogram(release.measurement.astype(np.float64))
        self.answers = self._count(self.x)

    def again(self, noise: Floats) -> Floats:
        """The outcome had this been the true histogram, and this the noise."""
        return self._count(self._histogram(self.A @ self.x + noise))

    def _histogram(self, measurement: Floats) -> Floats:
        x = _cells(self.release.plan.strategy, measurement)
        if self.rules.nonnegative:
            x = _nonnegative_fit(self.A, measurement, np.maximum(x, 0), deviation(self.release))
        return _rounded(self.A, x, self.rules.nonnegative) if self.rules.integers else x

    def _count(self, x: Floats) -> Floats:
        axes = self.release.plan.strategy.axes
        table = x.reshape([len(axis.orbit) for axis in axes])
        terms = self.release.plan.study.workload.terms
        answers = np.concatenate([_count_term(term, axes, table) for term in terms])
        return _cut(answers, self.rules)  # which repairs no more than floating point does


def _count_term(term: Term, axes: Sequence[MeasuredAxis], table: Floats) -> Floats:
    """The term's answers on a histogram over merged cells."""
    total = np.zeros(term.row_shape)
    for product in term.products:
        answers = table
        for a, (axis, factor) in enumerate(zip(axes, product.factors, strict=True)):
            answers = mode_product(factor.columns(axis.representatives), answers, a)
        total += float(product.coefficient) * answers
    return total.ravel()


def _merged_matrix(strategy: Strategy) -> sparse.csc_array:
    """A' with one column for all values that it does not tell apart."""
    axes = tuple(replace(axis, merged=np.arange(len(axis.orbit))) for axis in strategy.axes)
    merged = Strategy(axes, strategy.blocks)
    if merged.rows * merged.cells > LARGEST_MATRIX:
        raise DhdmmError(
            f"{merged.cells:,} cells are too many to fit one histogram",
            hint="adjust each answer by itself, without consistency",
        )
    return sparse.csc_array(merged.to_sparse(LARGEST_MATRIX).astype(np.float64))


def _cells(strategy: Strategy, measurement: Floats) -> Floats:
    """x̂ on merged cells."""
    each = [Ranges.each(len(axis.merged)).take(axis.representatives) for axis in strategy.axes]
    return strategy.estimate(measurement).product(each).ravel()


def _nonnegative_fit(
    A: sparse.csc_array, measurement: Floats, start: Floats, sigma: float
) -> Floats:
    """argmin_{x ≥ 0} ‖(A x − M) / σ‖² / 2. Every step is non-negative, so where it stops is too."""
    rows = sparse.csr_array(A)

    def loss(x: Floats) -> tuple[float, Floats]:
        residual = (rows @ x - measurement) / sigma
        return float(residual @ residual) / 2, np.asarray(A.T @ residual) / sigma

    options = {"maxiter": 2000, "maxfun": 4000, "ftol": PRECISION, "gtol": 0.0, "maxcor": 20}
    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start), options=options
    )
    return np.asarray(found.x, np.float64)


def _rounded(A: sparse.csc_array, x: Floats, nonnegative: bool) -> Floats:
    """Integers z near x, one cell after another: z_u brings A z as close to A x as it then can."""
    z = np.zeros_like(x)
    error = np.zeros(A.shape[0])  # A (z − x) over the cells done
    for u in np.argsort(-np.abs(x - np.rint(x)), kind="stable"):
        part = slice(A.indptr[u], A.indptr[u + 1])
        places, a = A.indices[part], A.data[part]
        wanted = x[u] - (a @ error[places]) / (a @ a) if len(a) else x[u]
        z[u] = max(np.rint(wanted), 0.0) if nonnegative else np.rint(wanted)
        error[places] += a * (z[u] - x[u])
    return z
