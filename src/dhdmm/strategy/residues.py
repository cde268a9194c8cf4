"""Linear algebra modulo several primes at once, where nothing is rounded.

Every array has a leading axis with one entry for each prime.

p: the primes, (primes,), each below 2²⁰: doubles hold sums of 8,192 products of two residues.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.effort import OBJECT, borrow, work
from dhdmm.strategy.matrix import FLOAT, Integers, runs
from dhdmm.study.factor import Factor, Ranges

SMALL_SYSTEM = 48
"""Equations that are solved by elimination; larger systems are halved."""
LONGEST_SUM = 2**13
SHARED = -1
"""As the group of an equation: it may meet every other one."""
Entries = Callable[[Integers, Integers], Integers]
"""A symmetric matrix: what stands at these rows and columns, (primes, …)."""


class SingularModuloPrime(Exception):
    """This prime divides what must be inverted."""

    def __init__(self, prime: int) -> None:
        self.prime = prime


def spread(p: Integers, array: NDArray[Any]) -> Integers:
    """The primes, with as many axes as the array."""
    return p.reshape(-1, *[1] * (array.ndim - 1))


def reduced(array: Integers, p: Integers) -> Integers:
    return np.asarray(array % spread(p, array))


def summed(array: Integers, starts: Integers, p: Integers) -> Integers:
    """Sums of the last axis from each start up to the next one."""
    return reduced(np.add.reduceat(array, starts, axis=-1), p)


def inverse_numbers(numbers: Integers, p: Integers) -> Integers:
    """(primes, numbers): of numbers many of which are equal."""
    different, place = np.unique(numbers, return_inverse=True)
    return inverse(different % p[:, None], p)[:, place.ravel()]


def inverse(numbers: Integers, p: Integers) -> Integers:
    """Of every residue; there are few of them."""
    work(OBJECT / 4 * numbers.size)
    found = []
    for prime, given in zip(p.tolist(), numbers.reshape(len(p), -1).tolist(), strict=True):
        if 0 in given:
            raise SingularModuloPrime(prime)
        found.append([pow(number, -1, prime) for number in given])
    return np.array(found, np.int64).reshape(numbers.shape)


def product(left: Integers, right: Integers, p: Integers) -> Integers:
    """left @ right for every prime, by doubles."""
    work(FLOAT * left.size * right.shape[-1])
    total = np.zeros((*left.shape[:-1], right.shape[-1]), np.int64)
    for start in range(0, left.shape[-1], LONGEST_SUM):
        part = slice(start, start + LONGEST_SUM)
        L, R = left[..., part].astype(np.float64), right[..., part, :].astype(np.float64)
        total = reduced(total + (L @ R).astype(np.int64), p)
    return total


def added(values: Integers, places: Integers, count: int, p: Integers) -> Integers:
    """(primes, count): sums of residues (primes, …) that share a place; doubles hold them."""
    found = np.stack([np.bincount(places, own, count) for own in values])
    return reduced(found.astype(np.int64), p)


def random_residues(name: str, count: int, p: Integers, seed: bytes) -> Integers:
    """(primes, count): numbers that nobody chose; the same on every machine.

    Up to three primes take theirs from the same 64 bits: by the Chinese remainder theorem they are
    independent, but for a factor of 17/16 in probability.
    """
    borrow((2 + len(p)) * count)
    digest = hashlib.shake_256(f"dhdmm probe {name} ".encode() + seed).digest(8 * count)
    drawn = np.frombuffer(digest, "<u8")
    return np.asarray(drawn % p.astype(np.uint64)[:, None], np.int64)


def combined_rows(factors: Sequence[Factor], weights: Sequence[Integers], p: Integers) -> Integers:
    """(primes, values of all factors): the sum of each one's rows, times weights (primes, rows)."""
    sizes = np.array([factor.shape[1] for factor in factors])
    first = np.cumsum(sizes) - sizes
    ranges = [(i, factor) for i, factor in enumerate(factors) if isinstance(factor, Ranges)]
    entries = sum(weight.size for weight in weights)
    borrow(3 * entries + len(p) * int(sizes.sum()))
    work(20 * entries)
    found = np.zeros((len(p), int(sizes.sum())), np.int64)
    if ranges:  # each row's weight begins at low, and ends at high
        held = np.concatenate([weights[i] for i, _ in ranges], axis=1)
        low = [one.low + first[i] for i, one in ranges]
        high = [one.high + first[i] for i, one in ranges]
        place = np.concatenate([*low, *high])
        steps = added(np.concatenate([held, -held], axis=1), place, found.shape[1] + 1, p)
        found = reduced(np.cumsum(steps[:, :-1], axis=1), p)
    for i, (factor, weight) in enumerate(zip(factors, weights, strict=True)):
        if isinstance(factor, Ranges):
            continue
        matrix = factor.matrix
        borrow(3 * len(p) * matrix.nnz)
        work(20 * len(p) * matrix.nnz)
        row = np.repeat(np.arange(factor.shape[0]), np.diff(matrix.indptr))
        own = reduced(reduced(matrix.data[None], p) * weight[:, row], p)
        found[:, first[i] : first[i] + sizes[i]] = added(own, matrix.indices, int(sizes[i]), p)
    return found


