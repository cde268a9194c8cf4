"""Sets of attributes that meet in a workload whose symmetric blocks are too large.

Every attribute's vectors split into the multiples of 1 and those that sum to zero. A set S of
attributes names the vectors that sum to zero over each attribute in S and are constant in all
others. A factor relates S and S' in one of three ways at each attribute:

- *constant*: its rows are multiples of 1, it only knows sets without the attribute;
- *commuting*: 1 is an eigenvector of its Gram (all values, say): S and S' agree at the attribute;
- *free*: anything else (ranges, unequal bins): it mixes sets with and without the attribute.

Sets that some term mixes form a *component*, and V = WᵀW is block diagonal over components. An
attribute that is in every set of a component, and on which every factor acts as one number, splits
off as a residual.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dhdmm.effort import OBJECT, work
from dhdmm.strategy.matrix import Integers
from dhdmm.strategy.memo import memoised
from dhdmm.strategy.symmetry import Reduction, Twins, orbits

Attributes = frozenset[int]


@dataclass(frozen=True)
class Visit:
    """A term's rows inside a component: `kept` commuting attributes, all its free ones."""

    term: int
    kept: Attributes
    free: Attributes

    def sets(self) -> list[Attributes]:
        """The sets of attributes that these rows mix."""
        work(OBJECT * 2 ** len(self.free))
        subsets = itertools.chain.from_iterable(
            itertools.combinations(sorted(self.free), size) for size in range(len(self.free) + 1)
        )
        return [self.kept | frozenset(subset) for subset in subsets]


@dataclass(frozen=True, eq=False)
class Component:
    sets: tuple[Attributes, ...]
    visits: tuple[Visit, ...]
    residuals: tuple[int, ...]
    """Attributes split off: in every set, and seen as one number by every visit."""

    @property
    def axes(self) -> tuple[int, ...]:
        """The other attributes that vary in the component."""
        return tuple(sorted(frozenset().union(*self.sets) - frozenset(self.residuals)))


@dataclass(frozen=True, eq=False)
class FactorAction:
    """What one factor does to multiples of 1 and to vectors that sum to zero."""

    gram: Integers
    """At the values that stand for their twins."""
    twins: Twins

    @cached_property
    def is_constant(self) -> bool:
        return bool(np.all(self.gram == self.gram[0, 0]))

    @cached_property
    def commutes(self) -> bool:
        return bool(np.ptp(self.twins.row_sums(self.gram)) == 0)

    @cached_property
    def sees_total(self) -> bool:
        return bool(np.any(self.twins.sums(self.gram).sum()))

    @cached_property
    def is_number(self) -> bool:
        """Whether it acts as one number on the vectors that sum to zero."""
        return len(np.unique(orbits([self.gram]))) == 1


class ComponentFinder:
    def __init__(self, reduction: Reduction) -> None:
        self.reduction = reduction

    @memoised
    def action(self, a: int, index: int) -> FactorAction:
        axis = self.reduction.axes[a]
        return FactorAction(axis.shown[index, index], axis.twins)

    def always_free(self) -> set[int]:
        """Attributes that every term either ignores or mixes freely."""
        visits = [v for number in range(len(self.reduction.terms)) for v in self.visits(number)]
        free = frozenset[int]().union(*(visit.free for visit in visits))
        return set(free - frozenset[int]().union(*(visit.kept for visit in visits)))

    def visits(self, number: int) -> list[Visit]:
        """One visit for every choice of the term's commuting attributes."""
        term = self.reduction.terms[number]
        free: set[int] = set()
        options: list[list[tuple[int, ...]]] = []
        for a in range(len(self.reduction.axes)):
            actions = [self.action(a, index[a]) for index in term.indices]
            if all(action.is_constant for action in actions):
                continue
            if len({index[a] for index in term.indices}) == 1 and actions[0].commutes:
                options.append([(), (a,)] if actions[0].sees_total else [(a,)])
            else:
                free.add(a)
        work(OBJECT * math.prod(len(choices) for choices in options))
        return [
            Visit(number, frozenset(itertools.chain(*choice)), frozenset(free))
            for choice in itertools.product(*options)
        ]

    def components(self) -> list[Component]:
        visits = [v for number in range(len(self.reduction.terms)) for v in self.visits(number)]
        leader: dict[Attributes, Attributes] = {}

        def find(node: Attributes) -> Attributes:
            while leader.setdefault(node, node) != node:
                node = leader[node]
            return node

        for visit in visits:
            first, *others = visit.sets()
            for other in others:
                leader[find(other)] = find(first)
            find(first)
        sets: dict[Attributes, list[Attributes]] = {}
        for node in list(leader):
            sets.setdefault(find(node), []).append(node)
        met: dict[Attributes, list[Visit]] = {root: [] for root in sets}
        for visit in visits:
            met[find(visit.kept)].append(visit)
        return [self._component(sets[root], met[root]) for root in sets]

    def _component(self, sets: list[Attributes], visits: list[Visit]) -> Component:
        shared = frozenset.intersection(*sets)
        residuals = [a for a in sorted(shared) if all(self._is_number(a, v) for v in visits)]
        ordered = sorted(sets, key=lambda s: (len(s), sorted(s)))
        return Component(tuple(ordered), tuple(visits), tuple(residuals))

    def _is_number(self, a: int, visit: Visit) -> bool:
        return a in visit.kept and self.action(a, self.index(visit, a)).is_number

    def index(self, visit: Visit, a: int) -> int:
        """The factor of a commuting attribute, the same in all products of the term."""
        return self.reduction.terms[visit.term].indices[0][a]
