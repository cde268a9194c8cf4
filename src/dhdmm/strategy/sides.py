"""One block of a workload with too many cells, solved for dual weights that are a product.

With d = ⊗ d_a, one vector per attribute, a block needs no cells: its X is a Kronecker product of
*sides*, each over some of its axes. An axis on which all summands of V agree is a side by itself,
and nothing is lost. So are others if the block is too large otherwise and one summand has all its
rows; then each X is the best one for the other sides as they are. The remaining axes are one side,
the core.

A side has an integer basis B of its row space, never written out: inner products of Kronecker rows
are products of one small table per axis. With L Lᵀ = B Bᵀ its coordinates are orthonormal, H is V
and D is diag d in them, X minimises tr(H X⁻¹) + tr(D X). Axes outside the block enter as vectors of
ones, residuals as the numbers λ and d.

trace: tr(V X⁺); mean: Σ_u d_u X_uu, both of the whole block. Scaled best they are equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg

from dhdmm.effort import allocate
from dhdmm.strategy.block_basis import BasisBuilder, TooLarge
from dhdmm.strategy.blocks import Block, Residual, Side
from dhdmm.strategy.contrast import well_balanced
from dhdmm.strategy.integer import RealBlock, Rounded, Rounder, contrast_scale, rounded_triangle
from dhdmm.strategy.matrix import Floats
from dhdmm.strategy.optimum import lowered_roots, root, weighted_root
from dhdmm.strategy.symmetry import BlockGram, Reduction

LARGEST_TABLE = 2**23
"""Combinations of orbits on which a squared column may depend."""
LONGEST = 3000
"""Rows of a side over one axis."""
Pair = tuple[int, int]
Weights = Sequence[Floats]
"""Mass of d on every orbit of every attribute, each summing to 1."""


class SideProblem:
    """One side: its basis, V for every combination of factors, and the X found last."""

    def __init__(
        self,
        reduction: Reduction,
        builder: BasisBuilder,
        block: BlockGram,
        keys: Sequence[tuple[Pair, ...]],
    ) -> None:
        basis = builder.basis(block)
        allocate(6 * len(basis.ids) ** 2)
        varying = [i for i in range(len(block.axes)) if np.any(basis.ids[:, i])]
        self.outside = [a for i, a in enumerate(block.axes) if i not in varying]
        """Axes along which all of its rows are constant."""
        self.axes = tuple(block.axes[i] for i in varying)
        self.basis = replace(basis, ids=basis.ids[:, varying])
        self.reduction = reduction
        different = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        self.place = np.array([different[key] for key in keys])
        """Which V each summand of the block has here."""
        self.vectors = [builder.books[a].vectors.astype(np.float64) for a in self.axes]
        sizes = [reduction.axes[a].sizes.astype(np.float64) for a in range(len(reduction.axes))]
        volume = math.prod(float(sizes[a].sum()) for a in self.outside)
        self.L = linalg.cholesky(self._combined([np.diag(sizes[a]) for a in self.axes]), lower=True)
        self.L *= math.sqrt(volume)
        self.V = [self._workload(dict(zip(block.axes, key, strict=True))) for key in different]
        self.X = self.D = np.eye(len(self.L))

    def _table(self, i: int, gram: Floats) -> Floats:
        """v_iᵀ G v_j for the vectors of one axis that the basis names."""
        used, place = np.unique(self.basis.ids[:, i], return_inverse=True)
        table = self.vectors[i][used] @ gram @ self.vectors[i][used].T
        return np.asarray(table[np.ix_(place.ravel(), place.ravel())])

    def _combined(self, grams: Sequence[Floats]) -> Floats:
        """B (⊗ G) Bᵀ."""
        total = np.ones((len(self.basis.ids),) * 2)
        for i, gram in enumerate(grams):
            total *= self._table(i, gram)
        if self.basis.is_plain:
            return total
        return np.asarray(self.basis.combine @ np.asarray(self.basis.combine @ total).T)

    def _workload(self, pairs: dict[int, Pair]) -> Floats:
        """V in orthonormal coordinates, for one combination of factors."""
        axes = self.reduction.axes
        number = math.prod(float(axes[a].summed[pairs[a]].sum()) for a in self.outside)
        return self._whiten(
            number
            * self._combined([axes[a].summed[pairs[a]].astype(np.float64) for a in self.axes])
        )

    def _whiten(self, M: Floats) -> Floats:
        """L⁻¹ M L⁻ᵀ."""
        half = linalg.solve_triangular(self.L, (M + M.T) / 2, lower=True)
        return np.asarray(linalg.solve_triangular(self.L, half.T, lower=True))

    def weigh(self, d: Weights) -> None:
        self.D = self._whiten(self._combined([np.diag(d[a]) for a in self.axes]))

    def mixed(self, coefficients: Floats) -> Floats:
        """Σ c V over the block's summands."""
        shares = np.bincount(self.place, coefficients, len(self.V))
        return np.asarray(sum(c * V for c, V in zip(shares, self.V, strict=True)))

    def solve(self, coefficients: Floats) -> None:
        """The best X for Σ c V, scaled so that its mean is 1."""
        self.X = weighted_root(self.mixed(coefficients), self.D)
        self.X = self.X / float(np.sum(self.X * self.D))

    def root_trace(self, coefficients: Floats) -> float:
        """tr (D^½ Σ c V D^½)^½, rounding errors subtracted."""
        half = linalg.cholesky(self.D, lower=True)
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
        half = linalg.solve_triangular(self.L, self.X, lower=True, trans="T")
        return np.asarray(linalg.solve_triangular(self.L, half.T, lower=True, trans="T"))

    def marginals(self, d: Weights) -> dict[int, Floats]:
        """For every axis: X_uu given u's orbit there, averaged over the others by d."""
        C = self.basis.written_out
        full = self.S if self.basis.is_plain else C.T @ self.S @ C
        tables = [self._table(i, np.diag(d[a])) for i, a in enumerate(self.axes)]
        found: dict[int, Floats] = {}
        for i, a in enumerate(self.axes):
            rest = full * math.prod(tables[:i] + tables[i + 1 :], start=np.ones(()))
            used, place = np.unique(self.basis.ids[:, i], return_inverse=True)
            gathered = np.zeros((len(used), len(used)))
            np.add.at(gathered, np.ix_(place.ravel(), place.ravel()), rest)
            vectors = self.vectors[i][used]
            found[a] = np.einsum("iu,iu->u", vectors, gathered @ vectors)
        return found

    def integer(self, T: Floats) -> tuple[Side, Floats]:
        """The side with T rounded, and its trace for every summand."""
        rounded = rounded_triangle(T)
        half = rounded @ self.L  # A = T·B in orthonormal coordinates
        return Side(self.axes, self.basis, rounded), self.traces(np.asarray(half.T @ half))


