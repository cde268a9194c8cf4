"""Reports of one value out of d that are ε-private by themselves.

A report is a subset of the d values. Three classical ones differ only in how it is drawn:

- *generalised randomised response*: one value, mostly the own one;
- *subset selection* (Ye, Barg 2018): a fixed number ω of values; ω = 1 is the one above;
- *optimised unary encoding* (Wang, Blocki, Li, Jha 2017): every value by itself.

So four probabilities say everything about a report's mean and variance:

p  the own value is in it;  q  another value is;  r  two other values are;  s  the own and another
z  the unbiased estimate (1[value in report] − q)/(p − q) of the indicator of the own value

These are simulations of honest participants over public or made-up records, to know what the model
costs: nothing is secret, so a NumPy generator will do. Do not report real data with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dhdmm.strategy.matrix import Floats, Integers

CHUNK = 2**22
"""Random numbers that are held together."""

Draw = Callable[[Integers, np.random.Generator], NDArray[np.bool_]]


@dataclass(frozen=True)
class Randomiser:
    """How a participant reports one of `values` values."""

    name: str
    values: int
    p: float
    q: float
    r: float
    s: float
    draw: Draw
    """(m,) own values → (m, values): the reports."""

    def total_variance(
        self, row_sum: Floats, row_squares: Floats, truth: Floats, squares: Floats, reports: int
    ) -> Floats:
        """Variance, summed over all participants, of Σ_l w_l z_l for each query w.

        For a participant with own value j it is, over (p − q)²,
            w_j² p(1−p) + Σ w_l² q(1−q) + Σ_{l≠m} w_l w_m (r−q²) + 2 w_j Σ w_l (s−pq)
        with sums over l, m ≠ j. `row_sum` is Σ w_l and `row_squares` Σ w_l² over all values;
        `truth` is Σ_i w_{j_i} and `squares` Σ_i w²_{j_i} over all participants.
        """
        p, q, n = self.p, self.q, reports
        others = n * row_squares - squares
        pairs = n * row_sum**2 - 2 * row_sum * truth + squares - others
        mixed = row_sum * truth - squares
        variance = (
            squares * p * (1 - p)
            + others * q * (1 - q)
            + pairs * (self.r - q * q)
            + 2 * mixed * (self.s - p * q)
        )
        return np.asarray(variance / (p - q) ** 2)

    def estimate(self, own: Integers, generator: np.random.Generator) -> Floats:
        """(values,): Σ_i z over participants who hold `own` and really report."""
        held = np.zeros(self.values, np.int64)
        for part in _chunks(own, self.values):
            held += self.draw(part, generator).sum(axis=0)
        return np.asarray((held - len(own) * self.q) / (self.p - self.q))


def _chunks(own: Integers, values: int) -> Iterator[Integers]:
    step = max(1, CHUNK // values)
    return (own[start : start + step] for start in range(0, len(own), step))


def subset_selection(values: int, epsilon: float, size: int) -> Randomiser:
    """A set of `size` values: one that holds the own value is e^ε times as likely as another."""
    d, omega, gain = values, size, math.exp(epsilon)
    p = omega * gain / (omega * gain + d - omega)
    q = (p * (omega - 1) + (1 - p) * omega) / (d - 1)
    pairs = (d - 1) * max(d - 2, 1)
    r = (p * (omega - 1) * (omega - 2) + (1 - p) * omega * (omega - 1)) / pairs

    def draw(own: Integers, generator: np.random.Generator) -> NDArray[np.bool_]:
        order = generator.random((len(own), d))  # the ω smallest are chosen
        truthful = generator.random(len(own)) < p
        order[np.arange(len(own)), own] = np.where(truthful, -1.0, 2.0)
        chosen = np.argpartition(order, omega - 1, axis=1)[:, :omega]
        report = np.zeros((len(own), d), np.bool_)
        np.put_along_axis(report, chosen, True, axis=1)
        return report

    name = "GRR" if omega == 1 else f"SS({omega})"
    return Randomiser(name, d, p, q, r, p * (omega - 1) / (d - 1), draw)


def unary_encoding(values: int, epsilon: float) -> Randomiser:
    """OUE: the own value with chance ½, every other with chance 1/(e^ε + 1), independently."""
    p, q = 0.5, 1 / (math.exp(epsilon) + 1)

    def draw(own: Integers, generator: np.random.Generator) -> NDArray[np.bool_]:
        report = generator.random((len(own), values)) < q
        report[np.arange(len(own)), own] = generator.random(len(own)) < p
        return report

    return Randomiser("OUE", values, p, q, q * q, p * q, draw)


def candidates(values: int, epsilon: float) -> Iterator[Randomiser]:
    """GRR, OUE, and subsets of about d/(e^ε + 1) values, the best size in theory."""
    yield unary_encoding(values, epsilon)
    best = values / (math.exp(epsilon) + 1)
    for size in sorted({1, math.floor(best), math.ceil(best)}):
        if 1 <= size < values:
            yield subset_selection(values, epsilon, size)
