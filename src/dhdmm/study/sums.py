"""Sums of an attribute's values, as weighted rows: a record counts for its value.

A sum is made from the term that counts the same groups, by weighting the attribute's columns.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from dhdmm.errors import StudyError
from dhdmm.study.attributes.base import Amounts, Attribute
from dhdmm.study.factor import Integers, weighted
from dhdmm.study.names import column, nearest, number_text
from dhdmm.study.schema import Schema
from dhdmm.study.workload import Axis, Term

MIDPOINT = "midpoint"
LONGEST_CASE = 1_000
"""Bins that a query's SQL spells out."""


def summed(schema: Schema, counts: Term, name: str, representative: str = MIDPOINT) -> Term:
    """The sum of the attribute over the records of each group, missing ones left out.

    Its weight makes an error of one largest value as bad as an error of one record in a count.
    """
    index = _index(schema, name)
    attribute = schema.attributes[index]
    amounts = attribute.present.amounts(representative)
    if amounts is None:
        raise StudyError(
            f"the values of '{name}' cannot be added up", hint="it is not a number or a measure"
        )
    weights, largest = amounts.numbers, int(np.abs(amounts.numbers).max())
    if largest == 0:
        raise StudyError(f"'{name}' has no value but 0, so its sum is 0")
    common = int(np.gcd.reduce(weights))
    row = np.zeros(attribute.size, np.int64)
    row[: len(weights)] = weights // common
    made = _weighted(schema, counts, index, row, "sum", common * amounts.unit)
    weight = counts.weight / float(largest * amounts.unit)
    summand = _summand(attribute.present, amounts, representative)
    return replace(made, weight=weight, sum_of=name, summand=summand)


def _summand(attribute: Attribute, amounts: Amounts, representative: str) -> str:
    """The value itself; of a bin, what stands for it."""
    name = column(attribute.name)
    if not attribute.largest_bias(representative) or attribute.size > LONGEST_CASE:
        return name
    whens = " ".join(
        f"WHEN {attribute.range_predicate(code, code + 1) or f'{name} IS NOT NULL'}"
        f" THEN {number_text(float(number * amounts.unit))}"
        for code, number in enumerate(amounts.numbers.tolist())
    )
    return f"CASE {whens} END"


def of_known(schema: Schema, counts: Term, name: str) -> Term:
    """The records of each group whose value is not missing: what a mean divides by."""
    index = _index(schema, name)
    attribute = schema.attributes[index]
    if attribute.missing_code is None:
        return counts
    known = np.arange(attribute.size) < attribute.missing_code
    made = _weighted(schema, counts, index, known.astype(np.int64), "known")
    parts = [f"({counts.condition})" if counts.condition else "", f"{column(name)} IS NOT NULL"]
    return replace(made, condition=" AND ".join(filter(None, parts)))


def largest_bias(schema: Schema, name: str, representative: str) -> float:
    """By how much the sum may be off for each record, because values are known by their bins."""
    return schema.attributes[_index(schema, name)].present.largest_bias(representative)


def _index(schema: Schema, name: str) -> int:
    if name not in schema.names:
        raise StudyError(f"unknown attribute '{name}'", hint=nearest(name, schema.names))
    return schema.names.index(name)


def _weighted(
    schema: Schema, term: Term, index: int, row: Integers, said: str, scale: Fraction = Fraction(1)
) -> Term:
    """The term with the attribute's columns weighted; a column of the table says so."""
    products = tuple(
        replace(
            product,
            coefficient=product.coefficient * scale,
            factors=tuple(
                weighted(factor, row) if a == index else factor
                for a, factor in enumerate(product.factors)
            ),
        )
        for product in term.products
    )
    axes = list(term.axes)
    if axes[index] is None:
        axes[index] = Axis(schema.names[index], [said], [""])
    return replace(term, products=products, axes=tuple(axes))
