"""One component of a workload with too many cells, solved for dual weights that are a product.

With d = ⊗ d_a, one vector per attribute, a component needs no cells: its X is a Kronecker product
of *sides* (split.py), each over some of its axes and the best one for the others as they are. In
the orthonormal coordinates of rows.py H is V and D is diag d, and X minimises tr(H X⁻¹) + tr(D X).
Axes outside the component enter as vectors of ones, residuals as the numbers λ and d.

trace: tr(V X⁺); mean: Σ_u d_u X_uu, both of the whole component. Scaled best they are equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from dhdmm.strategy.basis import Basis
from dhdmm.strategy.block_basis import BasisBuilder
from dhdmm.strategy.blocks import Block, Residual, Side
from dhdmm.strategy.contrast import Nest, level, well_balanced
from dhdmm.strategy.integer import RealBlock, Rounded, Rounder, contrast_scale, rounded_triangle
from dhdmm.strategy.matrix import Floats
from dhdmm.strategy.optimum import lowered_roots, root, weighted_root
from dhdmm.strategy.rows import Pair, Rows
from dhdmm.strategy.split import Split
from dhdmm.strategy.symmetry import BlockGram, Reduction

LEAST = 1e-6
"""An eigenvalue of V, relative to their mean, below which rows are not needed."""
Weights = Sequence[Floats]
"""Mass of d on every orbit of every attribute, each summing to 1."""


class SideProblem(Rows):
    """One side: V for every combination of factors, and the X found last."""

    def __init__(
        self,
        reduction: Reduction,
        builder: BasisBuilder,
        axes: tuple[int, ...],
        basis: Basis,
        keys: Sequence[tuple[Pair, ...]],
        weights: Sequence[float] | None,
    ) -> None:
        """With weights all summands are one V."""
        super().__init__(reduction, builder.books, axes, basis)
        if weights is not None:
            self.place = np.zeros(1, np.int64)
            self.V = [self.workload(axes, list(zip(keys, weights, strict=True)))]
        else:
            different = {key: number for number, key in enumerate(dict.fromkeys(keys))}
            self.place = np.array([different[key] for key in keys])
            """Which V each summand of the block has here."""
            self.V = [self.workload(axes, [(key, 1.0)]) for key in different]
        self.X = self.D = np.eye(len(self.L))

    def weighed(self, d: Weights) -> Floats:
        """D for these dual weights."""
        return self.whiten(self.inner([np.diag(d[a]) for a in self.axes]))

    def mixed(self, coefficients: Floats) -> Floats:
        """Σ c V over the block's summands."""
        shares = np.bincount(self.place, coefficients, len(self.V))
        return np.asarray(sum(c * V for c, V in zip(shares, self.V, strict=True)))

    def solve(self, coefficients: Floats) -> None:
        """The best X for Σ c V, scaled so that its mean is 1."""
        V = self.mixed(coefficients)
        least = LEAST * np.trace(V) / len(V)  # all rows of the basis are measured, if only a little
        self.X = weighted_root(V + least * np.eye(len(V)), self.D)
        self.X = self.X / float(np.sum(self.X * self.D))

    def root_trace(self, coefficients: Floats, D: Floats) -> float:
        """tr (D^½ Σ c V D^½)^½, rounding errors subtracted."""
        half = linalg.cholesky(D, lower=True)
        return math.fsum(lowered_roots(half.T @ self.mixed(coefficients) @ half))

    def traces(self, X: Floats | None = None) -> Floats:
        """tr(V X⁺) of every summand."""
        inverse = linalg.inv(self.X if X is None else X)
        return np.asarray(np.array([np.sum(V * inverse) for V in self.V])[self.place])

    def mean_eigenvalues(self) -> Floats:
        """tr V / rank of every summand."""
        return np.asarray(np.array([np.trace(V) / len(V) for V in self.V])[self.place])

    @property
    def S(self) -> Floats:
        """X = Bᵀ S B."""
        return np.asarray(self.inverse.T @ self.X @ self.inverse)

    def integer(self, T: Floats) -> tuple[Side, Floats]:
        """The side with T rounded, and its trace for every summand."""
        rounded = rounded_triangle(T)
        half = rounded @ self.L  # A = T·B in orthonormal coordinates
        return Side(self.axes, self.basis, rounded), self.traces(np.asarray(half.T @ half))


