"""A user's matrix as an exact factor: integers over one common denominator.

NumPy and SciPy matrices of integers are read without a Python loop; rationals (`Fraction`s, or
floats that are simple fractions) go through their distinct values, which are few.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from dhdmm.errors import StudyError
from dhdmm.study.factor import Array, Factor, dense_ranges, factor_of

LARGEST_ENTRY = 2**31
LARGEST_DENOMINATOR = 10**6


def exact_factor(matrix: Any, where: str) -> tuple[Factor, int]:
    """(F, denominator) with matrix = F / denominator; refuses entries that are not rational."""
    from scipy import sparse

    if sparse.issparse(matrix):
        coo = sparse.coo_array(matrix)
        row, column, entries = coo.row, coo.col, coo.data
    else:
        matrix = _dense(matrix, where)
        ranges = dense_ranges(matrix)
        if ranges is not None:
            return ranges, 1
        row, column = np.nonzero(matrix)
        entries = matrix[row, column]
    integers, denominator = _over_one_denominator(entries, where)
    return factor_of(sparse.csr_array((integers, (row, column)), shape=matrix.shape)), denominator


def _dense(matrix: Any, where: str) -> Array:
    try:
        dense = np.asarray(matrix)
    except ValueError:
        raise StudyError("the rows of a factor differ in length", where=where) from None
    if dense.ndim != 2 or 0 in dense.shape:
        raise StudyError(f"a factor is a matrix, not an array of shape {dense.shape}", where=where)
    if dense.dtype.kind not in "biufO":
        raise StudyError(f"a factor holds numbers, not {dense.dtype}", where=where)
    return dense


def _over_one_denominator(entries: Array, where: str) -> tuple[Array, int]:
    """Exact integers and the denominator that they share."""
    if entries.dtype.kind in "iub":
        integers, denominator = entries, 1
    else:
        values, position = _distinct(entries)
        fractions = [_rational(value, where) for value in values]
        denominator = math.lcm(*(fraction.denominator for fraction in fractions))
        integers = np.array([int(f * denominator) for f in fractions], object)[position]
    if denominator >= LARGEST_ENTRY or any(
        abs(int(bound)) >= LARGEST_ENTRY for bound in _extremes(integers)
    ):
        raise StudyError(f"entries over a common denominator exceed {LARGEST_ENTRY}", where=where)
    return integers.astype(np.int64), denominator


def _distinct(entries: Array) -> tuple[Any, Array]:
    """The distinct values, and which of them each entry is; objects need not be sortable."""
    if entries.dtype.kind != "O":
        return np.unique(entries, return_inverse=True)
    known: dict[Any, int] = {}
    position = np.array([known.setdefault(entry, len(known)) for entry in entries], np.int64)
    return list(known), position


def _extremes(integers: Array) -> tuple[Any, ...]:
    return (integers.min(), integers.max()) if len(integers) else ()


def _rational(value: Any, where: str) -> Fraction:
    if isinstance(value, (Fraction, int)):
        return Fraction(value)
    if isinstance(value, (float, np.floating)) and math.isfinite(value):
        near = Fraction(float(value)).limit_denominator(LARGEST_DENOMINATOR)
        if float(near) == float(value):
            return near
    raise StudyError(
        f"entry {value} is not an integer or a simple fraction",
        where=where,
        hint="strategies are exact integers: put real numbers into the term's weight",
    )
