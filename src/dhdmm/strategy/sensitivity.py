"""How far one record moves the measurement: exact integers over all cells, without visiting them.

Zero-out: max_u ‖a_u‖². Replace: max of that and max_{u,v} ‖a_u − a_v‖². Columns depend on a cell
only through the kinds of its values, see kinds.py. Blocks have disjoint rows, so squared norms and
inner products are sums over blocks, maximised by `maximise.maximum`; where there are not too many
different columns, pairs of them are compared instead, see replacement.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.effort import OBJECT, borrow, work
from dhdmm.errors import StrategyError
from dhdmm.strategy.blocks import (
    Block,
    DyadicPiece,
    MeasuredAxis,
    Piece,
    Residual,
    SidePieces,
    apart,
)
from dhdmm.strategy.boxes import Boxes
from dhdmm.strategy.columns import Columns, TooManyColumns
from dhdmm.strategy.dyadic import Dyadic
from dhdmm.strategy.kinds import Kinds, Pairs, find_kinds, number_type
from dhdmm.strategy.matrix import Exact, Integers, largest, multiply
from dhdmm.strategy.maximise import DIRECT, NormTable, TableSum, maximum
from dhdmm.strategy.memo import memoised
from dhdmm.strategy.replacement import largest_distance

FEW_CELLS = 2**16
"""Orbits of cells that need no search for equal columns."""
LARGEST_PAIRS = 2**28
"""Entries of tables over pairs of kinds: 2 GiB."""
MOST_VALUES = 2**13
"""Of a long attribute whose columns are compared."""
MOST_PAIRS = 2**24
"""Pairs of kinds of one attribute."""
MOST_COMPARED = 2000
"""Different columns that are compared with each other one by one."""


Weighed = tuple[int, Block, SidePieces]
"""How many copies, of which block, with which pieces."""


class InnerProducts:
    """⟨a_u, a_v⟩ within blocks, as tables over the pairs of kinds of u and v.

    For pairs of every kind with itself this is ‖a_u‖².
    """

    def __init__(self, pairs: Sequence[Pairs], dtype: Any) -> None:
        self.pairs, self.dtype = pairs, dtype
        self.own = all(pair.i is pair.j for pair in pairs)

    def tables(self, alike: Sequence[Weighed]) -> list[NormTable]:
        """The sum over blocks whose tables are over the same attributes."""
        factors = [self._factors(block, pieces) for _, block, pieces in alike]
        stacked = [
            [_stacked(same) for same in zip(*shares, strict=True)]
            for shares in zip(*factors, strict=True)
        ]
        copies = np.array([number for number, _, _ in alike], self.dtype)
        return [(held, np.tensordot(copies, T, 1)) for held, T in _products(stacked)]

    def _factors(self, block: Block, pieces: SidePieces) -> list[list[NormTable]]:
        """Sums of tables over different attributes, whose product is that of the block."""
        work(OBJECT * math.prod(len(side) ** 2 for side in pieces))
        sides = (self._side(tuple(side)) for side in pieces)
        return [*sides, *(self._residual(residual) for residual in block.residuals)]

    @memoised
    def _residual(self, residual: Residual) -> list[NormTable]:
        a = residual.attribute
        pairs = self.pairs[a]
        own = pairs.kinds.norms if self.own else pairs.inner
        return [((a,), own(residual, self.dtype))]

    @memoised
    def _side(self, pieces: tuple[Piece | DyadicPiece, ...]) -> list[NormTable]:
        shares: list[NormTable] = []
        for left, right in itertools.product(pieces, pieces):
            held = tuple(sorted({*left.axes, *right.axes}))
            mine = [self.pairs[a] for a in held]
            borrow((2 if self.own else 3) * math.prod(len(pairs.i) for pairs in mine))
            first = self._index(held)
            if self.own and left is right:  # without a Gram of all orbits
                values, index = left.squared_norms, first
            else:
                second = np.ix_(*(pairs.kinds.orbit[pairs.j] for pairs in mine))
                u, v = dict(zip(held, first, strict=True)), dict(zip(held, second, strict=True))
                values = _gram(left, right)
                index = (*(u[a] for a in left.axes), *(v[a] for a in right.axes))
            shares.append((held, np.asarray(values.astype(self.dtype)[index], self.dtype)))
        return shares

    @memoised
    def _index(self, held: tuple[int, ...]) -> tuple[Integers, ...]:
        """The orbits of the first of each pair, of every combination."""
        return np.ix_(*(self.pairs[a].kinds.orbit[self.pairs[a].i] for a in held))


def _stacked(tables: Sequence[NormTable]) -> NormTable:
    """Tables over the same attributes, with a first axis that numbers them."""
    return tables[0][0], np.stack([T for _, T in tables])


def _products(factors: Sequence[Sequence[NormTable]]) -> list[NormTable]:
    """The product of sums of stacked tables over different attributes, multiplied out."""
    return [reduce(_outer, combination) for combination in itertools.product(*factors)]


def _outer(left: NormTable, right: NormTable) -> NormTable:
    (held, L), (more, R) = left, right
    home = tuple(sorted((*held, *more)))
    borrow(L.size * R.size / len(L))
    shapes = [dict(zip(names, T.shape[1:], strict=True)) for names, T in (left, right)]
    spread = [
        T.reshape([len(T), *(s.get(a, 1) for a in home)])
        for T, s in zip((L, R), shapes, strict=True)
    ]
    return home, np.asarray(spread[0] * spread[1], L.dtype)


def _gram(left: Piece | DyadicPiece, right: Piece | DyadicPiece) -> NDArray[Any]:
    """leftᵀ right, (orbits of left's axes…, orbits of right's axes…)."""
    L, R = (piece.table.reshape(len(piece.table), -1) for piece in (left, right))
    return multiply(L.T, R).reshape((*left.table.shape[1:], *right.table.shape[1:]))


def all_norms(
    axes: Sequence[MeasuredAxis],
    blocks: Sequence[Block],
    pieces: Sequence[SidePieces],
    direct: int = DIRECT,
) -> tuple[list[Kinds], list[NormTable]]:
    """‖a_u‖² as a sum of tables over kinds."""
    dtype = number_type(blocks, pieces)
    kinds = find_kinds(axes, blocks, only_longer=direct > 0)
    total = _table_sum([len(kind.first) for kind in kinds], blocks, pieces, dtype, direct)
    own = [kind.own() for kind in kinds]
    inner = InnerProducts(own, dtype)
    weighed = [
        (copies, one, mine)
        for block, mine in zip(blocks, pieces, strict=True)
        for copies, one in _different_copies(block, own)
    ]
    for alike in _by_attributes(weighed):
        for table in inner.tables(alike):
            total.add(_without_single(*table))
    return kinds, total.tables


def _different_copies(block: Block, pairs: Sequence[Pairs]) -> list[tuple[int, Block]]:
    """Copies with different tables, and how many there are of each."""
    if not block.others:
        return [(1, block)]
    for attributes in zip(*block.places, strict=True):
        if len({*attributes}) > 1 and any(len(pairs[a].i) > 1 for a in attributes):
            return [(1, copy) for copy in block.apart()]
    return [(block.copies, replace(block, others=()))]


def _by_attributes(weighed: Iterable[Weighed]) -> Iterable[list[Weighed]]:
    """Blocks whose tables are over the same attributes, together."""
    found: dict[object, list[Weighed]] = {}
    for one in weighed:
        _, block, pieces = one
        sides = tuple(tuple(piece.axes for piece in side) for side in pieces)
        found.setdefault((sides, block.places[0]), []).append(one)
    return found.values()


def _without_single(held: tuple[int, ...], T: NDArray[Any]) -> NormTable:
    """Without the attributes of which there is one kind."""
    return tuple(a for a, size in zip(held, T.shape, strict=True) if size > 1), T.squeeze()


def _table_sum(
    sizes: Sequence[int],
    blocks: Sequence[Block],
    pieces: Sequence[SidePieces],
    dtype: Any,
    direct: int = DIRECT,
) -> TableSum:
    """For the tables of these blocks, over the attributes of which there are several kinds."""
    domain = {a: size for a, size in enumerate(sizes) if size > 1}
    return TableSum(domain, _held(blocks, pieces, domain.keys()), dtype, direct)


def _held(
    blocks: Sequence[Block], pieces: Sequence[SidePieces], domain: Set[int]
) -> Iterator[tuple[int, ...]]:
    """The sets of these attributes that the blocks' tables are over."""
    yield ()
    for block, sides in zip(blocks, pieces, strict=True):
        meeting = [[{*p.axes, *q.axes} for p in side for q in side] for side in sides]
        varying = {tuple(a for a in place if a in domain) for place in block.places}
        for place, *sets in itertools.product(varying, *meeting):
            yield tuple(sorted({*place}.union(*sets) & domain))


