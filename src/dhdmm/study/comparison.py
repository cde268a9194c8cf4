"""The values of one attribute that compare with a constant in a given way: SQL's six comparisons.

All six follow from two sets, the values below the constant (v < c) and those up to it (v ≤ c).
Errors do not say where in a text they arose; whoever holds the text adds that.
"""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from dhdmm.errors import DataError, StudyError
from dhdmm.study.diagram import Mask
from dhdmm.study.names import literal, nearest, number_text
from dhdmm.study.schema import Attribute, CategoryAttribute, IntegerAttribute, NumberAttribute

Constant = str | bool | Decimal
Integers = NDArray[np.int64]


def compare(attribute: Attribute, operator: str, constant: Constant) -> Mask:
    """(size,): the values v with v operator constant; operator is =, <>, <, <=, > or >=."""
    if operator in ("=", "<>"):
        chosen = np.full(attribute.size, operator == "<>")
        chosen[code_of(attribute, constant)] ^= True
        return chosen
    _check_type(attribute, constant)
    values = integer_values(attribute)
    if isinstance(constant, Decimal) and isinstance(attribute, NumberAttribute):
        return _compare_bins(attribute, operator, constant)
    if isinstance(constant, Decimal) and values is not None:
        return compare_integers(values, operator, constant)
    raise StudyError(
        f"the values of '{attribute.name}' have no order, so {operator} means nothing",
        hint="use =, <> or IN",
    )


def code_of(attribute: Attribute, constant: Constant) -> int:
    """The position of the value that equals the constant; there must be one."""
    _check_type(attribute, constant)
    if isinstance(attribute, NumberAttribute):
        raise StudyError(
            f"'{attribute.name}' comes in bins, so a single value cannot be told apart",
            hint="use >= and < with the bins' edges",
        )
    whole = isinstance(constant, Decimal) and constant == int(constant)
    try:
        return attribute.code(int(constant) if whole else constant)
    except DataError:
        raise StudyError(
            f"{constant_text(constant)} is not a value of '{attribute.name}'",
            hint=_domain(attribute, constant),
        ) from None


def integer_values(attribute: Attribute) -> Integers | None:
    """(size,): what the codes stand for, None if that is not integers."""
    if isinstance(attribute, IntegerAttribute):
        return np.arange(attribute.low, attribute.high + 1, dtype=np.int64)
    if isinstance(attribute, CategoryAttribute) and type(attribute.values[0]) is int:
        return np.array(attribute.values, np.int64)
    return None


def compare_integers(values: Integers, operator: str, constant: Decimal) -> Mask:
    """(size,): the values v with v operator constant, exactly, also for 17.5."""
    below, upto = values < math.ceil(constant), values <= math.floor(constant)
    match operator:
        case "<":
            return below
        case "<=":
            return upto
        case ">":
            return ~upto
        case ">=":
            return ~below
        case "=":
            return upto & ~below
        case _:
            return below | ~upto


def _compare_bins(attribute: NumberAttribute, operator: str, constant: Decimal) -> Mask:
    """Bins are [low, high), the last one [low, high]; each must lie on one side of the constant."""
    edges, cut = np.array(attribute.edges), float(constant)
    low, high = edges[:-1], edges[1:]
    if operator in ("<=", ">"):
        upto, beyond = high <= cut, low > cut
    else:
        upto, beyond = high <= cut, low >= cut
        upto[-1] = high[-1] < cut
    for code in np.flatnonzero(~(upto | beyond)):
        raise _cut_bin(attribute, operator, cut, int(code))
    return upto if operator in ("<", "<=") else beyond


def _cut_bin(attribute: NumberAttribute, operator: str, cut: float, code: int) -> StudyError:
    low, high = (number_text(edge) for edge in attribute.edges[code : code + 2])
    last = code == attribute.size - 1
    return StudyError(
        f"'{attribute.name}' {operator} {number_text(cut)} cuts the bin {attribute.label(code)}",
        hint=f"a bin is taken whole: use < or >= with {low}"
        + (f", <= or > with {high}" if last else f" or {high}"),
    )


def _domain(attribute: Attribute, constant: Constant) -> str | None:
    if isinstance(attribute, IntegerAttribute):
        return f"it ranges from {attribute.low} to {attribute.high}"
    assert isinstance(attribute, CategoryAttribute)
    return nearest(constant, attribute.values)


def constant_text(constant: Constant) -> str:
    return f"{constant:f}" if isinstance(constant, Decimal) else literal(constant)


def _check_type(attribute: Attribute, constant: Constant) -> None:
    """SQL would convert '18' to 18 and fail at 'x'; here a constant has the type of the values."""
    values = attribute.values if isinstance(attribute, CategoryAttribute) else (0,)
    held = Decimal if type(values[0]) is int else type(values[0])
    if type(constant) is not held:
        words = {str: "text", bool: "TRUE and FALSE", Decimal: "numbers"}
        hint = "text stands in single quotes, numbers in none"
        raise StudyError(
            f"'{attribute.name}' holds {words[held]}, not {constant_text(constant)}", hint=hint
        )