@dataclass(frozen=True, eq=False)
class Split:
    """A block and what its sides are over; the last is the core."""

    block: BlockGram
    sides: list[BlockGram]
    is_exact: bool
    """Whether no X of the block is better for d: what its sides share is a single Gram each."""

    @classmethod
    def of(cls, reduction: Reduction, builder: BasisBuilder, block: BlockGram, most: int) -> Split:
        """With sides of at most so many rows."""
        varying = builder.varying(block)
        alike = {a for i, a in enumerate(block.axes) if len({k[i] for k in block.pairs}) == 1}
        groups = [(a,) for a in block.axes if a in alike & varying]
        core = tuple(a for a in block.axes if (a,) not in groups)
        whole = len(core)
        apart = core if builder.is_full(part_of(block, core)) else ()
        for a in sorted(apart, key=lambda a: len(reduction.axes[a].sizes)):
            if builder.rank_bound(part_of(block, core)) > most:
                groups.append((a,))
                core = tuple(b for b in core if b != a)
        is_exact = len(core) == whole
        if groups and varying.isdisjoint(core):
            core = (*core, *groups.pop())
        sides = [part_of(block, axes) for axes in (*groups, core)]
        if builder.widest(block) > LARGEST_TABLE:
            raise TooLarge("columns depend on too many different cells")
        if any(builder.rank_bound(s) > (most if len(s.axes) > 1 else LONGEST) for s in sides):
            raise TooLarge("a block has too many rows")
        return cls(block, sides, is_exact)

    def rank(self, builder: BasisBuilder) -> int:
        rows = math.prod(builder.basis(side).rows for side in self.sides)
        return self.block.multiplicity * rows