def sensitivity_squared(
    axes: Sequence[MeasuredAxis], blocks: Sequence[Block], pieces: Sequence[SidePieces]
) -> int:
    """max_u ‖a_u‖² over every cell."""
    alone = _one_side(axes, blocks)
    if alone is not None:
        tables, A = alone
        S = multiply(A.T, A)
        fits = S.dtype == np.int64 and S.size * largest(S) < 2**61
        boxes = Boxes.of(tables) if fits else None
        if boxes is not None:
            return int(boxes.norms(S).max())
        with suppress(TooManyColumns):
            return max(int(norms.max()) for norms, _ in Columns.of(tables).largest(S))
    return maximum(all_norms(axes, blocks, pieces)[1])


def _one_side(
    axes: Sequence[MeasuredAxis], blocks: Sequence[Block]
) -> tuple[list[Integers], Exact] | None:
    """(every axis's part of Kronecker rows K, A with A' = A K) if there is one side alone.

    A few conditions on many attributes tell few cells apart.
    """
    if len(blocks) > 1 or blocks[0].residuals or len(blocks[0].sides) > 1:
        return None
    (side,) = blocks[0].sides
    if isinstance(side.T, Dyadic):
        return None
    if math.prod(len(axes[a].sizes) for a in side.axes) <= FEW_CELLS:
        return None
    tables = [axes[a].vectors[side.basis.ids[:, i]] for i, a in enumerate(side.axes)]
    return tables, multiply(side.triangle, side.basis.written_out)


