"""Records divided between the ends of measured columns, in whole parts: see ADR 30."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from dhdmm.errors import DataError
from dhdmm.study.attributes import Attribute, Codes
from dhdmm.study.attributes.columns import FIRST_STEP
from dhdmm.study.histogram import Counts, Histogram
from dhdmm.study.names import number_text
from dhdmm.study.schema import Schema

LARGEST_COUNT = 2**62


def divided(schema: Schema, histogram: Histogram) -> Histogram:
    """Counts of parts, from counts of records whose measured columns are coded by their steps."""
    codes, counts, units = histogram.codes, histogram.counts, schema.units
    if all(attribute.present.divided is None for attribute in schema.attributes):
        return histogram
    if histogram.records * units >= LARGEST_COUNT:
        raise DataError(f"{histogram.records:,} records of {units:,} parts each are too many")
    for a, attribute in enumerate(schema.attributes):
        steps = attribute.present.divided
        if steps is None:
            continue
        measured = codes[:, a] >= FIRST_STEP
        step = np.where(measured, _within(codes[:, a], steps), 0)
        lower, upper = codes.copy(), codes.copy()
        lower[measured, a], upper[measured, a] = 0, 1
        codes = np.concatenate([lower, upper])
        counts = np.concatenate([counts * (steps - step), counts * step])
    return Histogram.of(codes, counts)


def clipped(schema: Schema, codes: Codes, rows: Counts) -> dict[str, int]:
    """In how many rows the value of each measured column is beyond its range."""
    beyond = {
        attribute.name: codes[:, a] > FIRST_STEP + attribute.present.divided
        for a, attribute in enumerate(schema.attributes)
        if attribute.present.divided is not None
    }
    return {name: int(rows[chosen].sum()) for name, chosen in beyond.items()}


def quarters(attribute: Attribute, codes: Codes) -> tuple[Codes, list[str]]:
    """In which quarter of a measured column's range each value is, for a look at it.

    Returns:
        Codes of the quarters and of what is missing, and their labels.
    """
    steps, amounts = attribute.present.divided, attribute.present.amounts("")
    assert steps is not None, "a measured column"
    assert amounts is not None, "a measured column"
    low, high = (float(number * amounts.unit) for number in amounts.numbers.tolist())
    ends = np.linspace(low, high, 5).tolist()
    labels = [f"{number_text(start)} to {number_text(end)}" for start, end in pairwise(ends)]
    quarter = np.minimum(_within(codes, steps) * 4 // steps, 3)
    missing = attribute.label(attribute.size - 1)
    return np.where(codes >= FIRST_STEP, quarter, 4), [*labels, missing]


def _within(codes: Codes, steps: int) -> Codes:
    """The step of each code; the two after the last one are clipped to the ends."""
    step = codes - FIRST_STEP
    return np.where(step == steps + 1, 0, np.minimum(step, steps))
