"""The estimate x̂ = A'⁺ M: a sum of tensors over few attributes each, constant in all others.

A query is a product of one vector per attribute, so its answer is a contraction of one axis at a
time; nothing of the size of the domain exists.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dhdmm.strategy.blocks import MeasuredAxis
from dhdmm.strategy.matrix import Floats
from dhdmm.study.factor import Factor, Ranges, is_total
from dhdmm.study.workload import Term

Attributes = frozenset[int]


def contained(sets: Collection[Attributes], among: Attributes) -> list[Attributes]:
    """The sets within `among`; its subsets are looked up where these are fewer.

    >>> contained({frozenset(): 1, frozenset({2}): 2}, frozenset({1, 2}))
    [frozenset(), frozenset({2})]
    """
    if 2 ** len(among) > len(sets):
        return [held for held in sets if held <= among]
    subsets = itertools.chain.from_iterable(
        itertools.combinations(sorted(among), size) for size in range(len(among) + 1)
    )
    return [held for held in map(frozenset, subsets) if held in sets]


def mode_product(factor: Factor, tensor: Floats, axis: int) -> Floats:
    """Σ_u F[i, u] tensor[…, u, …] along one axis."""
    return np.moveaxis(factor.dot(np.moveaxis(tensor, axis, 0)), 0, axis)


@dataclass(frozen=True, eq=False)
class Estimate:
    """x̂ on merged cells: Σ_S tensor_S(u_S), spread evenly over the attributes outside S."""

    axes: tuple[MeasuredAxis, ...]
    tensors: dict[tuple[tuple[int, ...], frozenset[int]], Floats]
    """(attributes S, those of S over which the tensor sums to zero) → tensor."""

    @cached_property
    def _by_centred(self) -> dict[Attributes, list[tuple[tuple[int, ...], Floats]]]:
        found: dict[Attributes, list[tuple[tuple[int, ...], Floats]]] = {}
        for (held, centred), tensor in self.tensors.items():
            found.setdefault(centred, []).append((held, tensor))
        return found

    def product(self, factors: Sequence[Factor]) -> Floats:
        """Answers to a Kronecker product, with an axis for every factor of several rows."""
        local = [on_merged(axis, factor) for axis, factor in zip(self.axes, factors, strict=True)]
        asked = {a: f for a, f in enumerate(local) if not is_total(f)}
        means = {a: f.dot(np.full(f.shape[1], 1 / f.shape[1])) for a, f in asked.items()}
        long = [a for a, f in asked.items() if f.shape[0] > 1]
        answers = np.zeros([local[a].shape[0] for a in long])
        varying = frozenset(a for a, factor in asked.items() if not is_constant(factor))
        for centred in contained(self._by_centred, varying):
            for held, tensor in self._by_centred[centred]:
                for i, a in enumerate(held):
                    tensor = mode_product(local[a], tensor, i)
                answers += outer(held, tensor, means, long)
        return answers

    def term(self, term: Term) -> Floats:
        """Unweighted answers of one term, (queries,)."""
        parts = [float(p.coefficient) * self.product(p.factors) for p in term.products]
        return np.asarray(sum(parts)).ravel()


def outer(
    held: tuple[int, ...], tensor: Floats, vectors: Mapping[int, Floats], long: Sequence[int]
) -> Floats:
    """tensor over `held` times the vectors of other attributes, with axes for those in `long`.

    The others have one row each.
    """
    sizes = dict(zip(held, tensor.shape, strict=True))
    result, number = tensor.reshape([sizes.get(a, 1) for a in long]), 1.0
    for a, vector in vectors.items():
        if a not in sizes and len(vector) == 1:
            number *= float(vector[0])
        elif a not in sizes:
            result = result * vector.reshape([-1 if b == a else 1 for b in long])
    return np.asarray(result * number)


def on_merged(axis: MeasuredAxis, factor: Factor) -> Factor:
    """F on merged values; equals F on values wherever it cannot tell merged ones apart."""
    if len(axis.orbit) == len(axis.merged):
        return factor
    return factor.columns(axis.representatives)


def is_constant(factor: Factor) -> bool:
    """Whether every row is a multiple of 1; false is always a safe answer."""
    if isinstance(factor, Ranges):
        return factor.shape[0] <= factor.size and bool(
            np.all((factor.low == 0) & (factor.high == factor.size))
        )
    matrix = factor.to_sparse()
    full = matrix.shape[0] == 1 and matrix.nnz == matrix.shape[1]
    return bool(full and np.ptp(matrix.data) == 0)
