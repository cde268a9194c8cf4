"""From a measurement to answers: W A'⁺ M, and the exact variance of every answer.

A' has independent rows, and blocks that are orthogonal to each other, so A'⁺ splits: on a block
(T₁·B₁) ⊗ … ⊗ E the pseudo-inverse is (T₁·B₁)⁺ ⊗ … ⊗ E⁺. Everything here follows from the strategy's
blocks alone; nothing is kept from the optimiser.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dhdmm.effort import OBJECT, work
from dhdmm.strategy.blocks import Block, Group, MeasuredAxis, apart
from dhdmm.strategy.dyadic_inverse import DyadicInverse
from dhdmm.strategy.estimate import Attributes, Estimate, contained
from dhdmm.strategy.inverse import AnyInverse, FactorPair, SideInverse, inverse_of
from dhdmm.strategy.matrix import Floats
from dhdmm.study.workload import Term


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """Everything that accuracy needs, from the strategy's blocks alone."""

    axes: tuple[MeasuredAxis, ...]
    blocks: tuple[Block, ...]

    @cached_property
    def _apart(self) -> tuple[Block, ...]:
        return apart(self.blocks)

    @cached_property
    def _inverses(self) -> list[list[AnyInverse]]:
        """Copies of a block have the same sides."""
        known = {id(side): side for block in self._apart for side in block.sides}
        made = {key: inverse_of(self.axes, side) for key, side in known.items()}
        return [[made[id(side)] for side in block.sides] for block in self._apart]

    @cached_property
    def _by_residuals(self) -> dict[Attributes, list[int]]:
        """Numbers of the blocks with residuals of these attributes."""
        found: dict[Attributes, list[int]] = {}
        for number, block in enumerate(self._apart):
            attributes = frozenset(residual.attribute for residual in block.residuals)
            found.setdefault(attributes, []).append(number)
        return found

    def estimate(self, measurement: Floats) -> Estimate:
        """x̂ = A'⁺ M."""
        tensors: dict[tuple[tuple[int, ...], frozenset[int]], Floats] = {}
        start = 0
        for block, sides in zip(self._apart, self._inverses, strict=True):
            M = measurement[start : start + block.rows].reshape(block.shape)
            start += block.rows
            if isinstance(sides[0], DyadicInverse):  # a block by itself
                tensors[block.axes, frozenset()] = sides[0].solve(M)
                continue
            written = [side for side in sides if isinstance(side, SideInverse)]
            for i, side in enumerate(written):
                M = np.moveaxis(np.tensordot(side.inverse, M, axes=(1, i)), 0, i)
            for groups in itertools.product(*(side.groups for side in written)):
                self._add_share(tensors, block, groups, M)
        return Estimate(self.axes, tensors)

    def _add_share(
        self,
        tensors: dict[tuple[tuple[int, ...], frozenset[int]], Floats],
        block: Block,
        groups: Sequence[Group],
        M: Floats,
    ) -> None:
        """Adds Σ M over the groups' products, expanded to merged values."""
        for i, group in enumerate(groups):
            M = np.moveaxis(
                np.tensordot(group.K, M.take(group.products, axis=i), axes=(0, i)), 0, i
            )
        held = tuple(a for group in groups for a in group.axes)
        contrasts = tuple(r.contrast.rows for r in block.residuals)
        table = M.reshape((*(len(self.axes[a].sizes) for a in held), *contrasts))
        for i, a in enumerate(held):
            table = table.take(self.axes[a].orbit, axis=i)
        for i, r in enumerate(block.residuals, start=len(held)):
            table = r.contrast.apply_pseudo_inverse(table, i)
        # Axes of the block that this group is constant in are summed, not averaged, by the basis.
        table = table * math.prod(len(self.axes[a].orbit) for a in block.axes if a not in held)
        attributes = (*held, *(r.attribute for r in block.residuals))
        home = tuple(sorted(attributes))
        key = home, frozenset(r.attribute for r in block.residuals)
        parts = {r.attribute: self.axes[r.attribute].part(r.part) for r in block.residuals}
        if key not in tensors:
            tensors[key] = np.zeros([len(self.axes[a].orbit) for a in home])
        everything = [np.arange(len(self.axes[a].orbit)) for a in home]
        index = np.ix_(*(parts.get(a, whole) for a, whole in zip(home, everything, strict=True)))
        tensors[key][index] += table.transpose(np.argsort(attributes))

    def variances(self, term: Term) -> Floats:
        """diag(W (A'ᵀA')⁺ Wᵀ) for the unweighted rows of one term, (queries,)."""
        return self.covariances(term, term)

    def covariances(self, left: Term, right: Term) -> Floats:
        """diag(V (A'ᵀA')⁺ Wᵀ) for the unweighted rows of two terms with as many rows."""
        total = np.zeros([rows for rows in left.row_shape if rows > 1])
        for scale, pair, block, sides in self._shares(left, right):
            work(5 * OBJECT + left.queries / 4)
            total += scale * pair.covariance(block, sides)
        return total.ravel()

    def total_variance(self, term: Term) -> float:
        """The sum of `variances`, without writing them out."""
        return math.fsum(
            scale * pair.total_covariance(block, sides)
            for scale, pair, block, sides in self._shares(term, term)
        )

    def _shares(
        self, one: Term, other: Term
    ) -> Iterator[tuple[float, FactorPair, Block, Sequence[AnyInverse]]]:
        """Every pair of products with every block that both see."""
        for left, right in itertools.product(one.products, other.products):
            pair = FactorPair(self.axes, left, right)
            scale = float(left.coefficient * right.coefficient)
            near = contained(self._by_residuals, pair.varying)
            numbers = sorted(number for held in near for number in self._by_residuals[held])
            work(5 * OBJECT * (len(self.axes) / 4 + len(numbers)))
            for number in numbers:
                if pair.meets(self._apart[number]):
                    yield scale, pair, self._apart[number], self._inverses[number]
