"""What simulated participants hold: records drawn uniformly from the schema, or dealt from a table.

The records are public, so a NumPy generator will do: the same seed gives the same records.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.errors import DataError
from dhdmm.study.histogram import Histogram
from dhdmm.study.schema import Schema

Records = NDArray[Any]
"""(participants, records each, attributes), codes in the smallest words that hold them."""


def uniform_records(schema: Schema, participants: int, each: int, seed: int) -> Records:
    """Every cell is as likely as any other."""
    shape = participants, each, len(schema.shape)
    drawn = np.random.default_rng(seed).integers(0, schema.shape, shape)
    return drawn.astype(_word(schema))


def dealt_records(
    schema: Schema, table: Histogram, participants: int, each: int, seed: int
) -> Records:
    """Disjoint random subsets of one table."""
    if table.records < participants * each:
        raise DataError(
            f"{table.records:,} records are too few for {participants:,} × {each:,}",
            hint="simulate fewer participants, or fewer records each",
        )
    records = np.repeat(table.codes.astype(_word(schema)), table.counts, axis=0)
    chosen = np.random.default_rng(seed).permutation(len(records))[: participants * each]
    return records[chosen].reshape(participants, each, -1)


def _word(schema: Schema) -> np.dtype[Any]:
    return np.min_scalar_type(max(schema.shape) - 1)
