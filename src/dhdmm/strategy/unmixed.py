"""A bound for components that are too large: a smaller workload that does not mix sets.

If Q ⪯ G for each Gram of a product then ⊗Q ⪯ ⊗G, and ‖·‖_* of the square roots can only shrink. In
the split (multiples of 1) ⊕ (zero-sum vectors) a Gram, weighted by d, is [[γ, gᵀ], [g, G₁]], and
for any θ in [gᵀG₁⁺g/γ, 1]

    [[γ, gᵀ], [g, G₁]]  ⪰  [[(1−θ)γ, 0], [0, G₁ − g gᵀ/(θγ)]]  ⪰  0,

which no longer mixes. On each set what remains is Σ_t c_t ⊗ Q_ta ⪰ its largest group of terms with
equal factors, whose trace of the root is a product of one number per attribute. Terms of several
products are left out, which only lowers the bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dhdmm.strategy.components import Attributes, Component, ComponentFinder
from dhdmm.strategy.matrix import Floats, Integers
from dhdmm.strategy.memo import memoised
from dhdmm.strategy.optimum import lowered_roots

SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)
"""Where θ lies between its least value and 1, tried one after the other."""
SAFETY = 1e-9


class UnmixedBound:
    """For dual weights d = ⊗ d_a that are equal wherever an attribute commutes in some term."""

    def __init__(self, finder: ComponentFinder, d: Sequence[Floats]) -> None:
        self.finder, self.d = finder, d
        self.axes = finder.reduction.axes

    def contribution(self, components: Sequence[Component]) -> float:
        """A lower bound for Σ tr (D^½ V D^½)^½ over the components."""
        sums = [sum(self._component(c, share) for c in components) for share in SHARES]
        return max(sums) * (1 - SAFETY)

    def _component(self, component: Component, share: float) -> float:
        return math.fsum(self._set(component, S, share) for S in component.sets)

    def _set(self, component: Component, S: Attributes, share: float) -> float:
        groups: dict[tuple[int, ...], float] = {}
        for number in sorted({v.term for v in component.visits if S in v.sets()}):
            term = self.finder.reduction.terms[number]
            if len(term.indices) > 1:
                continue
            index = term.indices[0]
            number_ = term.weight**2 * float(term.coefficients[0]) ** 2
            for a in range(len(self.axes)):
                if a not in S:
                    number_ *= self._split(a, index[a], share)[0]
            key = tuple(index[a] for a in sorted(S))
            groups[key] = groups.get(key, 0.0) + number_
        roots = [math.sqrt(c) * self._product(S, key, share) for key, c in groups.items()]
        return max(roots, default=0.0)

    def _product(self, S: Attributes, key: Sequence[int], share: float) -> float:
        return math.prod(self._split(a, i, share)[1] for a, i in zip(sorted(S), key, strict=True))

    @memoised
    def _split(self, a: int, index: int, share: float) -> tuple[float, float]:
        """((1−θ)γ, tr (G₁ − g gᵀ/(θγ))^½) of one factor."""
        return split_gram(self.axes[a].gram((index, index)), self.d[a], share)


def split_gram(gram: Integers, d: Floats, share: float) -> tuple[float, float]:
    """For D^½ G D^½, whose multiples of 1 are those of √d."""
    one = np.sqrt(d)
    gram_d = gram * np.outer(one, one)
    gamma = float(one @ gram_d @ one)
    g = gram_d @ one - gamma * one
    projector = np.eye(len(d)) - np.outer(one, one)
    G: Floats = projector @ gram_d @ projector
    rounding = float(np.finfo(float).eps * np.trace(gram_d))
    if not np.any(np.abs(g) > max(1e-12 * gamma, rounding)):
        return max(gamma, 0.0), root_trace(G)
    if gamma <= rounding:  # and g is not, so nothing is known of g gᵀ/γ
        return 0.0, 0.0
    least = min(float(g @ np.linalg.pinv(G, rcond=1e-12) @ g) / gamma, 1.0)
    theta = least + share * (1 - least)
    return (1 - theta) * gamma, root_trace(G - np.outer(g, g) / (theta * gamma))


def root_trace(M: Floats) -> float:
    """tr M^½ or a little less."""
    return math.fsum(lowered_roots((M + M.T) / 2))
