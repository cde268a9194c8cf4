"""What one record can look like to a table: its patterns.

Rows of a table may overlap: a person of two races is in "White and Black", in "2 races" and in
"two or more". A local report is about one value out of many that exclude each other, so the values
are the *patterns*: the different columns of the table's rows, each a set of rows that a record
satisfies together. A marginal's patterns are its cells. Answers are sums over patterns.

Q: (queries, patterns), the rows of W on patterns, unweighted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dhdmm.errors import StrategyError
from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.symmetry import ReducedTerm, Reduction, reduce_workload
from dhdmm.study.attributes import Codes
from dhdmm.study.factor import Rows, column_fingerprints
from dhdmm.study.workload import Item, Term, Workload

LARGEST_TABLE = 2**21
"""Cells, after merging values that the table does not tell apart."""


@dataclass(frozen=True, eq=False)
class PatternTable:
    """Some terms of a workload, answered together from one report."""

    merged: tuple[Integers, ...]
    """Per attribute, value → merged value."""
    pattern: Integers
    """(merged cells,) → pattern."""
    Q: sparse.csr_array

    @property
    def patterns(self) -> int:
        return int(self.Q.shape[1])

    @property
    def queries(self) -> int:
        return int(self.Q.shape[0])

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Queries with the same value for every record: the number of reports answers them."""
        lowest, highest = self.Q.min(axis=1).toarray(), self.Q.max(axis=1).toarray()
        return np.asarray(lowest.ravel() == highest.ravel())

    def of(self, codes: Codes) -> Integers:
        """(records, attributes) → (records,): each record's pattern."""
        cells = tuple(merged[codes[:, a]] for a, merged in enumerate(self.merged))
        shape = tuple(int(merged.max()) + 1 for merged in self.merged)
        return np.asarray(self.pattern[np.ravel_multi_index(cells, shape)])

    def answers(self, counts: Floats | Integers) -> Floats:
        return np.asarray(self.Q @ counts, np.float64)


def pattern_table(workload: Workload, terms: tuple[Term, ...]) -> PatternTable:
    """The patterns of these terms; refused where there are too many cells to look at."""
    reduction = reduce_workload(Workload(workload.schema, (Item("together", terms),)))
    cells = math.prod(len(axis.orbit) for axis in reduction.axes)
    if cells > LARGEST_TABLE:
        raise StrategyError(f"a table of {cells:,} cells is too large for a local report")
    parts = [_rows(reduction, term) for term in reduction.terms]
    together = sparse.csr_array(sparse.vstack([rows for rows, _ in parts], format="csr"))
    prints = column_fingerprints(Rows(together))
    _, first, pattern = np.unique(prints, axis=0, return_index=True, return_inverse=True)
    scale = np.concatenate([np.full(rows.shape[0], 1 / common) for rows, common in parts])
    Q = sparse.csr_array(sparse.diags_array(scale) @ together[:, first])
    return PatternTable(tuple(axis.merged for axis in reduction.axes), pattern.ravel(), Q)


def _rows(reduction: Reduction, term: ReducedTerm) -> tuple[sparse.csr_array, int]:
    """A term's rows on merged cells times a common denominator, and that denominator."""
    common = math.lcm(*(c.denominator for c in term.coefficients))
    total = sum(
        c * _kronecker(reduction, index)
        for c, index in zip(term.integer_coefficients, term.indices, strict=True)
    )
    return sparse.csr_array(total), common


def _kronecker(reduction: Reduction, index: tuple[int, ...]) -> sparse.csr_array:
    factors = [axis.factors[i].to_sparse() for axis, i in zip(reduction.axes, index, strict=True)]
    one = sparse.csr_array(np.ones((1, 1), np.int64))
    return reduce(lambda left, right: sparse.csr_array(sparse.kron(left, right)), factors, one)
