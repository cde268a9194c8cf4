"""The climb to the best dual weights, the same for every kind of component.

F(d) is concave in the weights d, and at its maximum x_u = X_uu/F is 1 wherever there is weight and
no larger elsewhere. So weights go from q to q x², over and over. Whoever climbs judges every q by
its own bound and its own strategy, so nothing depends on convergence but the time it takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dhdmm.strategy.matrix import Floats
from dhdmm.strategy.watch import Watch

EXPONENT = 2.0
MEMORY = 5
"""Earlier steps that an extrapolation uses."""
LONGEST_STEP = 3.0
"""Of log q: limits the damage of a bad extrapolation."""
SMALLEST_MASS = 1e-13
MOMENTUM_EXPONENT = 2.5
"""Beyond 8/3 momentum overshoots: log X falls by up to half of what log q rises by."""
SMALLEST_OF_MANY = np.float32(1e-30)
"""No cell's weight is so small that it cannot grow again."""

Found = TypeVar("Found")
Weights = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Judged(Generic[Found]):
    """What weights lead to; `achieved` and `bound` are values of the objective."""

    x: Weights
    achieved: float
    bound: float
    found: Found
    """What the best strategy is known by."""


@dataclass(frozen=True, eq=False)
class Peak(Generic[Found]):
    """The best strategy and the highest bound that were met, each with its weights."""

    q: Weights
    found: Found
    achieved: float
    tightest: Weights


def ascend(
    climb: Climb | Momentum,
    judge: Callable[[Any], Judged[Found]],
    watch: Watch,
    tolerance: float,
    steps: int,
    figure: Callable[[float], float] = math.sqrt,
) -> Peak[Found]:
    """Until achieved / bound is within the tolerance of 1, or steps or time are over."""
    best, highest = None, -math.inf
    for _ in range(steps):
        q = climb.q
        judged = judge(q)
        if best is None or judged.achieved < best.achieved:
            best = Peak(q, judged.found, judged.achieved, q)
        if judged.bound > highest:
            highest, tightest = judged.bound, q
        watch.report(figure(best.achieved / highest))
        if best.achieved <= (1 + tolerance) * highest or watch.is_over:
            break
        climb.step(judged.x)
    assert best is not None
    return Peak(best.q, best.found, best.achieved, tightest)


def floored(mass: Floats, least: float = SMALLEST_MASS) -> Floats:
    """Normalised to sum 1, with no entry so small that X(d) loses its digits."""
    q = np.maximum(mass / mass.sum(), least)
    return np.asarray(q / q.sum())


@dataclass
class Climb:
    """q ← q x², extrapolated by Anderson's method.

    The next log q is the combination of the last steps' ends for which the same combination of
    their residuals log x², weighted by √q, is smallest.
    """

    q: Floats
    cuts: tuple[int, ...] = ()
    """Where q is several vectors one after the other, each of sum 1, these begin here."""
    least_share: float = 0.0
    """No entry falls below this part of the average of its vector."""
    _places: list[Floats] = field(default_factory=list)
    _residuals: list[Floats] = field(default_factory=list)

    def step(self, x: Floats) -> None:
        place, residual = np.log(self.q), EXPONENT * np.log(np.maximum(x, SMALLEST_MASS))
        move = residual
        if self._places:
            changes = np.stack([residual - earlier for earlier in self._residuals], axis=1)
            moves = np.stack([place - earlier for earlier in self._places], axis=1)
            weights = np.sqrt(self.q)
            combination = np.linalg.lstsq(
                changes * weights[:, None], residual * weights, rcond=1e-4
            )[0]
            move = residual - (moves + changes) @ combination
        self._places = [*self._places, place][-MEMORY:]
        self._residuals = [*self._residuals, residual][-MEMORY:]
        parts = np.split(place + np.clip(move, -LONGEST_STEP, LONGEST_STEP), self.cuts)
        self.q = np.concatenate([self._floored(np.exp(logs - logs.max())) for logs in parts])

    def _floored(self, mass: Floats) -> Floats:
        return floored(mass, max(SMALLEST_MASS, self.least_share / len(mass)))


@dataclass
class Momentum:
    """The same for tens of millions of weights, in place: Nesterov's momentum on log q.

    It converges like Anderson's method here, and remembers one array and not ten.
    """

    q: NDArray[np.float32]

    def __post_init__(self) -> None:
        self._velocity, self._steps = np.zeros_like(self.q), 0

    def step(self, x: NDArray[np.float32]) -> None:
        """Changes x, too."""
        np.log(np.maximum(x, SMALLEST_OF_MANY, out=x), out=x)
        x *= np.float32(MOMENTUM_EXPONENT)
        self._velocity *= np.float32(self._steps / (self._steps + 3))
        self._velocity += x
        self._steps += 1
        x += np.float32(self._steps / (self._steps + 3)) * self._velocity
        self.q *= np.exp(x, out=x)
        self.q *= np.float32(1 / self.q.sum(dtype=np.float64))
        np.maximum(self.q, SMALLEST_OF_MANY, out=self.q)
