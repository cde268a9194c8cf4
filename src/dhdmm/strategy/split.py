"""How a block that is not written out over its cells falls into components, and these into sides.

A component is measured by a Kronecker product of *sides*, each with a basis over some axes.

- An axis on which all summands of V agree is a side by itself, and nothing is lost by that.
- The other axes are one side, the core. If that has too many rows, and one summand alone has all
  the rows that there could be, each axis is a side.
- Otherwise the block is cut. The vectors over an axis are the multiples of 1 and those that sum to
  zero; a set S of axes names the vectors that sum to zero over each axis in S and are constant in
  all others. Small sets stay together, as they were; each large one is a component, and its axes
  are sides. X then does not mix components, V may.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from dhdmm.effort import OBJECT, work
from dhdmm.strategy import sizes
from dhdmm.strategy.basis import Basis, concatenate
from dhdmm.strategy.block_basis import BasisBuilder, TooLarge
from dhdmm.strategy.matrix import Integers
from dhdmm.strategy.symmetry import BlockGram

Key = tuple[tuple[int, int], ...]
Pairs = dict[Key, float]
Axes = tuple[int, ...]
Spans = Mapping[int, Integers]
"""For every axis of a set the numbers of vectors that span it."""


@dataclass(frozen=True, eq=False)
class Split:
    """A component: the block that it is part of, and its sides."""

    block: BlockGram
    pairs: Pairs
    """The block's summands that are not zero here."""
    sides: list[tuple[Axes, Basis]]
    """The last is the core."""
    is_exact: bool
    """Whether no X of the block is better for d: what its sides share is a single Gram each."""
    is_closed: bool
    """The same for equal weights."""
    is_minimal: bool = True
    """Whether all components of the block together have no more rows than W has there."""

    @property
    def rows(self) -> int:
        return self.block.multiplicity * math.prod(basis.rows for _, basis in self.sides)


def split(builder: BasisBuilder, block: BlockGram) -> list[Split]:
    """The components of a block; without a cut it is one."""
    try:
        return [_whole(builder, block)]
    except TooLarge:
        return _cut(builder, block)


def _whole(builder: BasisBuilder, block: BlockGram) -> Split:
    varying = builder.varying(block)
    groups = [(a,) for a in _alike(block.axes, block.pairs) if a in varying]
    core = tuple(a for a in block.axes if (a,) not in groups)
    whole = len(core)
    apart = core if builder.is_full(part_of(block, core)) else ()
    for a in sorted(apart, key=lambda a: block.shape[block.axes.index(a)]):
        if builder.rank_bound(part_of(block, core)) > sizes.ROWS_OVER_AXES:
            groups.append((a,))
            core = tuple(b for b in core if b != a)
    is_exact = len(core) == whole
    if groups and varying.isdisjoint(core):
        core = (*core, *groups.pop())
    sides = [part_of(block, axes) for axes in (*groups, core)]
    if builder.widest(block) > sizes.TABLE:
        raise TooLarge("columns depend on too many different cells")
    if any(
        builder.rank_bound(s) > (sizes.ROWS_OVER_AXES if len(s.axes) > 1 else sizes.ROWS_OVER_AXIS)
        for s in sides
    ):
        raise TooLarge("a block has too many rows")
    return Split(block, block.pairs, [(s.axes, builder.basis(s)) for s in sides], *[is_exact] * 2)


def _alike(axes: Axes, pairs: Iterable[tuple[tuple[int, int], ...]]) -> Axes:
    """Axes on which all summands have the same Gram."""
    different = zip(*pairs, strict=True)
    return tuple(a for a, grams in zip(axes, different, strict=True) if len(set(grams)) == 1)


def _cut(builder: BasisBuilder, block: BlockGram) -> list[Split]:
    """Sets that V mixes are one component as far as they are small."""
    seen = {S: _spans(builder, block, S) for S in _sets(builder, block)}
    sets = {S: spans for S, spans in seen.items() if all(map(len, spans.values()))}
    minimal = all(_is_spanned(builder, block, S, spans) for S, spans in sets.items())
    return [
        replace(component, is_minimal=minimal)
        for group in _mixed(builder, block, sets)
        for component in _group(builder, block, {S: sets[S] for S in group})
    ]


def _is_spanned(builder: BasisBuilder, block: BlockGram, S: Axes, spans: Spans) -> bool:
    """Whether some table alone has all rows of the set: queries for each of its vectors."""
    return any(
        all(
            i == j and builder.books[a].splits(i) for a, (i, j) in zip(block.axes, key, strict=True)
        )
        and all(
            len(builder.books[a].zero_sum_spanning((i,))) == len(spans[a])
            for a, (i, _) in zip(block.axes, key, strict=True)
            if a in S
        )
        for key in block.pairs
        if _sees(builder, block, key, S)
    ) and not any(len(term.indices) > 1 for term in builder.reduction.terms)


