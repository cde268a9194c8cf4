"""A strategy: the integer matrix A' that every participant applies to its histogram.

A' is (rows, cells), never written out: a stack of blocks, see blocks.py. Everything about privacy
is exact: measurements are integer vectors, sensitivities are integers over all cells. Everything
about accuracy needs the workload, see reconstruction.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.effort import allocate
from dhdmm.errors import StrategyError
from dhdmm.strategy import sensitivity
from dhdmm.strategy.blocks import (
    Block,
    MeasuredAxis,
    Piece,
    SidePieces,
    entry_bound,
    row_ranges,
    write_out_together,
)
from dhdmm.strategy.encoding import decode, encode, format_of, refused
from dhdmm.strategy.estimate import Estimate
from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.measuring import Cells, Parts, columns_at, measure_blocks, total_count
from dhdmm.strategy.membership import Membership
from dhdmm.strategy.memo import memoised
from dhdmm.strategy.objective import TOTAL_SQUARED_ERROR, Objective
from dhdmm.study.histogram import Histogram
from dhdmm.study.workload import Workload
from dhdmm.summary import Summarised
from dhdmm.threads import one_blas_thread

if TYPE_CHECKING:
    from scipy import sparse

    from dhdmm.strategy.reconstruction import Reconstruction

LARGEST_ENTRY = 2**53
SPARSE_LIMIT = 200_000_000
"""rows × cells that `to_sparse` is willing to visit."""


@dataclass(frozen=True, eq=False, repr=False)
class Strategy(Summarised):
    """A matrix A' of integers that every participant multiplies its histogram with.

    Make one with `dhdmm.optimise`. One that was optimised for a workload also knows its expected
    error and a lower bound on the error of any strategy.

    Example:
        >>> strategy = dhdmm.optimise(study.workload)  # doctest: +SKIP
        >>> strategy.rows, strategy.rmse, strategy.ratio  # doctest: +SKIP
    """

    axes: tuple[MeasuredAxis, ...]
    blocks: tuple[Block, ...]
    workload: Workload | None = None
    lower_bound: float | None = None
    """No strategy has a smaller `error`: a numerical certificate."""
    objective: Objective = TOTAL_SQUARED_ERROR

    def _summary(self) -> dict[str, Any]:
        return {"measurements": self.rows, "cells": self.cells}

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each attribute has."""
        return tuple(len(axis.merged) for axis in self.axes)

    @property
    def cells(self) -> int:
        """How many columns A' has: the cells of the schema."""
        return math.prod(self.shape)

    @cached_property
    def rows(self) -> int:
        """How many rows A' has: the measurements that a participant sends."""
        return sum(block.rows for block in self.blocks)

    # -- privacy: exact integers ------------------------------------------------------------------

    @cached_property
    def sensitivity_squared(self) -> int:
        """Squared L2 sensitivity to one record added, removed or zeroed out: max_u ‖a_u‖²."""
        return sensitivity.sensitivity_squared(self.axes, self.blocks, self._pieces)

    @cached_property
    def replace_sensitivity_squared(self) -> int:
        """Squared L2 sensitivity to one record replaced: max of ‖a_u‖² and ‖a_u − a_v‖²."""
        with one_blas_thread():
            return sensitivity.replace_sensitivity_squared(self.axes, self.blocks, self._pieces)

    @cached_property
    def max_entry(self) -> int:
        """An upper bound on |A'_iu|; the maximum unless a block is too large to write out."""
        return max(self._entry_bounds)

    @cached_property
    def row_ranges(self) -> list[tuple[int, int, int]]:
        """(rows, low, high) of runs of rows: no entry of theirs is outside [low, high], nor is 0.

        Exact unless a block is too large to write out.
        """
        parts = zip(self.blocks, self._pieces, strict=True)
        every = chain.from_iterable(row_ranges(block, pieces) for block, pieces in parts)
        runs = groupby(every, key=itemgetter(1))
        return [(sum(count for count, _ in run), *found) for found, run in runs]

    @cached_property
    def _entry_bounds(self) -> list[int]:
        parts = zip(self.blocks, self._pieces, strict=True)
        return [entry_bound(block, pieces) for block, pieces in parts]

    @cached_property
    def _pieces(self) -> list[SidePieces]:
        sides = {side for block in self.blocks for side in block.sides}  # equal ones are the same
        known = {side: side.pieces(self.axes) for side in sides}
        every = (piece for side in known.values() for piece in side)
        write_out_together(piece for piece in every if isinstance(piece, Piece))
        return [[known[side] for side in block.sides] for block in self.blocks]

    @cached_property
    def _apart(self) -> Parts:
        parts = zip(self.blocks, self._pieces, strict=True)
        copies = [(copy, pieces) for block, pieces in parts for copy in block.apart()]
        return Parts(self.axes, copies)

    @property
    def format(self) -> int:
        """The number of the format that it is written in."""
        return format_of(self.axes, self.blocks)

    @cached_property
    def _encoded(self) -> bytes:
        return encode(self.axes, self.blocks)

    def to_bytes(self) -> bytes:
        """Encode the strategy; the workload is not part of it.

        Returns:
            The canonical encoding; for a strategy that was read from bytes, those bytes.
        """
        return self._encoded

    @classmethod
    def from_bytes(cls, data: bytes, made_by: str | None = None) -> Strategy:
        """Read an encoded strategy, checked so that it can be measured.

        Args:
            data: What `to_bytes` returned.
            made_by: The version of dhdmm that wrote the bytes, for error messages.

        Returns:
            The strategy; `attach` it to a workload to reconstruct answers.

        Raises:
            StrategyError: The bytes are not a strategy.
        """
        strategy = cls(*decode(data, made_by))
        vars(strategy)["_encoded"] = data
        if strategy.max_entry > LARGEST_ENTRY:
            raise refused("an entry exceeds 53 bits")
        if min(strategy._entry_bounds) == 0:
            raise refused("a block measures nothing")
        return strategy

    def rescaled(self, min_sensitivity: float) -> Strategy:
        """The strategy times the smallest integer that gives it at least a certain sensitivity.

        Args:
            min_sensitivity: The L2 sensitivity that is needed.

        Returns:
            The multiplied strategy.

        Raises:
            StrategyError: Its entries would not fit into 53 bits.
        """
        needed = min_sensitivity / math.sqrt(self.sensitivity_squared)
        factor = max(1, math.ceil(needed * (1 - 1e-12)))
        if self.max_entry * factor > LARGEST_ENTRY:
            raise StrategyError(f"a sensitivity of {min_sensitivity:g} needs entries over 53 bits")
        larger = replace(self, blocks=tuple(_times(block, factor) for block in self.blocks))
        known = vars(self).keys() & {"sensitivity_squared", "replace_sensitivity_squared"}
        vars(larger).update({name: factor**2 * vars(self)[name] for name in known})
        return larger

    # -- measuring --------------------------------------------------------------------------------

    def measure(self, histogram: Histogram | NDArray[Any]) -> Integers:
        """Multiply A' with a histogram, exactly. Costs O(rows) per occupied cell.

        Args:
            histogram: A `Histogram`, or an array of counts with one axis per attribute.

        Returns:
            A' x, an array of `rows` integers.

        Raises:
            StrategyError: The histogram has other attributes, or the result could overflow.
        """
        if not isinstance(histogram, Histogram):
            histogram = Histogram.of_array(np.asarray(histogram))
        codes, counts = histogram.codes, np.asarray(histogram.counts, np.int64)
        self._check_histogram(codes, counts)
        return measure_blocks(self._apart, codes, counts)

    def _check_histogram(self, codes: Integers, counts: Integers) -> None:
        if codes.ndim != 2 or codes.shape != (len(counts), len(self.axes)):
            raise StrategyError(f"a histogram of {len(self.axes)} attributes is needed")
        lowest, highest = codes.min(axis=0, initial=0), codes.max(axis=0, initial=0)
        if np.any((lowest < 0) | (highest >= np.array(self.shape))):
            raise StrategyError("a record's value is outside its attribute")
        total = total_count(counts)
        if total * self.max_entry >= 2**60:
            raise StrategyError(f"{total:,} records times entries of {self.max_entry:,} overflow")

    def to_sparse(self, limit: int = SPARSE_LIMIT) -> sparse.csr_array:
        """Write A' out.

        Args:
            limit: The largest rows × cells that is written.

        Returns:
            A CSR matrix (rows, cells), the last attribute fastest.

        Raises:
            StrategyError: The matrix is larger than `limit`.
        """
        from scipy import sparse

        if self.rows * self.cells > limit:
            raise StrategyError(
                f"the matrix is {self.rows:,} × {self.cells:,}, above the limit of {limit:,}",
                hint="apply it with `measure`, or pass a larger limit",
            )
        cells = np.indices(self.shape).reshape(len(self.shape), -1)
        merged = {a: axis.merged[cells[a]] for a, axis in enumerate(self.axes)}
        every = Cells(merged, np.ones(self.cells, np.int64))
        stacked = []
        for block, pieces in self._apart.blocks:
            stacked.append(sparse.csr_array(columns_at(self.axes, block, pieces, every)))
        return sparse.csr_array(sparse.vstack(stacked, format="csr"))

    # -- accuracy: needs the workload -------------------------------------------------------------

    def over(self, workload: Workload, objective: Objective | None = None) -> Strategy:
        """This strategy for a workload, without checking that it can answer it.

        Args:
            workload: A workload over the same attributes.
            objective: What it is judged by; None leaves that as it is.

        Returns:
            The strategy with that workload.

        Raises:
            StrategyError: The workload is over other attributes.
        """
        if workload.schema.shape != self.shape:
            raise StrategyError(f"the workload is over {workload.schema.shape}, not {self.shape}")
        same = replace(self, workload=workload, objective=objective or self.objective)
        known = vars(self).keys() & {"_encoded", "_pieces", "_entry_bounds"}
        vars(same).update({name: vars(self)[name] for name in known})  # the matrix is the same
        return same

    def attach(self, workload: Workload) -> Strategy:
        """This strategy for a workload, whose queries must lie in its row space.

        Args:
            workload: The queries to answer.

        Returns:
            The strategy with that workload.

        Raises:
            StrategyError: A query does not follow from the measurements.
        """
        if not self.contains(workload):
            raise StrategyError("the strategy does not measure all the workload's queries")
        return self.over(workload)

    @cached_property
    def reconstruction(self) -> Reconstruction:
        """How answers and their variances follow from the measurements."""
        from dhdmm.strategy.reconstruction import Reconstruction  # brings scipy.linalg

        return Reconstruction(self.axes, self.blocks)

    def _attached(self) -> Workload:
        if self.workload is None:
            raise StrategyError("no workload is attached", hint="call attach(workload) first")
        return self.workload

    def reconstruct(self, measurement: NDArray[Any]) -> Floats:
        """Answer the workload from a measurement: W A'⁺ M.

        Args:
            measurement: One number per row of A'.

        Returns:
            The unweighted answers, in the workload's order.

        Raises:
            StrategyError: The measurement has another length, or no workload is attached.
        """
        estimate = self.estimate(measurement)
        return np.concatenate([estimate.term(term) for term in self._attached().terms])

    def variances(self) -> Floats:
        """The variance of every unweighted answer when each measurement has variance 1.

        Returns:
            One variance per query, in the workload's order.
        """
        return self._variances

    @cached_property
    def _variances(self) -> Floats:
        terms = self._attached().terms
        allocate(4 * sum(term.queries for term in terms))
        with one_blas_thread():
            return np.concatenate([self.reconstruction.variances(term) for term in terms])

    @property
    def rmse(self) -> float:
        """Expected root-mean-square error per weighted query at L2 sensitivity 1."""
        return self._error(TOTAL_SQUARED_ERROR)

    @property
    def error(self) -> float:
        """What the strategy was optimised for, at L2 sensitivity 1: by default `rmse`.

        For `per-table` the root of the mean over tables of their mean squared error, for `max` the
        largest standard error of any answer, for targets the largest in units of its target.
        """
        return self._error(self.objective)

    @memoised
    def _error(self, objective: Objective) -> float:
        workload = self._attached()
        with one_blas_thread():
            value = objective.judge(workload, self.reconstruction)
        return objective.figure(self.sensitivity_squared * value)

    @property
    def ratio(self) -> float | None:
        """`error` / `lower_bound`: 1.002 means at most 0.2 % worse than the best possible."""
        return None if self.lower_bound is None else self.error / self.lower_bound

    def estimate(self, measurement: NDArray[Any]) -> Estimate:
        """The least-squares histogram x̂ = A'⁺ M, for any query in the row space.

        Args:
            measurement: One number per row of A'.

        Returns:
            The histogram, from which queries are answered.

        Raises:
            StrategyError: The measurement has another length.
        """
        if np.shape(measurement) != (self.rows,):
            raise StrategyError(f"{self.rows} measurements are needed")
        return self.reconstruction.estimate(np.asarray(measurement, np.float64))

    @cached_property
    def membership(self) -> Membership:
        """Which queries lie in the row space, so can be answered."""
        return Membership(self.axes, self.blocks)

    def contains(self, workload: Workload, seed: bytes = b"") -> bool:
        """Whether every query of the workload lies in the row space.

        Args:
            workload: The queries.
            seed: Of the random test; whoever made the workload or the strategy must not have
                chosen it.

        Returns:
            True if all can be answered.
        """
        membership = Membership(self.axes, self.blocks, seed) if seed else self.membership
        return membership.contains(*workload.terms)


def _times(block: Block, factor: int) -> Block:
    first, *others = block.sides
    return replace(block, sides=(replace(first, T=first.T * factor), *others))
