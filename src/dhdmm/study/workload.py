"""What is asked: a list of weighted Kronecker terms with labelled rows.

A *product* is coefficient · F₁ ⊗ … ⊗ F_d, one factor per attribute of the schema. A *term* is a sum
of products of equal row shape (nearly always one; several when a predicate couples attributes, such
as `age >= 65 OR sex = 'Female'`), times a weight. An *item* is one table of the release: its terms
stacked. The workload W is all items stacked; a row of W is a query.

Weights shape the optimisation alone: `to_sparse` gives the weighted rows, answers are unweighted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dhdmm.errors import StudyError
from dhdmm.study.attributes import Attribute
from dhdmm.study.derived import Derived
from dhdmm.study.entries import exact_factor
from dhdmm.study.factor import Factor
from dhdmm.study.names import LazySequence
from dhdmm.study.persons import Mark
from dhdmm.study.query import DATA, TOTAL, Query, query_label, query_sql, row_label, row_predicate
from dhdmm.study.schema import Schema
from dhdmm.summary import Summarised

if TYPE_CHECKING:
    from scipy import sparse

SPARSE_LIMIT = 200_000_000
"""Non-zero entries that `to_sparse` is willing to write out (about 2.4 GB)."""


@dataclass(frozen=True, eq=False)
class Product:
    """coefficient · F₁ ⊗ … ⊗ F_d."""

    coefficient: Fraction
    factors: tuple[Factor, ...]

    @property
    def row_shape(self) -> tuple[int, ...]:
        return tuple(factor.shape[0] for factor in self.factors)


@dataclass(frozen=True, eq=False)
class Axis:
    """How one attribute's rows of a term are called: a column of the released table.

    `predicates[i]` is SQL over that attribute, empty when row i holds for every value.
    """

    header: str
    labels: Sequence[str]
    predicates: Sequence[str]

    @property
    def is_fixed(self) -> bool:
        """The condition alone decides about this attribute."""
        return len(self.labels) == 1 and not self.predicates[0]

    @property
    def has_total(self) -> bool:
        return len(self.labels) > 1 and self.labels[-1] == TOTAL and not self.predicates[-1]


@dataclass(frozen=True, eq=False)
class Term:
    """weight · Σ products; rows run over the factors' rows, the last attribute fastest."""

    weight: float
    products: tuple[Product, ...]
    axes: tuple[Axis | None, ...]
    """One per attribute; None where the term neither groups by it nor restricts it."""
    condition: str = ""
    """SQL that holds for every row besides the axes' predicates."""
    table: str = DATA
    """What the SQL counts: the rows of the study, or those that were left out of it."""
    sum_of: str = ""
    """The attribute whose values are added up; empty where records are counted."""
    summand: str = ""
    """SQL for what a record then counts."""
    mark: Mark | None = None
    """Whose records are counted, where persons are: the first of each in its group."""

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self.products[0].row_shape

    @property
    def queries(self) -> int:
        """How many queries the term has."""
        return math.prod(self.row_shape)

    def rows_of(self, numbers: Any) -> list[Any]:
        """For every attribute its factor's row in these queries.

        NumPy numbers combinations of up to 64 attributes; those of one row are not among them.
        """
        shape = self.row_shape
        long = [a for a, rows in enumerate(shape) if rows > 1]
        found: list[Any] = [np.zeros_like(np.asarray(numbers))] * len(self.axes)
        if long:
            rows = np.unravel_index(numbers, [shape[a] for a in long])
            for a, row in zip(long, rows, strict=True):
                found[a] = row
        return found


@dataclass(frozen=True, eq=False)
class Item:
    """One table of the release."""

    name: str
    terms: tuple[Term, ...]
    derived: tuple[Derived, ...] = ()
    """What the table shows in place of the terms' answers, if not those themselves."""

    @property
    def queries(self) -> int:
        """How many queries the item has: the rows of its table."""
        return sum(term.queries for term in self.terms)


Part = TypeVar("Part", Term, Item)


def with_rows(parts: Iterable[Part]) -> Iterator[tuple[Part, slice]]:
    """Terms or items with the rows of their answers, which are one below the other."""
    start = 0
    for part in parts:
        yield part, slice(start, start + part.queries)
        start += part.queries