def _group(builder: BasisBuilder, block: BlockGram, sets: Mapping[Axes, Spans]) -> list[Split]:
    rows = {S: math.prod(len(span) for span in spans.values()) for S, spans in sets.items()}
    together: list[Axes] = []
    for S in sorted(sets, key=lambda S: rows[S]):
        if sum(rows[T] for T in together) + rows[S] <= sizes.ROWS_TOGETHER and all(
            _volume(block, {*S, *T}) <= sizes.TABLE for T in [*together, S]
        ):
            together.append(S)
    if len(together) < 2:
        together = []
    alone = [_alone(builder, block, S, sets[S]) for S in sets if S not in together]
    joint = concatenate([_grid(block.axes, sets[S]) for S in together], len(block.axes))
    first = [Split(block, block.pairs, [(block.axes, joint)], False, True)] if together else []
    found = [*first, *alone]
    # V mixes the sets of a group, so the parts of several components are not all of it
    return found if len(found) == 1 else [replace(part, is_closed=False) for part in found]


def _mixed(builder: BasisBuilder, block: BlockGram, sets: Iterable[Axes]) -> list[list[Axes]]:
    """The sets in groups: V maps the vectors of a set to those of its group.

    A summand of two products maps what one of them sees to what the other sees.
    """
    group = {S: [S] for S in sets}
    for key in block.pairs:
        pairs = dict(zip(block.axes, key, strict=True))
        free = {a for a, (i, j) in pairs.items() if i != j or not builder.books[a].commutes((i, j))}
        products = [tuple((i, i) for i in product) for product in zip(*key, strict=True)]
        first: dict[frozenset[int], Axes] = {}
        for S in group:
            if any(_sees(builder, block, product, S) for product in products):
                one = group[first.setdefault(frozenset(S) - free, S)]
                if one is not group[S]:
                    one += group[S]
                    group.update((T, one) for T in group[S])
    return list({id(found): found for found in group.values()}.values())


def _alone(builder: BasisBuilder, block: BlockGram, S: Axes, spans: Spans) -> Split:
    """One set, its axes as sides; the axes in which it is constant are with the last one."""
    if _volume(block, S) > sizes.TABLE or any(
        len(span) > sizes.ROWS_OVER_AXIS for span in spans.values()
    ):
        raise TooLarge("columns depend on too many different cells")
    if not S:
        return Split(block, block.pairs, [(block.axes, _grid(block.axes, {}))], False, True)
    *others, last = S
    rest = tuple(a for a in block.axes if a not in others)
    sides = [((a,), _grid((a,), {a: spans[a]})) for a in others]
    core = (rest, _grid(rest, {last: spans[last]}))
    pairs = {key: c for key, c in block.pairs.items() if _sees(builder, block, key, S)}
    closed = set(S) <= set(_alike(block.axes, pairs)) and all(
        builder.books[a].commutes(pair)
        for key in pairs
        for a, pair in zip(block.axes, key, strict=True)
        if a in S
    )
    return Split(block, pairs, [*sides, core], False, closed)


def _sees(builder: BasisBuilder, block: BlockGram, key: Key, S: Axes) -> bool:
    """Whether a summand is not zero on the set."""
    books = builder.books
    return all(
        books[a].varies(i) if a in S else books[a].has_total(i)
        for a, pair in zip(block.axes, key, strict=True)
        for i in pair
    )


def _sets(builder: BasisBuilder, block: BlockGram) -> list[Axes]:
    """The sets that some summand sees."""
    found: dict[Axes, None] = {}
    for key in block.pairs:
        pairs = zip(block.axes, key, strict=True)
        seen = [a for a, pair in pairs if all(builder.books[a].varies(i) for i in pair)]
        if len(seen) > sizes.TABLE_AXES:
            raise TooLarge(f"a table of {len(seen)} long attributes is too large")
        work(OBJECT * 2 ** len(seen))
        for size in range(len(seen) + 1):
            sets = itertools.combinations(seen, size)
            found.update((S, None) for S in sets if _sees(builder, block, key, S))
    return list(found)


def _spans(builder: BasisBuilder, block: BlockGram, S: Axes) -> Spans:
    """Per axis of S zero-sum vectors that span the rows of all summands which see the set."""
    keys = [key for key in block.pairs if _sees(builder, block, key, S)]
    factors = {a: {i for key in keys for i in key[block.axes.index(a)]} for a in S}
    return {a: builder.books[a].zero_sum_spanning(tuple(sorted(factors[a]))) for a in S}


def _volume(block: BlockGram, axes: Iterable[int]) -> int:
    return math.prod(block.shape[block.axes.index(a)] for a in axes)


def _grid(axes: Axes, spans: Spans) -> Basis:
    """All combinations of one vector per axis, ones where there is no span."""
    options = [spans.get(a, np.zeros(1, np.int64)) for a in axes]
    grid = np.meshgrid(*options, indexing="ij")
    ids = np.stack([g.ravel() for g in grid], axis=1) if axes else np.zeros((1, 0), np.int64)
    return Basis.plain(ids)


def part_of(block: BlockGram, axes: Axes) -> BlockGram:
    """The block on some of its axes only."""
    held = [i for i, a in enumerate(block.axes) if a in axes]
    shape = tuple(block.shape[i] for i in held)
    return replace(block, axes=tuple(block.axes[i] for i in held), shape=shape)
