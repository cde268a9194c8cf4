"""Whether a query lies in a strategy's row space, by exact arithmetic and not by a tolerance.

A query w can be answered from A'x exactly when w x = w x̂ for every histogram x, x̂ being what is
reconstructed from A'x: one that A' does not see whole differs for nearly every x. So a probe is a
random x, reconstructed modulo a prime, where nothing is rounded. A query in the row space passes
every probe. Another one passes a probe by chance d/p at most, d the number of attributes, because
w (x − x̂) is a polynomial of degree d in the probe's entries; three primes of 20 bits leave 10⁻¹⁴
for d = 14. The probes follow from a seed: with the digest of a plan as seed, whoever makes the plan
cannot choose queries that its probes do not see. (That p divides every minor by which the query
leaves the row space is as unlikely.) A relative tolerance would not do: of 10¹⁸ cells, all but one
are 10⁻⁹ away from all of them.

The probe is a product x = ⊗ x_a, so x̂ is a sum over blocks of products of few-attribute tensors.

p: the prime; f: rows of a query's factor; B, C, K: a side's basis, see dhdmm.strategy.basis.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dhdmm.effort import OBJECT, allocate, borrow, work
from dhdmm.errors import StrategyError
from dhdmm.strategy.blocks import Block, MeasuredAxis, Side, apart
from dhdmm.strategy.matrix import Integers, multiply
from dhdmm.study.factor import Factor
from dhdmm.study.workload import Term

PROBES = 3
PRIMES = (1048573, 1048571, 1048559, 1048549, 1048517, 1048507)
"""Above every attribute's size, below 2²⁰: doubles hold sums of 8,192 products of two residues."""
SMALL_SYSTEM = 48
"""Equations that are solved by elimination; larger systems are halved."""
MEAN = -2
"""Beside a residual's parts (an orbit, or WHOLE = −1): the mean over all merged values."""
Booleans = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Membership:
    """The row space of the strategy with these axes and blocks."""

    axes: tuple[MeasuredAxis, ...]
    blocks: tuple[Block, ...]
    seed: bytes = b""

    def measured(self, term: Term) -> Booleans:
        """Which rows of the term lie in the row space, (queries,)."""
        passed = np.ones(term.queries, np.bool_)
        for probe in self._probes:
            passed &= probe.lost(term) == 0
        return passed

    def contains(self, term: Term) -> bool:
        return bool(self.measured(term).all())

    @cached_property
    def _probes(self) -> list[_Probe]:
        """One per prime; a prime that divides a determinant is left out."""
        found: list[_Probe] = []
        for prime in PRIMES:
            try:
                found.append(_Probe.make(self.axes, apart(self.blocks), prime, self.seed))
            except _SingularModuloPrime:
                continue
            if len(found) == PROBES:
                return found
        raise StrategyError("the strategy's rows depend on each other")


class _SingularModuloPrime(Exception):
    """The prime divides what must be inverted."""


@dataclass(frozen=True, eq=False)
class _Part:
    """A tensor over the merged values of `axes`: a factor of x̂ on one block."""

    axes: tuple[int, ...]
    tensor: Integers


_Sum = list[_Part]
"""Parts over different axes, each constant in the others of their side."""


_Key = tuple[int, int]
"""An attribute and a residual's part of it, or MEAN."""


@dataclass(frozen=True, eq=False)
class _BlockImage:
    """x̂ on one block: which vectors of single attributes, and per side its axes and its parts."""

    vectors: list[_Key]
    sides: list[tuple[tuple[int, ...], _Sum]]


