"""Orbits that are trees: values whose groups can be exchanged as wholes, level by level.

Sets that are nested in each other, such as tracts, counties and states, are a tree. Two children of
a node whose subtrees are alike can be exchanged, and no Gram changes. Where all subtrees of a class
of alike children branch evenly, the leaves of the class are one orbit: every leaf looks like every
other, and vectors over them fall into one part for each level (`Nest`): those that sum to zero over
the children of each node of the level and are constant below each child.

Which subtrees are alike is seen by a number for each different one, from the leaves upwards, so the
cost grows with the entries of the sets and not with pairs of values.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dhdmm.effort import OBJECT, allocate, borrow, work
from dhdmm.strategy.contrast import Nest
from dhdmm.strategy.matrix import Integers, runs
from dhdmm.study.factor import Factor

MOST_ENTRIES = 64
"""Entries of nested sets for each value."""

Shape = tuple[int, ...]
"""Children of every node, level by level from the top; none for an orbit of one value."""


@dataclass(frozen=True, eq=False)
class Tree:
    """The orbits of an attribute's merged values, each with its levels.

    A *part* is one level of one orbit, number `level * orbits + orbit`; where nothing is nested the
    parts are the orbits.
    """

    orbit: Integers
    """(merged values,): merged value → orbit."""
    places: Integers
    """(merged values,): position in its orbit, in the order of the tree."""
    shapes: tuple[Shape, ...]
    """Of every orbit."""

    @classmethod
    def flat(cls, orbit: Integers) -> Tree:
        """Nothing is nested."""
        allocate(3 * len(orbit))
        sizes = np.bincount(orbit)
        places = np.empty(len(orbit), np.int64)
        places[np.argsort(orbit, kind="stable")] = runs(np.zeros_like(sizes), sizes)
        return cls(orbit, places, tuple((int(n),) if n > 1 else () for n in sizes))

    @cached_property
    def is_flat(self) -> bool:
        """Whether it is what `flat` makes of its orbits."""
        return self.levels == 1 and np.array_equal(Tree.flat(self.orbit).places, self.places)

    @cached_property
    def levels(self) -> int:
        return max(1, *map(len, self.shapes))

    @cached_property
    def parts(self) -> int:
        return self.levels * len(self.shapes)

    @cached_property
    def sizes(self) -> Integers:
        return np.bincount(self.orbit)

    def orbit_of(self, part: int) -> int:
        return part % len(self.shapes)

    def nest(self, part: int) -> Nest | None:
        """None where the orbit has no such level."""
        level, orbit = divmod(part, len(self.shapes))
        shape = self.shapes[orbit]
        if level >= len(shape):
            return None
        return Nest(shape[level], math.prod(shape[:level]), math.prod(shape[level + 1 :]))

    def existing(self, part: int) -> Nest:
        nest = self.nest(part)
        assert nest is not None
        return nest

    @cached_property
    def widths(self) -> Integers:
        """(levels + 1, orbits): values below a node of every level; the first is the whole orbit.

        Where an orbit has no more levels it is 1.
        """
        found = np.ones((self.levels + 1, len(self.shapes)), np.int64)
        for orbit, shape in enumerate(self.shapes):
            for level in range(len(shape)):
                found[level, orbit] = math.prod(shape[level:])
        return found

    @cached_property
    def starts(self) -> Integers:
        """(orbits,): where each begins if values stand by orbit, and in it by place."""
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def ranks(self) -> Integers:
        """(merged values,): where each stands in that order."""
        return np.asarray(self.starts[self.orbit] + self.places)

    @cached_property
    def order(self) -> Integers:
        """Merged values by orbit, and in it by place."""
        found = np.empty(len(self.orbit), np.int64)
        found[self.ranks] = np.arange(len(found))
        return found

    def node_starts(self, level: int) -> Integers:
        """Where each node of a level begins in the order; level 0 are the orbits themselves."""
        counts = self.sizes // self.widths[level]
        number = runs(np.zeros_like(counts), counts)
        found = np.repeat(self.starts, counts) + number * np.repeat(self.widths[level], counts)
        return np.asarray(found)

    def nodes(self, level: int) -> Integers:
        """(merged values,): the number of its node, in the order of `node_starts`."""
        counts = self.sizes // self.widths[level]
        first = np.cumsum(counts) - counts
        return np.asarray(first[self.orbit] + self.places // self.widths[level][self.orbit])

    def children(self, level: int) -> tuple[Integers, Integers]:
        """(merged values,): below which child of its node of a level each is, and the last child.

        Where an orbit has no such level both are 0.
        """
        whole, inner = self.widths[level : level + 2, self.orbit]
        return self.places % whole // inner, whole // inner - 1

    def members(self, part: int) -> Integers:
        """Merged values of the part's orbit, by place."""
        orbit = self.orbit_of(part)
        start = int(self.starts[orbit])
        return self.order[start : start + int(self.sizes[orbit])]


@dataclass(frozen=True, eq=False)
class MergedAxis:
    """One attribute: its values merged, and the merged values in orbits."""

    merged: Integers
    """(values,): value → merged value, numbered by first occurrence."""
    tree: Tree
    """Merged values in orbits, numbered by first occurrence, with their parts."""

    @property
    def orbit(self) -> Integers:
        return self.tree.orbit

    @property
    def sizes(self) -> Integers:
        """(orbits,): merged values per orbit."""
        return self.tree.sizes