@dataclass(frozen=True, eq=False, repr=False)
class Workload(Summarised):
    """The queries: a matrix W (queries × cells), kept as Kronecker products of small factors.

    A study has one, `study.workload`; `Workload.from_kronecker` makes one from matrices.

    Example:
        >>> Workload.from_kronecker([(1.0, [[[1, 0], [1, 1]], [[1, 1, 1]]])])
        <Workload tables=1 queries=2 cells=6>
    """

    schema: Schema
    items: tuple[Item, ...]

    def _summary(self) -> dict[str, Any]:
        return {"tables": len(self.items), "queries": self.queries, "cells": self.cells}

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms of all items."""
        return tuple(term for item in self.items for term in item.terms)

    @cached_property
    def queries(self) -> int:
        """How many queries there are: the rows of W."""
        return sum(item.queries for item in self.items)

    @property
    def rows(self) -> dict[str, slice]:
        """Where the queries of each item are among all queries, by the item's name."""
        return {item.name: rows for item, rows in with_rows(self.items)}

    @property
    def counts(self) -> NDArray[np.bool_]:
        """Which of all queries count records; the others add values up, in units of their own."""
        kinds = [not term.sum_of for term in self.terms]
        return np.repeat(kinds, [term.queries for term in self.terms])

    @property
    def cells(self) -> int:
        """How many cells the schema has: the columns of W."""
        return self.schema.cells

    @classmethod
    def from_kronecker(cls, terms: Iterable[tuple[float, Sequence[Any]]]) -> Workload:
        """A workload from matrices, without a study.

        Args:
            terms: Pairs of a positive weight and one matrix per attribute (NumPy, SciPy sparse or
                nested lists); their Kronecker products, stacked, are W. Entries are integers or
                rationals: `Fraction`, or floats that are simple fractions, like 0.5.

        Returns:
            The workload, over integer attributes a0, a1, …

        Raises:
            StudyError: A weight or an entry is not allowed, or the matrices' sizes disagree.

        Example:
            >>> Workload.from_kronecker([(3.0, [[[1, 1]], np.eye(2)])]).to_sparse().toarray()
            array([[3., 0., 3., 0.],
                   [0., 3., 0., 3.]])
        """
        parsed = [_exact_term(j, *term) for j, term in enumerate(terms)]
        if not parsed:
            raise StudyError("a workload needs at least one term")
        shapes = {tuple(f.shape[1] for f in product.factors) for _, product in parsed}
        if len(shapes) != 1:
            raise StudyError(f"the terms disagree on the attributes' sizes: {sorted(shapes)}")
        schema = Schema.of_sizes(shapes.pop())
        built = tuple(Term(w, (product,), _plain_axes(schema, product)) for w, product in parsed)
        return cls(schema, (Item("workload", built),))

    def query(self, number: int) -> Query:
        """One query in words and in SQL.

        Args:
            number: A row of W, from 0.

        Returns:
            The name of its item, its label and its SQL.

        Raises:
            IndexError: There is no such row.
        """
        if not 0 <= number < self.queries:
            raise IndexError(f"query {number} of {self.queries}")
        for item in self.items:
            for term in item.terms:
                if number < term.queries:
                    rows = [int(row) for row in term.rows_of(number)]
                    label = query_label(term, rows)
                    return Query(item.name, label, query_sql(self.schema, term, rows))
                number -= term.queries
        raise AssertionError("unreachable")

    def to_sparse(self, limit: int = SPARSE_LIMIT) -> sparse.csr_array:
        """Write W out.

        Args:
            limit: The most non-zero entries that are written.

        Returns:
            The weighted rows as a CSR matrix (queries, cells).

        Raises:
            StudyError: The matrix has more non-zero entries than `limit`.
        """
        from scipy import sparse

        products = [product for term in self.terms for product in term.products]
        entries = sum(math.prod(f.nonzeros for f in product.factors) for product in products)
        if entries > limit:
            raise StudyError(
                f"the matrix is {self.queries:,} × {self.cells:,} with {entries:,} non-zero"
                f" entries, above the limit of {limit:,}",
                hint="work with the terms, or pass a larger limit",
            )
        blocks = [
            sum(term.weight * float(p.coefficient) * _kronecker(p.factors) for p in term.products)
            for term in self.terms
        ]
        return sparse.csr_array(sparse.vstack(blocks, format="csr"))


def _kronecker(factors: Sequence[Factor]) -> sparse.csr_array:
    from scipy import sparse

    return reduce(
        lambda left, right: sparse.csr_array(sparse.kron(left, right.to_sparse(), format="csr")),
        factors,
        sparse.csr_array(np.ones((1, 1), np.int64)),
    )


def _exact_term(index: int, weight: float, matrices: Sequence[Any]) -> tuple[float, Product]:
    where = f"term {index}"
    if not (math.isfinite(weight) and weight > 0):
        raise StudyError(f"a weight must be a positive number, not {weight!r}", where=where)
    scaled = [exact_factor(matrix, f"{where}, factor {a}") for a, matrix in enumerate(matrices)]
    if not scaled:
        raise StudyError("a term needs one matrix per attribute", where=where)
    coefficient = Fraction(1, math.prod(denominator for _, denominator in scaled))
    return float(weight), Product(coefficient, tuple(factor for factor, _ in scaled))


def _plain_axes(schema: Schema, product: Product) -> tuple[Axis, ...]:
    return tuple(
        plain_axis(attribute.name, attribute, factor)
        for attribute, factor in zip(schema.attributes, product.factors, strict=True)
    )


def plain_axis(header: str, attribute: Attribute, factor: Factor) -> Axis:
    """The rows called after the values that they hold."""
    rows = factor.shape[0]
    return Axis(
        header,
        LazySequence(rows, lambda row: row_label(attribute, factor, row)),
        LazySequence(rows, lambda row: row_predicate(attribute, factor, row)),
    )
