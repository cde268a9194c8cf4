"""Rows that were left out, as part of the workload: the item `coverage: true`.

A study with such an item has one more attribute, which no column holds: whether a row was counted.
A row that a data holder leaves out is in the cell (first value of every attribute, left out). Every
other query counts the cells that were counted; the coverage item counts both kinds. So a row is
still in exactly one cell, and sensitivities are what they are for any workload (ADR 27).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from dhdmm.study.attributes.category import CategoryAttribute
from dhdmm.study.factor import Ranges
from dhdmm.study.query import DATA, LEFT_OUT_TABLE
from dhdmm.study.schema import Schema
from dhdmm.study.workload import Axis, Product, Term

COUNTED, LEFT_OUT = 0, 1
"""Codes of the attribute."""
LABELS = ("counted", "left out")
ROWS = CategoryAttribute("rows", LABELS)
"""Of the workload's schema alone: no table has such a column, and no query can name it."""


def with_rows(schema: Schema) -> Schema:
    """The cells of a study that asks for its coverage."""
    return Schema((*schema.attributes, ROWS))


def of_counted(term: Term) -> Term:
    """The same queries, over the rows that were counted."""
    products = tuple(replace(p, factors=(*p.factors, _only(COUNTED))) for p in term.products)
    return replace(term, products=products, axes=(*term.axes, None))


def coverage_terms(schema: Schema, weight: float) -> tuple[Term, Term]:
    """How many rows were counted, and how many were left out."""
    everything = tuple(Ranges.total(attribute.size) for attribute in schema.attributes)
    unnamed = (None,) * len(everything)

    def rows(code: int, table: str) -> Term:
        product = Product(Fraction(1, schema.units), (*everything, _only(code)))
        axis = Axis(ROWS.name, [LABELS[code]], [""])
        return Term(weight, (product,), (*unnamed, axis), table=table)

    return rows(COUNTED, DATA), rows(LEFT_OUT, LEFT_OUT_TABLE)


def _only(code: int) -> Ranges:
    return Ranges(np.array([code]), np.array([code + 1]), ROWS.size)