@dataclass(frozen=True, eq=False)
class _Probe:
    axes: tuple[MeasuredAxis, ...]
    prime: int
    values: list[Integers]
    """x_a, one number for every value of attribute a."""
    vectors: dict[_Key, Integers]
    """Over merged values: x_a centred on a part and 0 outside, or its mean everywhere."""
    blocks: list[_BlockImage]

    @classmethod
    def make(
        cls, axes: tuple[MeasuredAxis, ...], blocks: tuple[Block, ...], prime: int, seed: bytes
    ) -> _Probe:
        allocate(3 * sum(len(axis.merged) for axis in axes))
        values = [_random(a, len(axis.merged), prime, seed) for a, axis in enumerate(axes)]
        merged = [
            _gathered(x, axis.merged, len(axis.orbit)) % prime
            for x, axis in zip(values, axes, strict=True)
        ]
        images = [_block_image(axes, block, merged, prime) for block in blocks]
        used = {key for image in images for key in image.vectors}
        vectors = {(a, part): _vector(axes[a], part, merged[a], prime) for a, part in used}
        return cls(axes, prime, values, vectors, images)

    def lost(self, term: Term) -> Integers:
        """w (x − x̂) modulo p for every row w of the term, (queries,)."""
        borrow(3 * term.queries)
        work(len(term.products) * len(self.blocks) * (OBJECT + term.queries))
        total = np.zeros(term.row_shape, np.int64)
        for product in term.products:
            scale = _residue(product.coefficient, self.prime)
            total += scale * self._product_lost(product.factors) % self.prime
        return (total % self.prime).ravel()

    def _product_lost(self, factors: Sequence[Factor]) -> Integers:
        p = self.prime
        kept = self._outer({a: f.dot(self.values[a]) % p for a, f in enumerate(factors)})
        taken: dict[tuple[int, ...], Integers] = {}
        local = [f.columns(x.representatives) for f, x in zip(factors, self.axes, strict=True)]
        sums = [f.dot(np.ones(f.shape[1], np.int64)) for f in local]
        seen = {key: local[key[0]].dot(vector) % p for key, vector in self.vectors.items()}
        empty = {key for key, rows in seen.items() if not rows.any()}
        for image in self.blocks:
            if not empty.isdisjoint(image.vectors):
                continue
            found = self._outer({key[0]: seen[key] for key in image.vectors})
            for axes, parts in image.sides:
                side = [self._contract(local, sums, axes, part) for part in parts]
                found = found * (sum(side) % p) % p
            taken[found.shape] = taken.get(found.shape, np.int64(0)) + found
        for found in taken.values():  # few shapes: what most blocks yield is small
            kept = kept - found
        return np.asarray(kept % p)

    def _contract(
        self, local: list[Factor], sums: list[Integers], axes: tuple[int, ...], part: _Part
    ) -> Integers:
        """f · part on the part's axes, times the row sums on the other axes of its side."""
        tensor = part.tensor
        for i, a in enumerate(part.axes):
            rows = local[a].dot(np.moveaxis(tensor, i, 0)) % self.prime
            tensor = np.moveaxis(rows, 0, i)
        shape = [1] * len(self.axes)
        for i, a in enumerate(part.axes):
            shape[a] = tensor.shape[i]
        constant = {a: sums[a] % self.prime for a in axes if a not in part.axes}
        return tensor.reshape(shape) * self._outer(constant) % self.prime

    def _outer(self, vectors: dict[int, Integers]) -> Integers:
        """∏ vectors modulo p, an axis per attribute, of length 1 where there is no vector."""
        result = np.ones([1] * len(self.axes), np.int64)
        for a, vector in vectors.items():
            shape = [-1 if b == a else 1 for b in range(len(self.axes))]
            result = result * vector.reshape(shape) % self.prime
        return result


def _random(attribute: int, size: int, prime: int, seed: bytes) -> Integers:
    """Numbers below p that no query was made for; the same on every machine."""
    text = f"dhdmm probe {attribute} {prime}".encode() + seed
    digest = hashlib.shake_256(text).digest(8 * size)
    return (np.frombuffer(digest, "<u8") % np.uint64(prime)).astype(np.int64)


def _residue(coefficient: Fraction, prime: int) -> int:
    return coefficient.numerator * _inverse(coefficient.denominator, prime) % prime


def _inverse(number: int, prime: int) -> int:
    if number % prime == 0:
        raise _SingularModuloPrime
    return pow(number, -1, prime)


def _gathered(values: Integers, places: Integers, count: int) -> Integers:
    """Sums of the values that share a place."""
    sums = np.zeros(count, np.int64)
    np.add.at(sums, places, values)
    return sums


def _vector(axis: MeasuredAxis, part: int, merged: Integers, prime: int) -> Integers:
    members = np.arange(len(merged)) if part == MEAN else axis.part(part)
    x = merged[members]
    mean = int(x.sum()) * _inverse(len(members), prime) % prime
    if part == MEAN:
        return np.full(len(merged), mean)
    centred = np.zeros(len(merged), np.int64)
    centred[members] = (x - mean) % prime
    return centred


def _block_image(
    axes: tuple[MeasuredAxis, ...], block: Block, merged: list[Integers], prime: int
) -> _BlockImage:
    """The orthogonal projection of ⊗ x_a onto the block's row space."""
    vectors = [(residual.attribute, residual.part) for residual in block.residuals]
    held = {*block.axes, *(attribute for attribute, _ in vectors)}
    vectors += [(a, MEAN) for a in range(len(axes)) if a not in held]
    sides = [(side.axes, _side_image(axes, side, merged, prime)) for side in block.sides]
    return _BlockImage(vectors, sides)


