"""What is asked: a list of weighted Kronecker terms with labelled rows.

A *product* is coefficient · F₁ ⊗ … ⊗ F_d, one factor per attribute of the schema. A *term* is a sum
of products of equal row shape (nearly always one; several when a predicate couples attributes, such
as `age >= 65 OR sex = 'Female'`), times a weight. An *item* is one table of the release: its terms
stacked. The workload W is all items stacked; a row of W is a query.

Weights shape the optimisation alone: `to_sparse` gives the weighted rows, answers are unweighted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
from scipy import sparse

from dhdmm.errors import StudyError
from dhdmm.study.factor import Factor, Rows
from dhdmm.study.schema import Schema

LARGEST_ENTRY = 2**31
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


@dataclass(frozen=True, eq=False)
class Term:
    """weight · Σ products; rows run over the factors' rows, the last attribute fastest."""

    weight: float
    products: tuple[Product, ...]
    axes: tuple[Axis | None, ...]
    """One per attribute; None where the term neither groups by it nor restricts it."""
    condition: str = ""
    """SQL that holds for every row besides the axes' predicates."""

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self.products[0].row_shape

    @property
    def queries(self) -> int:
        return math.prod(self.row_shape)


@dataclass(frozen=True, eq=False)
class Item:
    """One table of the release."""

    name: str
    terms: tuple[Term, ...]

    @property
    def queries(self) -> int:
        return sum(term.queries for term in self.terms)


@dataclass(frozen=True, eq=False)
class Workload:
    """W (queries × cells), never written out unless asked: see `to_sparse`."""

    schema: Schema
    items: tuple[Item, ...]

    @property
    def terms(self) -> tuple[Term, ...]:
        return tuple(term for item in self.items for term in item.terms)

    @property
    def queries(self) -> int:
        return sum(item.queries for item in self.items)

    @property
    def cells(self) -> int:
        return self.schema.cells

    @classmethod
    def from_kronecker(cls, terms: Iterable[tuple[float, Sequence[Any]]]) -> Workload:
        """The matrix people's door: [(weight, [matrix per attribute]), …].

        Entries are integers or rationals (`Fraction`, or floats that are one, like 0.5).

        >>> Workload.from_kronecker([(3.0, [[[1, 1]], np.eye(2)])]).to_sparse().toarray()
        array([[3., 0., 3., 0.],
               [0., 3., 0., 3.]])
        """
        built = tuple(_kronecker_term(j, *term) for j, term in enumerate(terms))
        if not built:
            raise StudyError("a workload needs at least one term")
        shapes = {tuple(f.shape[1] for f in term.products[0].factors) for term in built}
        if len(shapes) != 1:
            raise StudyError(f"the terms disagree on the attributes' sizes: {sorted(shapes)}")
        return cls(Schema.of_sizes(shapes.pop()), (Item("workload", built),))

    def to_sparse(self, limit: int = SPARSE_LIMIT) -> sparse.csr_array:
        """The weighted rows as a CSR matrix (queries, cells), duplicates kept."""
        products = [(term.weight, p) for term in self.terms for p in term.products]
        entries = sum(math.prod(f.to_sparse().nnz for f in p.factors) for _, p in products)
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
    return reduce(
        lambda left, right: sparse.csr_array(sparse.kron(left, right.to_sparse(), format="csr")),
        factors,
        sparse.csr_array(np.ones((1, 1), np.int64)),
    )


def _kronecker_term(index: int, weight: float, matrices: Sequence[Any]) -> Term:
    where = f"term {index}"
    if not (math.isfinite(weight) and weight > 0):
        raise StudyError(f"a weight must be a positive number, not {weight!r}", where=where)
    scaled = [_integer_rows(matrix, f"{where}, factor {a}") for a, matrix in enumerate(matrices)]
    if not scaled:
        raise StudyError("a term needs one matrix per attribute", where=where)
    coefficient = Fraction(1, math.prod(denominator for _, denominator in scaled))
    product = Product(coefficient, tuple(rows for rows, _ in scaled))
    axes = tuple(_numbered_axis(a, rows) for a, (rows, _) in enumerate(scaled))
    return Term(float(weight), (product,), axes)


def _numbered_axis(attribute: int, rows: Rows) -> Axis:
    labels = [f"row {i}" for i in range(rows.shape[0])]
    return Axis(f"attribute {attribute}", labels, [""] * len(labels))


def _integer_rows(matrix: Any, where: str) -> tuple[Rows, int]:
    """The matrix as integers over one denominator; refuses entries that are not rational."""
    shape, row, column, data = _nonzeros(matrix, where)
    entries = [_rational(value, where) for value in data]
    denominator = math.lcm(*(entry.denominator for entry in entries))
    integers = [int(entry * denominator) for entry in entries]
    if any(abs(value) >= LARGEST_ENTRY for value in [denominator, *integers]):
        raise StudyError(f"entries over a common denominator exceed {LARGEST_ENTRY}", where=where)
    exact = np.array(integers, np.int64)
    return Rows(sparse.csr_array((exact, (row, column)), shape=shape)), denominator


def _nonzeros(matrix: Any, where: str) -> tuple[tuple[int, ...], Any, Any, Any]:
    """(shape, row, column, value); SciPy's sparse arrays cannot hold `Fraction`s, NumPy's can."""
    if sparse.issparse(matrix):
        coo = sparse.coo_array(matrix)
        return coo.shape, coo.row, coo.col, coo.data
    array = np.asarray(matrix)
    if array.ndim != 2 or 0 in array.shape:
        raise StudyError(f"a factor is a matrix, not an array of shape {array.shape}", where=where)
    row, column = np.nonzero(array)
    return array.shape, row, column, array[row, column]


def _rational(value: Any, where: str) -> Fraction:
    if isinstance(value, (Fraction, int, np.integer)):
        return Fraction(int(value)) if not isinstance(value, Fraction) else value
    number = float(value)
    if math.isfinite(number):
        near = Fraction(number).limit_denominator(10**6)
        if float(near) == number:
            return near
    raise StudyError(
        f"entry {value!r} is not an integer or a simple fraction",
        where=where,
        hint="strategies are exact integers: put real numbers into the term's weight",
    )