def solve(gram: Integers, right: Integers, p: Integers) -> Integers:
    """gram⁻¹ right, (primes, …, n, n) and (primes, …, n, m), by halves.

    [A B; C D] is solved with the Schur complement D − C A⁻¹ B. No pivots are sought: every leading
    minor of a Gram matrix of independent rows is positive.
    """
    n = gram.shape[-1]
    if n <= SMALL_SYSTEM:
        return _eliminate(gram, right, p)
    h = n // 2
    first = solve(
        gram[..., :h, :h], np.concatenate([gram[..., :h, h:], right[..., :h, :]], axis=-1), p
    )
    AB, Ar = first[..., : n - h], first[..., n - h :]
    C = gram[..., h:, :h]
    schur = reduced(gram[..., h:, h:] - product(C, AB, p), p)
    lower = solve(schur, reduced(right[..., h:, :] - product(C, Ar, p), p), p)
    upper = reduced(Ar - product(AB, lower, p), p)
    return np.concatenate([upper, lower], axis=-2)


def _eliminate(gram: Integers, right: Integers, p: Integers) -> Integers:
    """Gauss–Jordan without divisions; a zero that is left on the diagonal is a singular system."""
    n = gram.shape[-1]
    work(n * (OBJECT / 10 + 4 * (gram.size + right.size)))
    system = np.concatenate([gram, right], axis=-1)
    primes = spread(p, system)
    for i in range(n):
        pivot, column = system[..., i : i + 1, i : i + 1], system[..., :, i : i + 1].copy()
        column[..., i, :] -= 1  # so that the row itself stays
        system = (pivot * system - column * system[..., i : i + 1, :]) % primes
    diagonal = np.einsum("...ii->...i", system[..., :n])[..., None]
    return reduced(system[..., n:] * inverse(diagonal, p), p)


def solve_in_groups(gram: Entries, right: Integers, group: Integers, p: Integers) -> Integers:
    """The same where equations of different groups do not meet, (primes, n, m).

    Groups are solved side by side, and the SHARED equations afterwards: with
    groups of g equations and s shared ones, that takes g + s steps instead of n.
    """
    every = np.arange(len(group))
    alone, border = every[group != SHARED], every[group == SHARED]
    if not len(alone):
        return solve(gram(every[:, None], every), right, p)
    _, of, sizes = np.unique(group[alone], return_inverse=True, return_counts=True)
    order = np.argsort(of, kind="stable")
    place = runs(np.zeros_like(sizes), sizes)
    members = np.full((len(sizes), sizes.max()), -1)
    members[of[order], place] = alone[order]
    held = members >= 0
    D = gram(members[:, :, None], members[:, None, :]) * (held[:, :, None] & held[:, None, :])
    D = D + np.eye(members.shape[1], dtype=np.int64) * ~held[:, None, :]
    beside = gram(every[:, None], border)
    wide = np.concatenate([beside, right], axis=2)
    small = solve(D, wide[:, members] * held[:, :, None], p)
    X = np.zeros(wide.shape, np.int64)
    X[:, members[held]] = small[:, held]
    B, r = X[:, alone, : len(border)], X[:, alone, len(border) :]
    C = beside[:, alone].transpose(0, 2, 1)
    schur = reduced(beside[:, border] - product(C, B, p), p)
    lower = solve(schur, reduced(right[:, border] - product(C, r, p), p), p)
    found = np.zeros_like(right)
    found[:, border] = lower
    found[:, alone] = reduced(r - product(B, lower, p), p)
    return found
