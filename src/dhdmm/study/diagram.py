"""From a condition that couples attributes to few boxes, a signed sum of Kronecker products.

A condition is built from *atoms*, each a set of values of one attribute. It tells an attribute's
values apart only by the atoms they satisfy: values that satisfy the same ones form a *class*. As a
function of the classes, the condition becomes an ordered decision diagram: a node stands for one
attribute and has one child per class; equal functions are the same node, so the diagram is
canonical and a condition that is a product of one-attribute predicates is always found to be one.

f, g are nodes (numbers; `NEVER` and `ALWAYS` are the constants), f∖g is "f and not g".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import permutations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dhdmm.effort import OBJECT, borrow, work

Mask = NDArray[np.bool_]
Classes = NDArray[np.int64]
"""(size,): each value's class; classes are numbered without gaps."""
ClassSets = tuple[frozenset[int] | None, ...]
"""One set of classes per level; None where the level is unrestricted."""
SignedSets = dict[ClassSets, int]
"""Σ coefficient · (a set of classes per level)."""

NEVER, ALWAYS = 0, 1
CLASS_LIMIT = 2_048
CHILD_LIMIT = 1_000_000
PATH_LIMIT = 4_096
"""Bounds of time and memory, far above what a condition that a person writes needs."""
REORDERED = 4
"""Up to so many coupled attributes every order is tried; the number of boxes depends on it."""


class TooComplex(Exception):
    """More boxes than wanted (that many, if known) or a diagram that outgrows its limits."""

    def __init__(self, boxes: int | None = None) -> None:
        super().__init__(boxes)
        self.boxes = boxes


@dataclass(frozen=True, eq=False)
class Atom:
    """The attribute's value is in the set `mask`."""

    attribute: int
    mask: Mask


@dataclass(frozen=True, eq=False)
class Junction:
    """All of the parts, or any of them."""

    kind: Literal["all", "any"]
    parts: tuple[Formula, ...]


Formula = Atom | Junction | bool


@dataclass(frozen=True, eq=False)
class Box:
    """coefficient · ⊗ masks: the records with every masked attribute inside its mask.

    `masks` goes by the attribute's index; an attribute that is absent is unrestricted.
    """

    coefficient: int
    masks: dict[int, Mask]


def junction(kind: Literal["all", "any"], parts: Iterable[Formula]) -> Formula:
    """All or any of the parts, with the atoms of one attribute put together into one."""
    decisive = kind == "any"
    decided = False
    masks: dict[int, Mask] = {}
    others: list[Formula] = []
    for part in parts:
        if isinstance(part, bool):
            decided = decided or part is decisive
        elif isinstance(part, Junction):
            others.append(part)
        elif part.attribute not in masks:
            masks[part.attribute] = part.mask
        else:
            known = masks[part.attribute]
            masks[part.attribute] = known | part.mask if decisive else known & part.mask
    kept = [*(Atom(attribute, mask) for attribute, mask in masks.items()), *others]
    if decided or not kept:
        return decisive if decided else not decisive
    return kept[0] if len(kept) == 1 else Junction(kind, tuple(kept))


def signed_boxes(formula: Formula, limit: int) -> tuple[Box, ...]:
    """Boxes whose signed sum is 1 where the formula holds and 0 elsewhere, as few as found."""
    atoms = list(_atoms(formula))
    attributes = list(dict.fromkeys(atom.attribute for atom in atoms))
    if len(attributes) == len(atoms) and _is_product(formula):
        return _product(atoms)
    classes = {a: _classes([x.mask for x in atoms if x.attribute == a]) for a in attributes}
    found, order = min(_alternatives(formula, attributes, classes), key=lambda pair: len(pair[0]))
    if len(found) > limit:
        raise TooComplex(len(found))
    return tuple(
        Box(coefficient, _masks(sets, order, classes)) for sets, coefficient in found.items()
    )