def find_tree(stacks: Sequence[Sequence[Factor]]) -> Tree | None:
    """The tree of the sets that the rows are; None if some are not nested.

    A stack is the factors of a term's products: their rows belong together, one by one.
    """
    size = stacks[0][0].shape[1]
    entries = sum(factor.nonzeros for stack in stacks for factor in stack)
    if entries > MOST_ENTRIES * size:
        return None
    borrow(12 * entries)
    nodes = _Nodes(size)
    sets: list[tuple[int, Integers, int]] = []
    for number, stack in enumerate(stacks):
        found = _constant_rows(stack, number)
        if found is None:
            return None
        starts, values, marks = found
        lengths = np.diff(starts)
        single = lengths == 1
        np.add.at(nodes.leaf_mark, values[starts[:-1][single]], marks[single])
        for row in np.flatnonzero((lengths > 1) & (lengths < size)).tolist():
            sets.append((-int(lengths[row]), values[starts[row] : starts[row + 1]], marks[row]))
    work(OBJECT * len(sets) + entries)
    sets.sort(key=lambda found: found[0])
    if not all(nodes.add(values, mark) for _, values, mark in sets):
        return None
    return nodes.tree()


def _constant_rows(
    stack: Sequence[Factor], number: int
) -> tuple[Integers, Integers, NDArray[np.uint64]] | None:
    """Rows as sets, with a mark for what they hold; None if one is not constant on its set."""
    from scipy import sparse

    digest = hashlib.shake_256(b"dhdmm tree %d" % number).digest(8 * len(stack))
    random = np.frombuffer(digest, "<i8") >> 20
    total = sparse.csr_array(stack[0].shape, dtype=np.int64)
    for factor, weight in zip(stack, random.tolist(), strict=True):
        total = sparse.csr_array(total + factor.to_sparse() * weight)
    total.eliminate_zeros()
    starts, data = total.indptr.astype(np.int64), total.data
    held = np.diff(starts)
    marks = np.zeros(len(held), np.int64)
    marks[held > 0] = data[starts[:-1][held > 0]]
    if not np.array_equal(data, np.repeat(marks, held)):
        return None
    return starts, total.indices.astype(np.int64), marks.astype(np.uint64)


class _Nodes:
    """Sets, each within another or apart from it; node 0 is everything."""

    def __init__(self, size: int) -> None:
        self.leaf_mark = np.zeros(size, np.uint64)
        self._innermost = np.zeros(size, np.int64)
        self._parent, self._size, self._mark = [0], [size], [0]

    def add(self, values: Integers, mark: int) -> bool:
        """A set no larger than those before; false if it cuts across one."""
        parent = int(self._innermost[values[0]])
        if np.any(self._innermost[values] != parent):
            return False
        if self._size[parent] == len(values):
            self._mark[parent] = (self._mark[parent] + int(mark)) % 2**64
            return True
        self._innermost[values] = len(self._parent)
        self._parent.append(parent)
        self._size.append(len(values))
        self._mark.append(int(mark))
        return True

    def tree(self) -> Tree:
        self._classify()
        found = sorted(self._orbits(0), key=lambda one: int(one[1].min()))
        orbit, places = np.empty((2, len(self.leaf_mark)), np.int64)
        for number, (_, values) in enumerate(found):
            orbit[values], places[values] = number, np.arange(len(values))
        return Tree(orbit, places, tuple(shape for shape, _ in found))

    def _classify(self) -> None:
        """Alike children of every node together; which nodes branch evenly."""
        count = len(self._parent)
        self._leaves: list[list[Integers]] = [[] for _ in range(count)]
        kinds = np.unique(self.leaf_mark, return_inverse=True)[1].ravel()
        order = np.lexsort([kinds, self._innermost])
        changes = np.diff(self._innermost[order]) | np.diff(kinds[order])
        children: list[dict[object, list[int]]] = [{} for _ in range(count)]
        numbers: dict[object, int] = {}
        leaf_kinds: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        for values in np.split(order, np.flatnonzero(changes) + 1):
            node = int(self._innermost[values[0]])
            self._leaves[node].append(values)
            leaf_kinds[node].append((int(kinds[values[0]]), len(values)))
        self._shape: list[Shape | None] = [None] * count
        self._classes: list[list[list[int]]] = [[]] * count
        for node in range(count - 1, -1, -1):  # children have larger numbers
            alike = children[node]
            self._classes[node] = list(alike.values())
            form = (
                self._mark[node],
                tuple(leaf_kinds[node]),
                tuple(sorted((number, len(held)) for number, held in alike.items())),
            )
            self._shape[node] = self._even_shape(node)
            if node:
                number = numbers.setdefault(form, len(numbers))
                children[self._parent[node]].setdefault(number, []).append(node)

    def _even_shape(self, node: int) -> Shape | None:
        """Children at each level below it, if they are all alike; None if not."""
        leaves, classes = self._leaves[node], self._classes[node]
        if len(leaves) + len(classes) != 1:
            return None
        if leaves:
            return _branching(len(leaves[0]), ())
        below = self._shape[classes[0][0]]
        return None if below is None else _branching(len(classes[0]), below)

    def _orbits(self, root: int) -> Iterator[tuple[Shape, Integers]]:
        """Shape and values, in order, of each class of alike children that branch evenly."""
        open_ = [root]
        while open_:
            node = open_.pop()
            for values in self._leaves[node]:
                yield _branching(len(values), ()), values
            for alike in self._classes[node]:
                below = self._shape[alike[0]]
                if below is None:
                    open_ += alike
                else:
                    yield (
                        _branching(len(alike), below),
                        np.concatenate([self._values(child) for child in alike]),
                    )

    def _values(self, node: int) -> Integers:
        """The leaves below an even node, in order."""
        if self._leaves[node]:
            return self._leaves[node][0]
        return np.concatenate([self._values(child) for child in self._classes[node][0]])


def _branching(count: int, below: Shape) -> Shape:
    return (count, *below) if count > 1 else below