@dataclass(eq=False)
class Component:
    """A block with its sides; `contribution` is its trace and its mean, scaled best."""

    reduction: Reduction
    block: BlockGram
    sides: list[SideProblem]
    is_exact: bool
    trace: float = 0.0
    mean: float = 0.0

    @classmethod
    def of(cls, reduction: Reduction, builder: BasisBuilder, split: Split) -> Component:
        block, sides = split.block, []
        for part in split.sides:
            held = [i for i, a in enumerate(block.axes) if a in part.axes]
            keys = [tuple(key[i] for i in held) for key in block.pairs]
            sides.append(SideProblem(reduction, builder, part, keys))
        return cls(reduction, block, sides, split.is_exact)

    @property
    def contribution(self) -> float:
        return self.reduction.objective.contribution(self.trace, self.mean)

    def solve(self, d: Weights) -> None:
        """Sides in turn, each for the others as they are; the core last."""
        axes = self.reduction.axes
        numbers = [float(d[a][o]) / float(axes[a].sizes[o]) for a, o in self.block.residuals]
        for side in self.sides:
            side.weigh(d)
        for i, side in enumerate(self.sides):
            side.solve(
                self._coefficients(i, len(self.sides)) if self.trace else self._coefficients(i, i)
            )
        self.trace = self.block.multiplicity * self._trace([s.traces() for s in self.sides])
        self.mean = self.block.multiplicity * math.prod(numbers) / self.others

    @cached_property
    def others(self) -> int:
        """Values of the attributes in which the block is constant: its rows hold ones there."""
        axes, held = self.reduction.axes, {*self.block.axes, *dict(self.block.residuals)}
        return math.prod(len(axis.orbit) for a, axis in enumerate(axes) if a not in held)

    @property
    def root_trace(self) -> float:
        """tr (D^½ V D^½)^½ on all copies of the block, or less, where it is known exactly."""
        *alike, core = self.sides
        one = [side.root_trace(np.eye(len(self._weights))[0]) for side in alike]
        roots = math.prod([*one, core.root_trace(self._weights)])
        return math.sqrt(self.mean * self.block.multiplicity) * roots if self.is_exact else 0.0

    def _trace(self, sides: Sequence[Floats]) -> float:
        """Σ c · ∏ tr(V X⁺) over the sides, for one copy of the residuals."""
        return float(math.prod(sides, start=self._weights).sum())

    @property
    def _weights(self) -> Floats:
        """c of every summand."""
        return np.array(list(self.block.pairs.values()))

    def _coefficients(self, own: int, solved: int) -> Floats:
        """What multiplies a summand's V on one side; sides not solved yet count by their mean."""
        total = self._weights
        for i, side in enumerate(self.sides):
            if i != own:
                total = total * (side.traces() if i < solved else side.mean_eigenvalues())
        return total

    def marginals(self, d: Weights) -> dict[int, Floats]:
        """For every axis where it varies: X_uu given u's orbit, scaled best, over its mean."""
        found = {a: x for side in self.sides for a, x in side.marginals(d).items()}
        for a, o in self.block.residuals:
            found[a] = np.zeros(len(d[a]))
            found[a][o] = 1 / d[a][o]
        return found

    def round(self, scale: float, total: float) -> Rounded:
        """Integers at one scale; `total` is the sum of all contributions."""
        axes, objective = self.reduction.axes, self.reduction.objective
        parts = tuple((a, o, int(axes[a].sizes[o])) for a, o in self.block.residuals)
        # X is wanted with Σ_b mean = 1, so that with equal columns the largest is 1
        best = objective.scale(self.trace, self.mean) / total / self.others
        triangles = [linalg.cholesky((S + S.T) / 2) for S in (s.S for s in self.sides)]
        if len(self.sides) == 1:
            return self._round_core(parts, triangles[0] * math.sqrt(best), scale, total)
        chosen = [well_balanced(n)[-1] for _, _, n in parts]
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
        self, parts: tuple[tuple[int, int, int], ...], T: Floats, scale: float, total: float
    ) -> Rounded:
        side, objective = self.sides[0], self.reduction.objective
        H = side.mixed(self._weights) / self.others
        inverse = linalg.solve_triangular(side.L, np.eye(len(side.L)), lower=True)
        P = side.L @ side.D @ side.L.T * (self.mean * self.others / self.block.multiplicity)
        C, P = root(H) @ inverse, np.asarray(P)
        real = RealBlock(parts, side.axes, side.basis, T, C, P, self.block.others)
        return Rounder(real, objective.bound(total), objective).round(scale)


def part_of(block: BlockGram, axes: tuple[int, ...]) -> BlockGram:
    """The block on some of its axes only."""
    held = [i for i, a in enumerate(block.axes) if a in axes]
    shape = tuple(block.shape[i] for i in held)
    return replace(block, axes=tuple(block.axes[i] for i in held), shape=shape)