def _is_product(formula: Formula) -> bool:
    """Whether it is one atom, or all of some atoms."""
    if not isinstance(formula, Junction):
        return isinstance(formula, Atom)
    return formula.kind == "all" and all(isinstance(part, Atom) for part in formula.parts)


def _product(atoms: Sequence[Atom]) -> tuple[Box, ...]:
    """The box of predicates of different attributes, all of which hold, as in most conditions."""
    masks = {}
    for atom in sorted(atoms, key=lambda atom: atom.attribute):
        if not atom.mask.any():
            return ()
        if not atom.mask.all():
            masks[atom.attribute] = atom.mask
    return (Box(1, masks),)


def _alternatives(
    formula: Formula, attributes: Sequence[int], classes: Mapping[int, Classes]
) -> Iterator[tuple[SignedSets, Sequence[int]]]:
    """The boxes that each order of the attributes gives, up to the first that cannot be beaten."""
    for order in _orders(attributes):
        found = _sets_in_order(formula, order, classes)
        yield found, order
        if len(found) <= 1:
            return


def _masks(
    sets: ClassSets, order: Sequence[int], classes: Mapping[int, Classes]
) -> dict[int, Mask]:
    masks = {}
    for attribute, kept in sorted(zip(order, sets, strict=True), key=lambda pair: pair[0]):
        if kept is not None:
            chosen = np.zeros(classes[attribute].max() + 1, np.bool_)
            chosen[list(kept)] = True
            masks[attribute] = chosen[classes[attribute]]
    return masks


def _atoms(formula: Formula) -> Iterator[Atom]:
    if isinstance(formula, Atom):
        yield formula
    elif isinstance(formula, Junction):
        for part in formula.parts:
            yield from _atoms(part)


def _classes(masks: Sequence[Mask]) -> Classes:
    classes = np.zeros(len(masks[0]), np.int64)
    for mask in masks:
        borrow(4 * len(mask))
        split = 2 * classes + mask
        used = np.bincount(split) > 0
        classes = (np.cumsum(used) - 1)[split]
        if np.count_nonzero(used) > CLASS_LIMIT:
            raise TooComplex
    return classes


