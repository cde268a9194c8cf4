"""Records for the evaluation: a file that the user has, or made-up ones. None of them is secret.

The mechanism's error does not depend on the records; local reports' error hardly does, and the
error of answering zero is nothing else.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import ArrowInvalid, csv

from dhdmm.errors import DataError
from dhdmm.participant.tabulate import tabulate
from dhdmm.study.attributes import Codes
from dhdmm.study.schema import Schema

CODED_ADULT = {
    "age": ("age", 1),
    "education": ("education-num", 0),
    "race": ("race", 0),
    "sex": ("sex", 0),
    "hours": ("hours-per-week", -1),
}
"""Columns of the coded Adult file and what to subtract: there, age 17 is 1 and one hour is 0."""
HOURS_PER_BIN = 5

ADULT_SHAPES: dict[str, Any] = {
    "race": [0.855, 0.031, 0.010, 0.008, 0.096],
    "sex": [0.33, 0.67],
}
"""Rough shares of the Adult data, for the stand-in."""


def description(name: str, adult: Path | None) -> str:
    """What the records are, in the words of the report."""
    if name != "adult-5":
        return "made-up records, every value equally likely"
    if adult is None:
        return "a made-up stand-in for the Adult data"
    return "the UCI Adult data"


def fingerprint(name: str, adult: Path | None) -> str:
    """Tells one file from another, so that results of one are not taken for the other's."""
    if name != "adult-5" or adult is None:
        return description(name, adult)
    try:
        return hashlib.sha256(adult.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=str(adult)) from None


def records(name: str, schema: Schema, count: int, seed: int, adult: Path | None) -> Codes:
    """(count, attributes): one record per participant."""
    generator = np.random.default_rng(seed)
    if name == "adult-5" and adult is not None:
        everyone = _adult_file(adult, schema)
        if len(everyone) < count:
            raise DataError(f"only {len(everyone):,} records, not {count:,}", where=str(adult))
        return np.asarray(everyone[generator.permutation(len(everyone))[:count]])
    columns = [
        _column(name, attribute.name, attribute.size, count, generator)
        for attribute in schema.attributes
    ]
    return np.stack(columns, axis=1)


def _column(study: str, name: str, size: int, count: int, generator: np.random.Generator) -> Codes:
    if study != "adult-5":
        return np.asarray(generator.integers(0, size, count))
    if name in ADULT_SHAPES:
        return np.asarray(generator.choice(size, count, p=ADULT_SHAPES[name]))
    centre, spread = {"age": (0.29, 0.18), "education": (0.6, 0.16), "hours": (0.41, 0.12)}[name]
    drawn = generator.normal(centre * size, spread * size, count)
    return np.clip(drawn, 0, size - 1).astype(np.int64)


def _adult_file(path: Path, schema: Schema) -> Codes:
    """The coded file of the matrix-mechanism literature, or a table with the study's columns."""
    try:
        table = csv.read_csv(path)
    except (OSError, ArrowInvalid) as error:
        raise DataError(f"not a CSV table: {error}", where=str(path)) from None
    wanted = {column for column, _ in CODED_ADULT.values()}
    if not wanted <= set(table.column_names):
        histogram = tabulate(path, schema).histogram
        return np.repeat(histogram.codes, histogram.counts, axis=0)
    columns = [
        np.asarray(table[column].to_numpy(), np.int64) - first
        for column, first in CODED_ADULT.values()
    ]
    columns[-1] //= HOURS_PER_BIN
    codes = np.stack(columns, axis=1)
    if np.any((codes < 0) | (codes >= np.array(schema.shape))):
        raise DataError("a code is outside its attribute", where=str(path))
    return codes
