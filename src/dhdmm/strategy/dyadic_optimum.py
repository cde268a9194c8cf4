"""Prefixes or all ranges of a long attribute: the optimum over all strategies, nearly reached.

For these two workloads V⁻¹ is tridiagonal, and with x = log τ every root is an integral of inverses
of tridiagonal matrices, by the trapezoidal rule with step h:

    X   = (2/π) ∫ (V⁻¹ + τ²D)⁻¹ dτ          F = Σ_u d_u X_uu
    X⁻¹ = (2/π) ∫ (D⁻¹ + τ²V)⁻¹ dτ

so that dual weights climb as in optimum.py at a cost of n for each step. On an eigenvalue κ of
D^-½ V⁻¹ D^-½ the rule sums h·sech(x − ½ log κ)/(2√κ), which exceeds the integral by at most
2 e^(−π²/h)/(1 − e^(−π²/h)) of it (Poisson's formula), and leaving out large |x| lowers it: what is
computed bounds F from below once that is divided out.

The strategy is T·H of dyadic.py. A row of T regresses h_j x on the rows near it, x of covariance
X⁻¹: the best T of its pattern by Kullback and Leibler (Schäfer, Katzfuss and Owhadi, 2021). Inner
products h_j X⁻¹ h_k are differences of the field of prefix sums, whose covariance at two of n + 1
bounds of values is the same integral over (J + τ²·mass)⁻¹, J = Δᵀ D⁻¹ Δ tridiagonal. The weights
then climb on by the columns of this T, until they are equal.

d: dual weights; V, X, F: see optimum.py; τ: where the integrand is taken; Θ: H X⁻¹ Hᵀ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from dhdmm.strategy.climb import Climb, Judged, ascend
from dhdmm.strategy.dyadic import Dyadic, Halves
from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.probe import Booleans
from dhdmm.strategy.watch import Watch

FINE, MARGIN = 0.6, 14.0
"""Step of the rule, and how far beyond the eigenvalues it goes, for the bound."""
COARSE, SMALL_MARGIN = 0.9, 8.0
"""The same for covariances, where an error of 10⁻⁴ changes nothing that can be seen."""
CLOSE, STEPS = 1e-4, 60
"""When the climb over all strategies ends."""
EVEN, EVENING_STEPS = 6e-4, 8
"""When columns of T·H are equal enough."""
ROUNDING = 1e-9
"""Allowed for floating point: sums of n positive numbers, each from well-conditioned pivots."""
PINNED = 1e15
"""How firmly, relative to its neighbours, a sum that is known is held."""
CELLS_TOGETHER = 2**11
"""Half intervals whose decays are written out together."""
TOGETHER = 2**21
"""Entries of the matrices of rows that are solved together."""


@dataclass(frozen=True)
class Line:
    """All prefixes, or all ranges, of n values."""

    n: int
    is_all: bool

    @property
    def _unit(self) -> float:
        return 1 / (self.n + 1) if self.is_all else 1.0

    @cached_property
    def variances(self) -> Floats:
        """V_uu: how many queries hold a value."""
        u = np.arange(self.n)
        return np.asarray(((u + 1.0) if self.is_all else 1.0) * (self.n - u), np.float64)

    def nodes(self, d: Floats, step: float, margin: float) -> Floats:
        """τ, from below the smallest eigenvalue of D^-½ V⁻¹ D^-½ to above the largest."""
        low, high = 1 / (d @ self.variances), 4 * self._unit / d.min()
        ends = 0.5 * math.log(low) - margin, 0.5 * math.log(high) + margin
        return np.asarray(np.exp(np.arange(*ends, step)), np.float64)

    def columns(self, d: Floats) -> Floats:
        """X_uu, at most so much too large as the rule is."""
        diagonal, off = np.full(self.n, 2 * self._unit), np.full(self.n - 1, -self._unit)
        if not self.is_all:
            diagonal[0] = 1
        total = np.zeros(self.n)
        for tau in self.nodes(d, FINE, MARGIN):
            total += tau * inverse_diagonal(diagonal + tau**2 * d, off)
        return np.asarray(total * (FINE * 2 / math.pi))

    def bound(self, d: Floats) -> float:
        """At most F(d)."""
        excess = 2 / (math.exp(math.pi**2 / FINE) - 1)
        return math.fsum(d * self.columns(d)) / (1 + excess) * (1 - ROUNDING)

    def solve(self, watch: Watch) -> Floats:
        """Dual weights nearly of the largest F, from those of fewer values."""
        start = np.full(self.n, 1 / self.n)
        if self.n >= 1024:
            fewer = Line(self.n // 8, self.is_all).solve(watch)
            places = (np.arange(self.n) + 0.5) / self.n * len(fewer) - 0.5
            start = np.exp(np.interp(places, np.arange(len(fewer)), np.log(fewer)))
        peak = ascend(Climb(start / start.sum()), self._judge, watch, CLOSE, STEPS)
        return np.asarray(peak.q)

    def _judge(self, d: Floats) -> Judged[None]:
        x = self.columns(d)
        F = float(d @ x)
        return Judged(x / F, F * float(x.max()), F**2, None)


def inverse_diagonal(diagonal: Floats, off: Floats) -> Floats:
    """(M⁻¹)_uu of a tridiagonal matrix M, from its pivots from both ends."""
    forward, _, _ = lapack.dpttrf(diagonal, off)
    backward, _, _ = lapack.dpttrf(diagonal[::-1].copy(), off[::-1].copy())
    return np.asarray(1 / (forward + backward[::-1] - diagonal))


def flows(d: Floats, mass: Floats, end: Floats) -> Floats:
    """(τ, n + 1): what the bounds before each add to its pivot in J + mass.

    Without a difference: where J is nearly singular, pivots less 1/d would be rounding alone.
    """
    found = np.zeros((len(d) + 1, len(mass)))
    pivot = end
    for u, width in enumerate(d):
        found[u + 1] = pivot / (1 + pivot * width)
        pivot = found[u + 1] + mass
    return np.ascontiguousarray(found.T)


class Field:
    """Covariances Θ of the rows of H for given dual weights."""

    def __init__(self, line: Line, d: Floats, halves: Halves) -> None:
        self.halves = halves
        tau = line.nodes(d, COARSE, SMALL_MARGIN)
        mass = tau**2 * (line.n + 1 if line.is_all else 1)
        # the sum over no value is 0; all ranges tell differences of sums alone
        end = mass if line.is_all else np.full(len(tau), PINNED / d[0])
        left, right = flows(d, mass, end), flows(d[::-1], mass, mass)[:, ::-1]
        at_ends = np.zeros((len(tau), line.n + 1))
        at_ends[:, 0] = end - mass
        self._own = tau[:, None] * COARSE * 2 / math.pi / (left + right + mass[:, None] + at_ends)
        lost = np.log1p((left + mass[:, None] + at_ends)[:, :-1] * d)
        self._decay = np.concatenate([np.zeros((len(tau), 1)), -np.cumsum(lost, axis=1)], axis=1)

    def near(self, level: int, wider: int) -> Floats:
        """(k, 4·reach + 1): Θ of every row of a level with those of a wider one around it."""
        around = np.arange(-4 * self.halves.reach, 4 * self.halves.reach + 3)
        if level == wider:
            ends = self._differences_within(level, around)
        else:
            ends = self._differences(level, wider, around)
        return np.asarray(2 * ends[:, 1::2] - ends[:, :-1:2] - ends[:, 2::2])

    def _bounds(self, level: int, place: Integers) -> Integers:
        """The bounds of values with these numbers, counted in half intervals of a level."""
        return np.asarray(np.clip(place << (level - 1), 0, self.halves.n))

    def _differences_within(self, level: int, around: Integers) -> Floats:
        """Covariances of a level's rows with the sums before the bounds around them."""
        k = np.arange(self.halves.counts[level])[:, None]
        a, b = self._bounds(level, 2 * k + np.arange(3)), self._bounds(level, 2 * k + around)
        a, b = np.broadcast_arrays(a[:, :, None], b[:, None, :])
        upper, total = np.maximum(a, b), np.zeros(a.shape)
        for own, decay in zip(self._own, self._decay, strict=True):
            total += own[upper] * np.exp(-np.abs(decay[a] - decay[b]))
        return np.asarray(2 * total[:, 1] - total[:, 0] - total[:, 2])

    def _differences(self, level: int, wider: int, around: Integers) -> Floats:
        """The same for bounds of a wider level, of which none is inside an interval.

        So for each τ it is what the interval has at the next bound, times what decays from there,
        which is the same for all intervals between two bounds.
        """
        halves, own, decay = self.halves, self._own, self._decay
        k, shift = np.arange(halves.counts[level]), wider - 1 - level
        low, middle, high = (self._bounds(level, 2 * k + i) for i in range(3))
        at_middle = np.exp(decay[:, middle] - decay[:, low])
        at_high = np.exp(decay[:, high] - decay[:, low])
        before, after = (self._bounds(wider, (k >> shift) + i) for i in range(2))
        to_left = 2 * own[:, middle] * at_middle - own[:, low] - own[:, high] * at_high
        to_left *= np.exp(decay[:, low] - decay[:, before])
        with np.errstate(under="ignore"):
            to_right = 2 * np.exp(decay[:, high] - decay[:, middle]) - at_high - 1
        to_right *= np.exp(decay[:, after] - decay[:, high])
        cells = 1 + (len(k) - 1 >> shift)
        padded = np.zeros((2 * len(own), cells << shift))
        padded[:, : len(k)] = np.concatenate([to_left, to_right])
        mine, parts = padded.T.reshape(cells, -1, 2 * len(own)), []
        for start in range(0, cells, CELLS_TOGETHER):
            part = np.arange(start, min(start + CELLS_TOGETHER, cells))
            parts.append(mine[part] @ self._decays(wider, part, around))
        return np.concatenate(parts).reshape(-1, len(around))[: len(k)]

    def _decays(self, level: int, cells: Integers, around: Integers) -> Floats:
        """(half intervals, 2 · τ, bounds): to the bounds on the left, then on the right."""
        own, decay = self._own, self._decay
        cell = cells[:, None]
        place = 2 * (cell >> 1) + around
        bound = self._bounds(level, place)
        first, last = self._bounds(level, cell), self._bounds(level, cell + 1)
        left = np.exp(np.minimum(decay[:, first] - decay[:, bound], 0)) * (place <= cell)
        right = np.exp(np.minimum(decay[:, bound] - decay[:, last], 0)) * (place > cell)
        both = np.concatenate([left, right * own[:, bound]])
        return np.asarray(both.transpose(1, 0, 2))