@dataclass(eq=False)
class Component:
    """Its sides, solved for dual weights; `contribution` is its trace and its mean, scaled best."""

    reduction: Reduction
    split: Split
    sides: list[SideProblem]
    numbers: Floats
    """c of every summand; with one side they are inside its V."""
    trace: float = 0.0
    mean: float = 0.0

    @classmethod
    def of(cls, reduction: Reduction, builder: BasisBuilder, split: Split) -> Component:
        pairs, alone = split.pairs, len(split.sides) == 1
        weights = list(pairs.values()) if alone else None
        sides = []
        for axes, basis in split.sides:
            held = [i for i, a in enumerate(split.block.axes) if a in axes]
            keys = [tuple(key[i] for i in held) for key in pairs]
            sides.append(SideProblem(reduction, builder, axes, basis, keys, weights))
        return cls(reduction, split, sides, np.array([1.0] if alone else list(pairs.values())))

    @property
    def is_needed(self) -> bool:
        """Whether V is not zero here: of a sum of products the summands may cancel."""
        least = 1e-12 * math.fsum(abs(c) for c in self.split.block.pairs.values())
        return self._trace([side.traces(np.eye(len(side.L))) for side in self.sides]) > least

    @property
    def block(self) -> BlockGram:
        return self.split.block

    @property
    def contribution(self) -> float:
        return self.reduction.objective.contribution(self.trace, self.mean)

    def solve(self, d: Weights) -> None:
        """Sides in turn, each for the others as they are; the core last."""
        for side in self.sides:
            side.D = side.weighed(d)
        for i, side in enumerate(self.sides):
            side.solve(
                self._coefficients(i, len(self.sides)) if self.trace else self._coefficients(i, i)
            )
        self.trace = self.block.multiplicity * self._trace([s.traces() for s in self.sides])
        self.mean = self._mean(d)

    def _mean(self, d: Weights) -> float:
        """With sides of mean 1."""
        axes = self.reduction.axes
        orbits = ((a, axes[a].tree.orbit_of(part)) for a, part in self.block.residuals)
        numbers = [float(d[a][o]) / float(axes[a].sizes[o]) for a, o in orbits]
        return self.block.multiplicity * math.prod(numbers) / self.others

    @cached_property
    def others(self) -> int:
        """Values of the attributes in which the block is constant: its rows hold ones there."""
        axes, held = self.reduction.axes, {*self.block.axes, *dict(self.block.residuals)}
        return math.prod(len(axis.orbit) for a, axis in enumerate(axes) if a not in held)

    def root_trace(self, d: Weights) -> float:
        """tr (D^½ V D^½)^½ on all copies of the component, of which every side has one Gram."""
        *alike, core = self.sides
        one = np.eye(len(self.numbers))[0]
        roots = [side.root_trace(one, side.weighed(d)) for side in alike]
        roots.append(core.root_trace(self.numbers, core.weighed(d)))
        return math.sqrt(self._mean(d) * self.block.multiplicity) * math.prod(roots)

    def _trace(self, sides: Sequence[Floats]) -> float:
        """Σ c · ∏ tr(V X⁺) over the sides, for one copy of the residuals."""
        return float(math.prod(sides, start=self.numbers).sum())

    def _coefficients(self, own: int, solved: int) -> Floats:
        """What multiplies a summand's V on one side; sides not solved yet count by their mean."""
        total = self.numbers
        for i, side in enumerate(self.sides):
            if i != own:
                total = total * (side.traces() if i < solved else side.mean_eigenvalues())
        return total

    def marginals(self, d: Weights) -> dict[int, Floats]:
        """For every axis where it varies: X_uu given u's orbit, scaled best, over its mean."""
        found = {a: x for side in self.sides for a, x in side.marginals(side.S, d).items()}
        for a, part in self.block.residuals:
            o = self.reduction.axes[a].tree.orbit_of(part)
            found[a] = np.zeros(len(d[a]))
            found[a][o] = 1 / d[a][o]
        return found

    def round(self, scale: float, total: float) -> Rounded:
        """Integers at one scale; `total` is the sum of all contributions."""
        axes, objective = self.reduction.axes, self.reduction.objective
        parts = tuple((a, p, axes[a].tree.existing(p)) for a, p in self.block.residuals)
        # X is wanted with Σ_b mean = 1, so that with equal columns the largest is 1
        best = objective.scale(self.trace, self.mean) / total / self.others
        triangles = [linalg.cholesky((S + S.T) / 2) for S in (s.S for s in self.sides)]
        if len(self.sides) == 1:
            return self._round_core(parts, triangles[0] * math.sqrt(best), scale, total)
        options = [well_balanced(nest) for _, _, nest in parts]
        chosen = [(level(few) if self.block.others else few)[-1] for few in options]
        largest = [float(np.abs(T).max()) for T in triangles]
        amplitude = scale * math.sqrt(best) * math.prod(largest)
        amplitude /= math.prod(contrast_scale(contrast) for contrast in chosen)
        unit = amplitude ** (1 / len(self.sides))
        rounded = [
            side.integer(T * (unit / top))
            for side, T, top in zip(self.sides, triangles, largest, strict=True)
        ]
        residuals = tuple(Residual(a, o, c) for (a, o, _), c in zip(parts, chosen, strict=True))
        block = Block(residuals, tuple(side for side, _ in rounded), self.block.others)
        inverse = math.prod(contrast.inverse_trace for contrast in chosen)
        return Rounded(block, self._trace([t for _, t in rounded]) / self.others * inverse)

    def _round_core(
        self, parts: tuple[tuple[int, int, Nest], ...], T: Floats, scale: float, total: float
    ) -> Rounded:
        side, objective = self.sides[0], self.reduction.objective
        H = side.mixed(self.numbers) / self.others
        P = side.L @ side.D @ side.L.T * (self.mean * self.others / self.block.multiplicity)
        C = root(H) @ side.inverse
        real = RealBlock(parts, side.axes, side.basis, T, C, np.asarray(P), self.block.others)
        return Rounder(real, objective.bound(total), objective).round(scale)
