"""Answers that are functions of measured ones: means and quantiles.

An item's terms are what is measured: linear queries, with exact covariance. `Item.derived` says
which functions of them its table shows instead, or which of them as they are; terms are named by
their number within the item.
Rows of a derived answer are those of the groups, in the order of the term that it refers to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Measured:
    """The rows of a term as they are, beside what is derived."""

    term: int


@dataclass(frozen=True, eq=False)
class Mean:
    """Row i is row i of the term `sums` divided by row i of the term `counts`."""

    of: str
    """The attribute that is averaged."""
    sums: int
    counts: int


@dataclass(frozen=True, eq=False)
class Quantiles:
    """Per group and share p of `at`, the first step whose prefix holds p of the group's records.

    The prefixes are the rows of axis number `axis` (an attribute) of the term `prefixes`; the last
    of them holds all records of the group whose value is known. Row (group, p) has p fastest.
    """

    of: str
    """The attribute or grouping whose quantiles these are."""
    prefixes: int
    axis: int
    at: tuple[float, ...]
    steps: Sequence[str]
    """What the last step of each prefix is called: the value, or the bin, of the quantile."""


Derived = Measured | Mean | Quantiles