def _side_image(
    axes: tuple[MeasuredAxis, ...], side: Side, merged: list[Integers], prime: int
) -> _Sum:
    """Bᵀ (B D Bᵀ)⁻¹ B x on merged values, D the sizes of orbits; the orbits' means if B is all."""
    orbits = [_gathered(merged[a], axes[a].orbit, len(axes[a].sizes)) % prime for a in side.axes]
    if _is_every_unit(side, [len(x) for x in orbits]):
        means = [
            x * np.array([_inverse(int(n), prime) for n in axes[a].sizes], np.int64) % prime
            for a, x in zip(side.axes, orbits, strict=True)
        ]
        return [_expanded(axes, side.axes, _product_tensor(means, prime), prime)]
    ids = side.basis.ids
    borrow(4 * len(ids) ** 2)
    Kx = np.ones(len(ids), np.int64)
    inner = np.ones((len(ids), len(ids)), np.int64)
    for i, a in enumerate(side.axes):
        vectors = axes[a].vectors % prime
        Kx = Kx * (multiply(vectors, orbits[i])[ids[:, i]] % prime) % prime
        table = multiply(vectors * axes[a].sizes % prime, vectors.T) % prime
        inner = inner * table[np.ix_(ids[:, i], ids[:, i])] % prime
    C = side.basis.written_out % prime
    gram = multiply(multiply(C, inner) % prime, C.T) % prime
    solved = _solve(gram, multiply(C, Kx)[:, None] % prime, prime)
    weights = multiply(C.T, solved)[:, 0] % prime
    parts = []
    for group in side.groups(axes):
        tensor = multiply(group.K.T, weights[group.products])
        shape = [len(axes[a].sizes) for a in group.axes]
        parts.append(_expanded(axes, group.axes, tensor.reshape(shape), prime))
    return parts


def _is_every_unit(side: Side, orbits: Sequence[int]) -> bool:
    """Whether B is the identity on orbits, but for the order of its rows.

    As many rows as columns are not enough: untrusted rows may depend on each other.
    """
    ids = side.basis.ids
    if len(ids) != math.prod(orbits) or not side.basis.is_plain:
        return False
    units = bool(np.all((ids >= 1) & (ids <= np.array(orbits, np.int64))))
    return units and len(np.unique(ids, axis=0)) == len(ids)


def _product_tensor(vectors: Sequence[Integers], prime: int) -> Integers:
    tensor = np.ones((), np.int64)
    for vector in vectors:
        tensor = np.multiply.outer(tensor, vector) % prime
    return np.asarray(tensor)


def _expanded(
    axes: tuple[MeasuredAxis, ...], held: tuple[int, ...], tensor: Integers, prime: int
) -> _Part:
    """From orbits to merged values."""
    allocate(math.prod(len(axes[a].orbit) for a in held))
    for i, a in enumerate(held):
        tensor = tensor.take(axes[a].orbit, axis=i)
    return _Part(held, np.asarray(tensor % prime, np.int64))


def _solve(gram: Integers, right: Integers, prime: int) -> Integers:
    """gram⁻¹ right modulo p, by halves: [A B; C D] with the Schur complement D − C A⁻¹ B.

    No pivots are sought: every leading minor of a Gram matrix of independent rows is positive.
    """
    n = len(gram)
    if n <= SMALL_SYSTEM:
        return _eliminate(gram, right, prime)
    h = n // 2
    first = _solve(gram[:h, :h], np.concatenate([gram[:h, h:], right[:h]], axis=1), prime)
    AB, Ar = first[:, : n - h], first[:, n - h :]
    schur = (gram[h:, h:] - multiply(gram[h:, :h], AB)) % prime
    lower = _solve(schur, (right[h:] - multiply(gram[h:, :h], Ar)) % prime, prime)
    upper = (Ar - multiply(AB, lower)) % prime
    return np.concatenate([upper, lower])


def _eliminate(gram: Integers, right: Integers, prime: int) -> Integers:
    """Gauss–Jordan."""
    n = len(gram)
    work(n * (OBJECT / 10 + 3 * (gram.size + right.size)))
    system = np.concatenate([gram, right], axis=1)
    for i in range(n):
        system[i] = system[i] * _inverse(int(system[i, i]), prime) % prime
        column = system[:, i].copy()
        column[i] = 0
        system = (system - column[:, None] * system[i]) % prime
    return system[:, n:]
