"""How a single query reads: its label in a table and its SQL over the table `data`.

A query is one row of a term: one row of every factor. Where that row is a set of values, the SQL
has a predicate; a row with other entries becomes CASE and the query a SUM.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from dhdmm.study.attributes import Attribute
from dhdmm.study.factor import Factor, Ranges
from dhdmm.study.names import column
from dhdmm.study.schema import Schema

if TYPE_CHECKING:
    from dhdmm.study.workload import Term

TOTAL = "total"
DATA, LEFT_OUT_TABLE = "data", "left_out"
"""The tables of queries: the rows that are counted, and those that are not (ADR 27)."""


class Query(NamedTuple):
    """One row of the workload in words and in SQL."""

    item: str
    label: str
    sql: str


def row_label(attribute: Attribute, factor: Factor, row: int) -> str:
    if isinstance(factor, Ranges):
        return attribute.range_label(int(factor.low[row]), int(factor.high[row]))
    return attribute.set_label(factor.entries(row)[0]) if is_set(factor, row) else f"row {row}"


def row_predicate(attribute: Attribute, factor: Factor, row: int) -> str:
    """SQL for a row that is a set of values; empty for all of them, and for any other row."""
    if isinstance(factor, Ranges):
        return attribute.range_predicate(int(factor.low[row]), int(factor.high[row]))
    return attribute.set_predicate(factor.entries(row)[0]) if is_set(factor, row) else ""


def is_set(factor: Factor, row: int) -> bool:
    return bool((factor.entries(row)[1] == 1).all())


def query_label(term: Term, rows: Sequence[int]) -> str:
    """`sex: Male, age_band: 25–34`; a condition that couples attributes follows after `where`."""
    named = zip(term.axes, rows, strict=True)
    label = ", ".join(f"{axis.header}: {axis.labels[row]}" for axis, row in named if axis)
    coupled = f" where {term.condition}" if len(term.products) > 1 else ""
    return (label or TOTAL) + coupled


def query_sql(schema: Schema, term: Term, rows: Sequence[int]) -> str:
    """The count (or, for a row with other entries, the sum) that this query asks for."""
    predicates = [axis.predicates[row] for axis, row in zip(term.axes, rows, strict=True) if axis]
    predicates.append(f"({term.condition})" if term.condition else "")
    where = " AND ".join(predicate for predicate in predicates if predicate)
    source = f"FROM {term.table} WHERE {where}" if where else f"FROM {term.table}"
    if term.mark is not None:
        return f"SELECT COUNT(DISTINCT {column(term.mark.column)}) {source}"
    values = _values(schema, term, rows)
    return f"SELECT {f'COALESCE(SUM({values}), 0)' if values else 'COUNT(*)'} {source}"


def _values(schema: Schema, term: Term, rows: Sequence[int]) -> str:
    """What a record counts for, empty when it counts one."""
    if term.sum_of:
        return term.summand
    if len(term.products) > 1:  # the signed sum of a coupled condition: each record counts one
        return ""
    product = term.products[0]
    factors = zip(schema.attributes, product.factors, rows, strict=True)
    cases = [_case(a, factor, row) for a, factor, row in factors if not is_set(factor, row)]
    coefficient = product.coefficient * schema.units
    if coefficient != 1:
        cases.append(_fraction(coefficient))
    return " * ".join(cases)


def _case(attribute: Attribute, factor: Factor, row: int) -> str:
    codes, entries = factor.entries(row)
    whens = [
        f"WHEN {attribute.range_predicate(int(code), int(code) + 1) or 'TRUE'} THEN {entry}"
        for code, entry in zip(codes, entries, strict=True)
    ]
    return f"(CASE {' '.join(whens)} ELSE 0 END)"


def _fraction(value: Fraction) -> str:
    return f"{value.numerator}.0 / {value.denominator}"