def largest_by_orbit(
    axes: Sequence[MeasuredAxis], blocks: Sequence[Block]
) -> NDArray[np.float64] | None:
    """max ‖a_u‖² over the cells of each orbit of cells; None if that is too large to write out."""
    kinds, tables = all_norms(axes, blocks, [block.pieces(axes) for block in blocks])
    if len(tables) > 1:
        return None
    held, values = tables[0]
    for i, a in enumerate(held):  # kinds of one orbit follow each other
        first = np.unique(kinds[a].orbit, return_index=True)[1]
        values = np.maximum.reduceat(values, first, axis=i)
    sizes = dict(zip(held, values.shape, strict=True))
    orbits = {a: len(axis.sizes) for a, axis in enumerate(axes) if len(axis.sizes) > 1}
    spread = np.broadcast_to(values.reshape([sizes.get(a, 1) for a in orbits]), [*orbits.values()])
    return spread.astype(np.float64)


def replace_sensitivity_squared(
    axes: Sequence[MeasuredAxis], blocks: Sequence[Block], pieces: Sequence[SidePieces]
) -> int:
    """max_{u,v} max(‖a_u‖², ‖a_u − a_v‖²) over every pair of cells."""
    pieces = [mine for b, mine in zip(blocks, pieces, strict=True) for _ in range(b.copies)]
    blocks = apart(blocks)
    _require_few_columns(blocks)
    alone = _one_side(axes, blocks)
    if alone is not None:
        with suppress(TooManyColumns):
            columns = Columns.of(alone[0])
            return _largest_difference(_inner_products(columns, alone[1]))
    compared = largest_distance(axes, blocks, pieces)
    if compared is not None:
        return max(compared, sensitivity_squared(axes, blocks, pieces))
    kinds, norms = all_norms(axes, blocks, pieces, direct=0)
    dtype = number_type(blocks, pieces)
    _require_room(kinds, {*_held(blocks, pieces, {*range(len(axes))})})
    pairs = [kind.pairs() for kind in kinds]
    total = _table_sum([len(p.i) for p in pairs], blocks, pieces, dtype)
    for held, T in norms:
        total.add((held, T[np.ix_(*(pairs[a].i for a in held))]))
        total.add((held, T[np.ix_(*(pairs[a].j for a in held))]))
    products = InnerProducts(pairs, dtype)
    for alike in _by_attributes((1, *one) for one in zip(blocks, pieces, strict=True)):
        for held, T in products.tables(alike):
            total.add(_without_single(held, np.asarray(-2 * T)))
    return max(maximum(total.tables), sensitivity_squared(axes, blocks, pieces))


def _largest_difference(inner: Exact) -> int:
    own = np.diag(inner)
    distances = own[:, None] + own[None, :] - 2 * inner
    return max(int(own.max()), int(distances.max()))


def _inner_products(columns: Columns, A: Exact) -> Exact:
    """⟨a_u, a_v⟩ of all different columns."""
    if columns.most > MOST_COMPARED**2:
        raise TooManyColumns("the strategy has too many different columns to compare them")
    K = columns.all_columns()
    if len(K) > MOST_COMPARED:
        raise TooManyColumns(f"{len(K):,} different columns are too many to compare each with each")
    different = multiply(A, K.T.astype(np.int64))
    return multiply(different.T, different).astype(object)


def _require_few_columns(blocks: Sequence[Block]) -> None:
    """Columns of a long attribute are compared with each other one by one."""
    for block in blocks:
        for side in block.sides:
            if isinstance(side.T, Dyadic) and len(side.T) > MOST_VALUES:
                raise StrategyError(
                    f"the largest difference of two of {len(side.T):,} columns cannot be found:"
                    f" up to {MOST_VALUES:,} are compared",
                    hint="use 'relation: zero-out', or bin the attribute",
                )


def _require_room(kinds: Sequence[Kinds], held: Set[tuple[int, ...]]) -> None:
    """Tables over pairs of kinds grow with the fourth power of two long attributes."""
    pairs = [len(k.first) ** 2 + len(k.first) for k in kinds]
    tables = sum(math.prod(pairs[a] for a in attributes) for attributes in held)
    if tables > LARGEST_PAIRS or max(pairs) > MOST_PAIRS:
        raise StrategyError(
            "the largest difference of two columns of this strategy cannot be found: too many"
            " different cells",
            hint="use 'relation: zero-out', or ask for fewer tables of long attributes",
        )
