"""Bin edges as a list, or as "first:last:step" with both ends included."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from itertools import pairwise

from dhdmm.study.schema import LARGEST_SIZE

LARGEST_EDGE = 2**53
"""Up to here every whole number is a float."""
LONGEST_TEXT = 100


def expand_edges(written: str | list[int | float]) -> list[int | float]:
    """Increasing edges; `ValueError` says what is wrong with them.

    >>> expand_edges("0:100:25"), expand_edges("0:0.3:0.1")
    ([0, 25, 50, 75, 100], [0, 0.1, 0.2, 0.3])
    """
    edges = _steps(written) if isinstance(written, str) else written
    if any(abs(edge) > LARGEST_EDGE for edge in edges):
        raise ValueError(f"edges beyond {LARGEST_EDGE:,} are not supported")
    if len(edges) < 2:
        raise ValueError("one bin needs two edges")
    for left, right in pairwise(edges):
        if left >= right:
            raise ValueError(f"bins overlap: edge {right} follows {left}, but edges must increase")
    return [int(edge) if edge == int(edge) else edge for edge in edges]


def _steps(written: str) -> list[int | float]:
    """Decimal arithmetic, so that 0:1:0.1 has the edges that a person would write."""
    if len(written) > LONGEST_TEXT:
        raise ValueError("the text is too long for first:last:step")
    try:
        first, last, step = (Decimal(part.strip()) for part in written.split(":"))
        usable = all(abs(number) <= LARGEST_EDGE for number in (first, last, step))
    except (ValueError, InvalidOperation):
        usable = False
    if not usable:
        raise ValueError(f"{written!r} is not of the form first:last:step")
    if step <= 0 or last <= first:
        raise ValueError(f"{written!r} must rise from its first to its last edge")
    if (last - first) / step > LARGEST_SIZE:
        raise ValueError(f"{written!r} has more than {LARGEST_SIZE:,} bins")
    count, remainder = divmod(last - first, step)
    if remainder:
        raise ValueError(f"the steps of {written!r} do not meet its last edge")
    return [float(first + i * step) for i in range(int(count) + 1)]
