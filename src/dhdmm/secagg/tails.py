"""Probabilities far smaller than a double: binomial and hypergeometric tails as logarithms.

All logarithms are natural. Each tail is a series whose ratios decrease; what is not summed is
bounded by a geometric series, so a result is never below the truth (up to rounding).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
Numbers: TypeAlias = npt.NDArray[np.int64]

TERMS = 64  # of a series before its geometric remainder
_SLACK = 1e-6
_HALF_LOG_TAU = math.log(math.tau) / 2
_LOG_FACTORIALS = np.array([math.lgamma(n + 1) for n in range(24)])


def log_choose(n: Array | float, k: Array | float) -> Array:
    """ln of n over k for whole numbers 0 ≤ k ≤ n."""
    return log_factorial(n) - log_factorial(k) - log_factorial(np.subtract(n, k))


def log_factorial(n: Array | float) -> Array:
    """ln n! for whole numbers n ≥ 0; in arrays those that are not listed by Stirling's series,
    whose next term is < 10⁻¹⁵."""
    if np.ndim(n) == 0:
        return np.asarray(math.lgamma(float(n) + 1))
    whole = np.asarray(n, np.float64)
    x = np.maximum(whole, len(_LOG_FACTORIALS))
    u = 1 / (x * x)
    series = (1 / 12 - u * (1 / 360 - u * (1 / 1260 - u / 1680))) / x
    large = (x + 0.5) * np.log(x) - x + (_HALF_LOG_TAU + series)
    listed = whole < len(_LOG_FACTORIALS)
    if listed.any():
        large[listed] = _LOG_FACTORIALS[whole[listed].astype(np.int64)]
    return large


def is_below(log_probability: Array | float, bits: int) -> npt.NDArray[np.bool_]:
    """Whether probabilities are at most 2^−bits, with more to spare than logarithms are wrong by
    for every n up to a million."""
    return np.asarray(log_probability <= -bits * math.log(2) - _SLACK)


def log_hypergeometric_tail(population: int, marked: Array, k: int, x: int) -> Array:
    """ln Pr[Hyp(population, marked, k) ≥ x] for every entry of marked, never below the truth."""
    if x <= 0:
        return np.zeros_like(marked)
    if x > k:
        return np.full_like(marked, -np.inf)
    unmarked = population - marked
    possible, certain = marked >= x, unmarked < k - x
    some = np.where(possible & ~certain, marked, x)  # any value inside the support
    rest = np.where(possible & ~certain, unmarked, k)

    def ratio(j: Numbers) -> Array:
        y = x + j
        return np.asarray((some - y) * (k - y) / ((y + 1) * (rest - k + y + 1)))

    log_first = log_choose(some, x) + log_choose(rest, k - x) - log_choose(population, k)
    tail = log_series(log_first, ratio, min(k - x, TERMS))
    return np.where(certain, 0.0, np.where(possible, tail, -np.inf))


def log_binomial_tail(trials: Array, log_chance: Array, x: int) -> Array:
    """ln Pr[Bin(trials, chance) ≥ x] entrywise, for chances below 1, never below the truth."""
    possible = trials >= x
    some = np.where(possible, trials, x)
    log_miss = np.log(-np.expm1(log_chance))
    odds = np.exp(log_chance - log_miss)
    log_first = log_choose(some, x) + x * log_chance + (some - x) * log_miss

    def ratio(j: Numbers) -> Array:
        return np.asarray((some - x - j) / (x + j + 1) * odds)

    return np.where(possible, log_series(log_first, ratio, TERMS), -np.inf)


def log_series(log_first: Array, ratio: Callable[[Numbers], Array], terms: int) -> Array:
    """ln of first·(1 + r₀(1 + r₁(1 + …))), at most 0, for a probability's decreasing ratios r_j.

    After `terms` of them the rest is bounded by the geometric series of the next ratio. `ratio`
    takes all j at once, along a new first axis.
    """
    j = np.arange(terms + 1).reshape(-1, *[1] * np.ndim(log_first))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ratios = ratio(j)
        next_ratio = ratios[terms]
        rest = np.where(next_ratio < 1, 1 / np.abs(1 - next_ratio), np.inf)
        products = np.cumprod(ratios[:terms], axis=0)
        total = 1 + products[:-1].sum(axis=0) + products[-1] * rest if terms else rest
        total = np.where(np.isnan(total), np.inf, total)  # more than a double holds
        return np.minimum(0.0, log_first + np.log(total))
