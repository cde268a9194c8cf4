"""The model of a network: what links cost, and who is slow.

Every participant has a link of its own each way, the coordinator one shared link each way. A
message is forwarded when it is complete; a shared link carries one message at a time, first come,
first served. None is a link without a limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dhdmm.errors import DataError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """Log-normal values: half are below `median`, two thirds within a factor e^`sigma` of it."""

    median: float
    sigma: float
    seed: int = 0

    def values(self, count: int) -> Floats:
        drawn = np.random.default_rng(self.seed).standard_normal(count)
        return np.asarray(self.median * np.exp(self.sigma * drawn))


Values = float | Sequence[float] | Spread
"""One for all, one each, or drawn."""


@dataclass(frozen=True)
class Stragglers:
    """A share of the participants computes and transmits `slowdown` times slower."""

    share: float
    slowdown: float
    seed: int = 0

    def factors(self, count: int) -> Floats:
        order = np.random.default_rng(self.seed).permutation(count)
        factors = np.ones(count)
        factors[order[: round(self.share * count)]] = self.slowdown
        return factors


@dataclass(frozen=True)
class Network:
    """Links, and how long the coordinator waits in vain.

    `latency_ms` is one way. A phase ends when everybody has answered; if somebody does not, it
    ends no earlier than `patience_s` after it began: 0 means that silence is known at once.
    """

    participant_mbps: Values | None = None
    coordinator_mbps: float | None = None
    latency_ms: Values = 0.0
    patience_s: float = 0.0

    def participant_seconds_per_byte(self, count: int) -> Floats:
        if self.participant_mbps is None:
            return np.zeros(count)
        return _seconds_per_byte(_each(self.participant_mbps, count, "participant_mbps"))

    def coordinator_seconds_per_byte(self) -> float:
        if self.coordinator_mbps is None:
            return 0.0
        return float(_seconds_per_byte(_each(self.coordinator_mbps, 1, "coordinator_mbps"))[0])

    def latency_seconds(self, count: int) -> Floats:
        return _each(self.latency_ms, count, "latency_ms") / 1000


def _each(values: Values, count: int, name: str) -> Floats:
    if isinstance(values, Spread):
        return values.values(count)
    given = np.asarray(values, dtype=np.float64)
    if given.ndim and len(given) != count:
        raise DataError(f"{len(given)} values for {count} participants", where=name)
    return np.broadcast_to(given, (count,))


def _seconds_per_byte(mbps: Floats) -> Floats:
    if not (mbps > 0).all():
        raise DataError("a link carries more than nothing", hint="leave it out for no limit")
    return np.asarray(8e-6 / mbps)