def _orders(attributes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Attributes that occur together stand together in the order of the text, which is good."""
    if len(attributes) <= REORDERED:
        yield from permutations(attributes)
    else:
        yield tuple(attributes)
        yield tuple(reversed(attributes))


def _sets_in_order(
    formula: Formula, order: Sequence[int], classes: Mapping[int, Classes]
) -> SignedSets:
    counts = [int(classes[attribute].max()) + 1 for attribute in order]
    diagram = _Diagram(counts)

    def node(part: Formula) -> int:
        if isinstance(part, bool):
            return ALWAYS if part else NEVER
        if isinstance(part, Atom):
            level = order.index(part.attribute)
            truth = np.zeros(counts[level], np.int64)
            truth[classes[part.attribute]] = part.mask
            return diagram.node(level, tuple(truth.tolist()))
        return reduce(diagram.both if part.kind == "all" else diagram.either, map(node, part.parts))

    root = node(formula)
    if diagram.paths(root) > PATH_LIMIT:
        raise TooComplex
    return _merged(diagram.signed_sets(root), counts)


class _Diagram:
    def __init__(self, counts: Sequence[int]) -> None:
        self.counts = counts
        """The number of classes of each level."""
        bottom = len(counts)
        self._nodes: list[tuple[int, tuple[int, ...]]] = [(bottom, ()), (bottom, ())]
        self._numbers: dict[tuple[int, tuple[int, ...]], int] = {}
        self._size = 0
        self._without: dict[tuple[int, int], int] = {}
        self._paths: dict[int, int] = {NEVER: 0, ALWAYS: 1}

    def node(self, level: int, children: tuple[int, ...]) -> int:
        work(OBJECT + 30 * len(children))
        if len(set(children)) == 1:
            return children[0]
        number = self._numbers.setdefault((level, children), len(self._nodes))
        if number == len(self._nodes):
            self._nodes.append((level, children))
            self._size += len(children)
        if self._size > CHILD_LIMIT:
            raise TooComplex
        return number

    def without(self, f: int, g: int) -> int:
        """f∖g, level by level; every other connective is made of it."""
        if f in (NEVER, g) or g == ALWAYS:
            return NEVER
        if g == NEVER:
            return f
        if (f, g) not in self._without:
            level = min(self._nodes[f][0], self._nodes[g][0])
            pairs = zip(self._children(f, level), self._children(g, level), strict=True)
            self._without[f, g] = self.node(level, tuple(self.without(*pair) for pair in pairs))
        return self._without[f, g]

    def both(self, f: int, g: int) -> int:
        return self.without(f, self.without(ALWAYS, g))

    def either(self, f: int, g: int) -> int:
        return self.without(ALWAYS, self.without(self.without(ALWAYS, f), g))

    def _children(self, f: int, level: int) -> tuple[int, ...]:
        own, children = self._nodes[f]
        return children if own == level else (f,) * self.counts[level]

    def _branches(self, f: int) -> dict[int, frozenset[int]]:
        """The children of f that can hold, each with the classes that lead to it."""
        branches: dict[int, set[int]] = defaultdict(set)
        for number, child in enumerate(self._nodes[f][1]):
            branches[child].add(number)
        return {child: frozenset(kept) for child, kept in branches.items() if child != NEVER}

    def paths(self, f: int) -> int:
        """How many boxes `signed_sets` needs: Σ over the branches, or 1 − (not f) if shorter."""
        if f not in self._paths:
            self._paths[f] = min(self._disjoint(f), 1 + self._disjoint(self.without(ALWAYS, f)))
        return self._paths[f]

    def _disjoint(self, f: int) -> int:
        return sum(self.paths(child) for child in self._branches(f))

    def signed_sets(self, f: int) -> SignedSets:
        """f as Σ coefficient · (a set of classes per level)."""
        everything: ClassSets = (None,) * len(self.counts)
        if f in (NEVER, ALWAYS):
            return {everything: 1} if f == ALWAYS else {}
        sign, total = 1, defaultdict[ClassSets, int](int)
        if self.paths(f) < self._disjoint(f):
            f, sign = self.without(ALWAYS, f), -1
            total[everything] = 1
        level = self._nodes[f][0]
        for child, kept in self._branches(f).items():
            for sets, coefficient in self.signed_sets(child).items():
                total[(*sets[:level], kept, *sets[level + 1 :])] += sign * coefficient
        return total


def _merged(boxes: SignedSets, counts: Sequence[int]) -> SignedSets:
    """Fewer boxes of the same sum, by adding up those that differ in one level only."""
    before = len(boxes) + 1
    while len(boxes) < before:
        before = len(boxes)
        for level, count in enumerate(counts):
            boxes = _gathered(boxes, level, count)
    return boxes


def _gathered(boxes: SignedSets, level: int, count: int) -> SignedSets:
    """The boxes with those that differ in `level` only added up, where that leaves fewer."""
    groups: dict[ClassSets, dict[frozenset[int] | None, int]] = defaultdict(dict)
    for sets, coefficient in boxes.items():
        groups[(*sets[:level], None, *sets[level + 1 :])][sets[level]] = coefficient
    gathered = {}
    for rest, members in groups.items():
        sums = np.zeros(count, np.int64)
        for kept, coefficient in members.items():
            sums[slice(None) if kept is None else list(kept)] += coefficient
        layers: dict[frozenset[int] | None, int] = {}
        for value in sorted(set(sums.tolist()) - {0}):
            kept = frozenset(np.flatnonzero(sums == value).tolist())
            layers[kept if len(kept) < count else None] = value
        for kept, coefficient in (layers if len(layers) < len(members) else members).items():
            gathered[(*rest[:level], kept, *rest[level + 1 :])] = coefficient
    return gathered
