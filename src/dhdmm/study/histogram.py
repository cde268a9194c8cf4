"""How many records fall into which cells: what a data holder's table is reduced to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.study.attributes import Codes

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Histogram:
    """The occupied cells in order, and how many records each holds: x of the paper, sparse.

    Its `repr` shows nothing of this, because it is the data.

    Attributes:
        codes: (cells, attributes), strictly increasing lexicographically, which is the order of
            `schema.cell`.
        counts: (cells,), positive.

    Example:
        >>> Histogram.of(np.array([[1, 0], [0, 1], [1, 0]]), np.array([1, 2, 1])).counts.tolist()
        [2, 2]
    """

    codes: Codes = field(repr=False)
    counts: Counts = field(repr=False)

    def __post_init__(self) -> None:
        self.codes.setflags(write=False)
        self.counts.setflags(write=False)

    @classmethod
    def of(cls, codes: Codes, counts: Counts) -> Histogram:
        """From cells in any order, possibly repeated or empty."""
        occupied = counts > 0
        codes, counts = codes[occupied].astype(np.int64), counts[occupied].astype(np.int64)
        order = np.lexsort(codes.T[::-1])
        codes, counts = codes[order], counts[order]
        is_first = np.ones(len(codes), dtype=bool)
        is_first[1:] = (codes[1:] != codes[:-1]).any(axis=1)
        starts = np.flatnonzero(is_first)
        return cls(codes[starts], np.add.reduceat(counts, starts) if len(starts) else counts)

    @classmethod
    def of_records(cls, codes: Codes) -> Histogram:
        """From one row of codes per record."""
        return cls.of(codes, np.ones(len(codes), np.int64))

    @classmethod
    def of_array(cls, x: NDArray[Any]) -> Histogram:
        """Make a histogram from an array of counts.

        Args:
            x: The counts, with one axis per attribute.

        Returns:
            The histogram.
        """
        codes = np.argwhere(x)
        return cls.of(codes, np.asarray(x[tuple(codes.T)], np.int64))

    @classmethod
    def total(cls, histograms: Iterable[Histogram]) -> Histogram:
        """Add up histograms.

        Args:
            histograms: At least one, all of the same attributes.

        Returns:
            The histogram of all their records.
        """
        parts = list(histograms)
        codes = np.concatenate([part.codes for part in parts])
        return cls.of(codes, np.concatenate([part.counts for part in parts]))

    @property
    def records(self) -> int:
        """How many records there are."""
        return int(self.counts.sum())