def regressed(field: Field) -> Dyadic:
    """T, row by row."""
    halves = field.halves
    levels = halves.levels
    near = {(m, w): field.near(m, w) for m in levels for w in range(m, halves.top + 1)}
    return Dyadic(halves, tuple(_level(halves, near, m) for m in levels))


def _level(halves: Halves, near: dict[tuple[int, int], Floats], level: int) -> Floats:
    """The entries of a level's rows."""
    slots = [slot for slot in halves.slots(level) if np.any(slot[3])]
    found = np.zeros(halves.shape(level))
    step = max(1, TOGETHER // len(slots) ** 2)
    for start in range(0, halves.counts[level], step):
        part = slice(start, start + step)
        inside = np.stack([s[3][part] for s in slots])
        place = np.stack([s[2][part] for s in slots])
        theta = _together(halves, near, [s[0] for s in slots], place, inside)
        own = next(i for i, s in enumerate(slots) if s[0] == level and s[1] == halves.reach)
        unit = np.zeros((len(slots), 1))
        unit[own] = 1
        row = np.linalg.solve(theta, np.broadcast_to(unit, (*theta.shape[:2], 1)))[:, :, 0]
        row /= np.sqrt(row[:, own])[:, None]
        for i, (wider, o, _, _) in enumerate(slots):
            found[wider - level, o, part] = np.where(inside[i], row[:, i], 0)
    return found


def _together(
    halves: Halves,
    near: dict[tuple[int, int], Floats],
    levels: list[int],
    place: Integers,
    inside: Booleans,
) -> Floats:
    """Θ of what is near each of some rows, (rows, slots, slots); 1 where there is nothing."""
    wide, r = np.array(levels), halves.reach
    theta = np.zeros((place.shape[1], len(levels), len(levels)))
    for i, m in enumerate(levels):
        j = np.where(inside[i], place[i], 0)
        for w in range(m, halves.top + 1):
            others = slice(*np.searchsorted(wide, [w, w + 1]))
            both = inside[i] & inside[others]
            o = np.where(both, place[others] - (j >> (w - m)) + 2 * r, 0)
            value = (near[m, w][j, o] * both).T
            theta[:, i, others] = theta[:, others, i] = value
    missing, row = np.nonzero(~inside)
    theta[row, missing, missing] = 1
    return theta


@dataclass(frozen=True, eq=False)
class DyadicOptimum:
    """T·H with nearly equal columns, and the bound for every strategy."""

    matrix: Dyadic
    bound: float
    """Of F."""
    ratio: float
    """Of the longest column to the mean."""


def optimum(line: Line, reach: int, watch: Watch) -> DyadicOptimum:
    d = line.solve(watch.part(0.3))
    halves = Halves(line.n, reach)

    def judge(d: Floats) -> Judged[Dyadic]:
        matrix = regressed(Field(line, d, halves))
        norms = np.asarray(matrix.squared_norms, np.float64)
        x = norms / float(d @ norms)
        return Judged(x, float(x.max()), 1.0, matrix)

    peak = ascend(Climb(d), judge, watch, EVEN, EVENING_STEPS)
    return DyadicOptimum(peak.found, line.bound(d), math.sqrt(peak.achieved))


def rounded(matrix: Dyadic, bits: int) -> Dyadic:
    """T scaled so that its diagonal has about so many bits, in integers; columns nearly equal."""
    scale = 2**bits / math.sqrt(float(np.square(matrix.diagonal).mean()))
    rows = tuple(np.rint(entries * scale).astype(np.int64) for entries in matrix.rows)
    for entries in rows:
        diagonal = entries[0, matrix.halves.reach]
        diagonal[diagonal == 0] = 1  # a zero would lose a query
    return _levelled(Dyadic(matrix.halves, rows))


def _levelled(matrix: Dyadic) -> Dyadic:
    """Columns that rounding made too long or short are changed by the narrowest interval's entry.

    It is the last of a column's many entries that concerns no other columns but one, and what it
    loses by not being the best is of second order.
    """
    halves, k = matrix.halves, np.arange(matrix.halves.counts[1])
    norms = np.asarray(matrix.squared_norms, np.float64)
    longer = np.maximum(norms[2 * k], norms[2 * k + 1])
    own = matrix.rows[0][0, halves.reach]
    others = np.zeros(len(k))  # of the row's entry in both columns, what T has besides `own`
    for m in range(2, halves.top + 1):
        inside = (k >> (m - 1)) < halves.counts[m]
        entry = np.where(inside, matrix.rows[0][m - 1, halves.reach], 0)
        others += entry * halves.signs(2 * k, m)
    slope = 2 * np.maximum(own - np.abs(others), own / 2)
    change = np.clip(np.ceil((longer - norms.mean()) / slope), -(own // 3), own // 3)
    first = matrix.rows[0].copy()
    first[0, halves.reach] = np.maximum(own - change.astype(np.int64), 1)
    return Dyadic(halves, (first, *matrix.rows[1:]))
