"""Integer bases of components, whose cells are far too many to write a row out.

Rows are Kronecker products of one vector per axis. Their independence is decided exactly, but for
chance, by *sketches*: a row's inner products with random Kronecker vectors modulo a prime, which
are products of one small table per axis. Random Kronecker vectors are in general position, so as
many sketches as the rank keep the rank.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from dhdmm.effort import OBJECT, borrow, work
from dhdmm.strategy.basis import Basis, concatenate, select
from dhdmm.strategy.block_basis import TooLarge, sketch, sketched
from dhdmm.strategy.components import Attributes, Component, ComponentFinder, Visit
from dhdmm.strategy.matrix import Integers, RowSpace
from dhdmm.strategy.vectors import CHUNK, VectorBook

LARGEST_RANK = 2500
"""Rows of one component's basis."""


class ComponentBasis:
    def __init__(self, finder: ComponentFinder, books: Sequence[VectorBook]) -> None:
        self.finder, self.books, self.reduction = finder, books, finder.reduction

    def set_spans(self, component: Component, S: Attributes) -> dict[int, Integers]:
        """Per attribute of S but the residuals: zero-sum vectors that span all visits' rows."""
        visits = [visit for visit in component.visits if S in visit.sets()]
        return {
            a: self.books[a].zero_sum_spanning(
                sorted({i for v in visits for i in self._used(v, a)})
            )
            for a in sorted(S - frozenset(component.residuals))
        }

    def _used(self, visit: Visit, a: int) -> list[int]:
        return [index[a] for index in self.reduction.terms[visit.term].indices]

    def split_basis(self, component: Component) -> Basis:
        """A basis of every set on its own, stacked: spans at least the component's rows."""
        parts = [self._grid(component, self.set_spans(component, S)) for S in component.sets]
        return concatenate(parts, len(component.axes))

    def basis(self, component: Component) -> Basis:
        """Sparse-first independent rows among the visits' own."""
        candidates = concatenate(
            [part for visit in component.visits for part in self._candidates(component, visit)],
            len(component.axes),
        )
        if candidates.is_plain:
            candidates = Basis.plain(np.unique(candidates.ids, axis=0))
        weight = np.ones(len(candidates.ids), np.int64)
        for i, a in enumerate(component.axes):
            weight *= np.count_nonzero(self.books[a].vectors, axis=1)[candidates.ids[:, i]]
        order = np.argsort(candidates.weights(weight), kind="stable")
        space = RowSpace(min(len(order), LARGEST_RANK + 1))
        sketches = [sketch(self.books[a].vectors, a, space.columns) for a in component.axes]
        kept: list[Basis] = []
        for start in range(0, len(order), CHUNK):
            chunk = select(candidates, order[start : start + CHUNK])
            kept.append(select(chunk, space.extend(sketched(chunk, sketches, space.columns))))
            if space.rank > LARGEST_RANK:
                raise TooLarge(f"a component has more than {LARGEST_RANK:,} rows")
        return concatenate(kept, len(component.axes))

    def _candidates(self, component: Component, visit: Visit) -> list[Basis]:
        """Rows of one term: spanning vectors of every axis, or coupled rows one by one."""
        term = self.reduction.terms[visit.term]
        kept = {
            a: self.books[a].zero_sum_spanning([self.finder.index(visit, a)])
            for a in component.axes
            if a in visit.kept
        }
        if len(term.indices) == 1:
            spans = {a: self.books[a].spanning(term.indices[0][a]) for a in visit.free}
            return [self._grid(component, {**kept, **spans})]
        return [
            _sum_of_products([self._grid(component, {**kept, **ids}) for ids in products], weights)
            for weights, products in self._coupled_rows(visit)
        ]

    def _coupled_rows(self, visit: Visit) -> Iterator[tuple[list[int], list[dict[int, Integers]]]]:
        """Each row of a term of several products: a weight and vectors per product."""
        term, axes = self.reduction.terms[visit.term], self.reduction.axes
        for index in term.indices:
            shapes = [axis.factors[i].shape for axis, i in zip(axes, index, strict=True)]
            borrow(sum(rows * columns for rows, columns in shapes))
        dense = [
            [axis.factors[i].to_sparse().toarray() for axis, i in zip(axes, index, strict=True)]
            for index in term.indices
        ]
        commuting = {a for v in self.finder.visits(visit.term) for a in v.kept}
        rows = [range(1) if a in commuting else range(len(F)) for a, F in enumerate(dense[0])]
        work(20 * OBJECT * len(dense) * math.prod(len(own) for own in rows))
        for row in itertools.product(*rows):
            weights: list[int] = []
            products: list[dict[int, Integers]] = []
            for coefficient, factors in zip(term.integer_coefficients, dense, strict=True):
                constants = [a for a in range(len(axes)) if a not in visit.free | commuting]
                weight = coefficient * math.prod(int(factors[a][row[a], 0]) for a in constants)
                if weight:
                    weights.append(weight)
                    products.append(
                        {
                            a: np.array([self.books[a].number(factors[a][row[a]])])
                            for a in visit.free
                        }
                    )
            if weights:
                yield weights, products

    def _grid(self, component: Component, spans: dict[int, Integers]) -> Basis:
        size = math.prod(len(span) for span in spans.values())
        if size > LARGEST_RANK:  # rows of a grid are independent, so this is its rank
            raise TooLarge(f"a term has {size:,} rows in one component")
        work(OBJECT / 2 * size)
        none = np.zeros(1, np.int64)
        options = [spans.get(a, none) for a in component.axes]
        ids = np.array(list(itertools.product(*options)), np.int64)
        return Basis.plain(ids.reshape(size, len(component.axes)))


def _sum_of_products(parts: Sequence[Basis], weights: Sequence[int]) -> Basis:
    """Rows Σ_p weight_p · (row of part p); all parts have the same number of rows."""
    ids = np.stack([part.ids for part in parts], axis=1)
    rows, products, axes = ids.shape
    return Basis(
        np.arange(rows + 1) * products,
        np.tile(np.array(weights, np.int64), rows),
        ids.reshape(rows * products, axes),
    )
