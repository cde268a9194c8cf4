"""Means and quantiles: what a table shows instead of the sums and prefixes that were measured.

A mean is the quotient of two measured rows, with Fieller's interval. A quantile is found in the
prefixes of its group, with the interval of `quantile`. Rows are called like those of the measured
terms, with a column that says which mean or quantile it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dhdmm.release.covariance import covariance, row_covariances, taken
from dhdmm.release.intervals import (
    DEFAULT_LEVEL,
    Estimates,
    Floats,
    Quotients,
    Stacked,
    Sums,
    critical,
)
from dhdmm.release.tables import Table
from dhdmm.study.attributes import Attribute
from dhdmm.study.derived import Derived, Mean, Measured, Quantiles
from dhdmm.study.sums import MIDPOINT
from dhdmm.study.workload import Axis, Item, Term, with_rows

if TYPE_CHECKING:
    from dhdmm.release.release import Release

FLOATS = np.float64


def derived_table(release: Release, measured: Table) -> Table:
    """What the table shows of what was measured for it, one part below the other."""
    item = measured.item
    terms, numbers = zip(*(_part(release, measured, one) for one in item.derived), strict=True)
    shown = Item(item.name, terms)
    together = None if measured.together is None else measured.together + shown.queries
    stacked = numbers[0] if len(numbers) == 1 else Stacked(numbers)
    return replace(measured, item=shown, numbers=stacked, together=together, release=None)


def _part(release: Release, measured: Table, derived: Derived) -> tuple[Term, Estimates]:
    terms = [
        (term, Sums(measured.values[rows], measured.standard_errors[rows]))
        for term, rows in with_rows(measured.item.terms)
    ]
    match derived:
        case Measured(number):
            return terms[number]
        case Mean():
            return _mean(release, derived, *terms[derived.sums], *terms[derived.counts])
        case Quantiles():
            term, prefixes = terms[derived.prefixes]
            numbers = quantile_estimates(release, term, prefixes.values, derived)
            return _quantile_rows(term, derived.axis, derived.at), numbers


def _mean(
    release: Release, mean: Mean, sums: Term, n: Sums, counts: Term, d: Sums
) -> tuple[Term, Estimates]:
    covariances = row_covariances(release, sums, counts)
    squares = n.standard_errors**2, covariances, d.standard_errors**2
    index = release.plan.study.schema.names.index(mean.of)
    axis = sums.axes[index]
    axes = list(sums.axes)
    if axis is not None and axis.is_fixed:  # it says "sum"
        axes[index] = Axis(axis.header, ["mean"], [""])
    return replace(sums, axes=tuple(axes)), Quotients(n.values, d.values, *squares)


# ---- quantiles ----------------------------------------------------------------------------------


def quantile(
    below: Floats, total: float, covariance: Floats, at: float, z: float
) -> tuple[int, int, int]:
    """The value at which a share `at` of the records is reached: (estimate, low, high), positions.

    below: estimated records up to each value in turn; covariance: (values + 1, values + 1), of
    `below` and, last, `total`. With G(v) = below(v) − at·total, the quantile is the first v with
    G(v) ≥ 0. It is below `low` only if G + zσ < 0 at the quantile itself, and above `high` only
    if G − zσ ≥ 0 at the value before: both with at most half the error probability. The interval
    is conservative, because values are discrete and because every value in between is kept.
    """
    from scipy.optimize import isotonic_regression  # slow to import

    values = len(below)
    excess = below - at * total
    variance = np.diag(covariance)[:values] - 2 * at * covariance[:values, values]
    error = np.sqrt(np.maximum(variance + at**2 * covariance[values, values], 0))
    may_reach = np.append(excess + z * error >= 0, True)
    low = min(int(np.argmax(may_reach)), values - 1)
    may_miss = np.flatnonzero(excess[:-1] - z * error[:-1] < 0)
    high = max(int(may_miss[-1]) + 1 if len(may_miss) else 0, low)
    rising = isotonic_regression(excess).x
    first = int(np.argmax(np.append(rising >= 0, True)))
    return min(max(first, low), high), low, high


@dataclass(frozen=True, eq=False)
class QuantileEstimates:
    """Quantiles of several groups, each with the covariance of its prefixes and their last.

    A standard error is the half-width of a 95 % interval, by its z.
    """

    below: Floats
    """(groups, values)."""
    covariances: Floats
    """(groups, values + 1, values + 1)."""
    at: tuple[float, ...]
    amounts: tuple[Floats, Floats, Floats]
    """Each value as a number, and where it begins and ends: those of a bin are its edges."""
    shape: tuple[int, ...]
    """Of the groups."""
    axis: int
    """Where the quantiles are among the axes of the rows."""
    times: str
    """Of dates: the numbers count days ("D") or hours ("h") since 1970-01-01."""

    def _found(self, z: float) -> Floats:
        """(3, rows): estimate, low and high."""
        found = [
            [quantile(below, float(below[-1]), sigma, at, z) for at in self.at]
            for below, sigma in zip(self.below, self.covariances, strict=True)
        ]
        places = np.moveaxis(np.array(found), -1, 0)  # (3, groups, at)
        numbers = np.stack([kind[where] for kind, where in zip(self.amounts, places, strict=True)])
        table = numbers.reshape(3, *self.shape, len(self.at))
        in_order = np.moveaxis(table, -1, 1 + self.axis)
        return np.asarray(in_order.reshape(3, -1))

    @cached_property
    def _usual(self) -> Floats:
        return self._found(critical(DEFAULT_LEVEL))

    @property
    def values(self) -> Floats:
        return np.asarray(self._usual[0])

    @property
    def standard_errors(self) -> Floats:
        return np.asarray(self._usual[2] - self._usual[1]) / (2 * critical(DEFAULT_LEVEL))

    def bounds(self, z: float) -> tuple[Floats, Floats]:
        _, low, high = self._found(z)
        return low, high


def quantile_estimates(
    release: Release, term: Term, values: Floats, asked: Quantiles
) -> QuantileEstimates:
    """From the answers of the term that counts the records up to each step."""
    axis, steps = asked.axis, term.row_shape[asked.axis]
    groups = tuple(size for a, size in enumerate(term.row_shape) if a != axis)
    below = np.moveaxis(values.reshape(term.row_shape), axis, -1).reshape(-1, steps)
    last = np.append(np.arange(steps), steps - 1)
    covariances = [
        _of_group(release, term, axis, group)[np.ix_(last, last)] for group in np.ndindex(*groups)
    ]
    attribute = release.plan.study.schema.attributes[axis].present
    amounts, times = _amounts(attribute, term, axis), attribute.times
    return QuantileEstimates(below, np.array(covariances), asked.at, amounts, groups, axis, times)


def _amounts(attribute: Attribute, term: Term, axis: int) -> tuple[Floats, Floats, Floats]:
    """What each step of the prefixes is as a number: (value, lower end, upper end).

    A step of several values is stood for by the last of them, a bin by its midpoint.
    """
    factors = [product.factors[axis] for product in term.products]  # a condition may cut each
    held = [
        np.concatenate([factor.entries(row)[0] for factor in factors])
        for row in range(term.row_shape[axis])
    ]
    last = np.array([codes.max() for codes in held])
    first = np.append(held[0].min(), last[:-1] + 1)
    if attribute.times:
        lower, upper = (
            np.asarray(attribute.examples(codes)).astype(f"M8[{attribute.times}]").astype(FLOATS)
            for codes in (first, last)
        )
        return upper, lower, upper
    lower, upper = (_edge(attribute, "lower")[first], _edge(attribute, "upper")[last])
    middle = (lower + upper) / 2 if attribute.largest_bias(MIDPOINT) else upper
    return middle, lower, upper


def _edge(attribute: Attribute, which: str) -> Floats:
    amounts = attribute.amounts(which)
    assert amounts is not None, "what is ordered and no date is a number"
    return amounts.numbers.astype(FLOATS) * float(amounts.unit)


def _of_group(release: Release, term: Term, axis: int, group: tuple[int, ...]) -> Floats:
    """The covariance of the prefixes of one group."""
    rows = [np.array([index]) for index in group]
    rows.insert(axis, np.arange(term.row_shape[axis]))
    one = Item("group", (taken(term, rows),))
    return covariance(release, one, one)


def _quantile_rows(term: Term, axis: int, at: tuple[float, ...]) -> Term:
    """One row for each quantile of each group."""
    header = term.axes[axis]
    assert header is not None
    axes = list(term.axes)
    axes[axis] = Axis(header.header, [f"quantile {share:g}" for share in at], [""] * len(at))
    rows = [np.arange(size) for size in term.row_shape]
    rows[axis] = np.zeros(len(at), np.int64)
    return replace(taken(term, rows), axes=tuple(axes))
