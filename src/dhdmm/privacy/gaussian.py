"""The discrete Gaussian N_Z(0, σ²): Pr[x] ∝ exp(−x²/2σ²) on the integers, sampled exactly.

B = 2^b   block width, the largest power of two with 32·B ≤ σ (1 when σ < 64)
q, r      a magnitude |x| = qB + r, its block q ≥ 0 and its offset 0 ≤ r < B
g         exp(−B²/2σ²), so block q has weight g^(q²) = exp(−(qB)²/2σ²)
t         (2qB + r)·r/2σ², so that exp(−x²/2σ²) = g^(q²)·exp(−t)
U, V      uniform reals in [0, 1), known bit by bit

A proposal draws q with probability ∝ g^(q²) by inverting U, r uniformly, and a sign; it is accepted
when V < exp(−t), unless it is "minus zero". Every comparison with U or V is decided in integers,
where each rounding goes a known way. Tables and floating point only answer early, when their
answer is certain, so no output depends on how a platform rounds. The proof is in docs/noise.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from numbers import Rational

import numpy as np
from numpy.typing import NDArray

from dhdmm.errors import PrivacyError
from dhdmm.privacy.keystream import KeyStream

SMALLEST_VARIANCE = Fraction(1, 4)
LARGEST_VARIANCE = Fraction(10**18)

BLOCKS_PER_SIGMA = 32
U_BITS = 63  # of a proposal's first word; its last bit is the sign
V_BITS = 32  # the upper half of the second word; the offset is in the lower half
TABLE_BITS = U_BITS  # leading bits of U that the block table looks at
GUIDE_BITS = 14  # leading bits of U that find most blocks at once
UNDECIDED = np.uint16(0xFFFF)  # in the guide: a block ends within this cell
LARGEST_BATCH = 1 << 14  # proposals at a time, so that they stay in the processor's cache
V_MARGIN = 2.0**-31  # > 2^-32 (the unknown bits of V) + 2^-40 (all rounding of floats)
TAYLOR_TERMS = 12
LARGEST_TAYLOR_T = 0.5


class DiscreteGaussian:
    """N_Z(0, variance) with an exact rational variance between 1/4 and 10^18.

    >>> DiscreteGaussian(Fraction(7, 3)).sample(8, KeyStream.from_key_for_tests(bytes(32)))
    array([ 0,  1,  0, -1,  1, -3,  1, -1])
    """

    def __init__(self, variance: Fraction | int) -> None:
        if not isinstance(variance, Rational):
            raise PrivacyError(f"noise variance {variance!r} is not an exact rational number")
        if not SMALLEST_VARIANCE <= variance <= LARGEST_VARIANCE:
            raise PrivacyError(
                f"noise variance {variance} is not between {SMALLEST_VARIANCE} and 10^18"
            )
        self.variance = Fraction(variance)

    def __repr__(self) -> str:
        return f"DiscreteGaussian({self.variance})"

    def sample(self, count: int, stream: KeyStream) -> NDArray[np.int64]:
        """`count` independent draws: the first ones accepted of the proposals in `stream`."""
        table = block_table(self.variance, TABLE_BITS)
        samples = np.empty(count, np.int64)
        filled = 0
        while filled < count:
            accepted = table.propose(table.batch_size(count - filled), stream)[: count - filled]
            samples[filled : filled + len(accepted)] = accepted
            filled += len(accepted)
        return samples


@dataclass(frozen=True, eq=False)
class BlockTable:
    """What sampling at one variance looks up. Only `inverse` is rounded; the rest is exact."""

    variance: Fraction
    block_bits: int  # b
    table_bits: int
    ends: NDArray[np.uint64]  # of block_ends, each the first word with these leading bits
    guide: NDArray[np.uint16]  # the block of all words with the same GUIDE_BITS leading bits
    inverse: float  # 1/2σ²

    def batch_size(self, wanted: int) -> int:
        """Proposals that likely yield `wanted`: one is rejected with probability Pr[q = 0]/2."""
        proposed, accepted = 1 << 65, (1 << 65) - int(self.ends[0])
        return min(LARGEST_BATCH, wanted * proposed // accepted + isqrt(wanted) + 2)

    def propose(self, count: int, stream: KeyStream) -> NDArray[np.int64]:
        """The accepted ones among the next `count` proposals.

        A proposal's first word holds U and the sign; the second, read if B > 1, holds V and r.
        """
        words_each = 2 if self.block_bits else 1
        first, words = stream.read(words_each * count)
        position = range(first, first + len(words), words_each)
        words = words.reshape(count, words_each)
        x = self._blocks(words[:, 0], position, stream)
        accepted = np.ones(count, np.bool_)
        if self.block_bits:
            start = x << self.block_bits
            x = start + (words[:, 1] & np.uint64((1 << self.block_bits) - 1)).view(np.int64)
            accepted = self._below_exponential(words[:, 1], start, x, position, stream)
        sign = 1 - 2 * (words[:, 0] & np.uint64(1)).view(np.int64)
        accepted &= (x != 0) | (sign > 0)
        return (x * sign)[accepted]

    def _blocks(
        self, words: NDArray[np.uint64], position: range, stream: KeyStream
    ) -> NDArray[np.int64]:
        """For each word's U, the block q with Pr[block < q] ≤ U < Pr[block ≤ q]."""
        guided = self.guide[(words >> np.uint64(64 - GUIDE_BITS)).view(np.int64)]
        (unguided,) = np.nonzero(guided == UNDECIDED)
        q = guided.astype(np.int64)
        q[unguided] = found = np.searchsorted(self.ends, words[unguided], side="right")
        past_end = words[unguided] - self.ends[found - 1]
        tied = (found > 0) & (past_end < np.uint64(1 << (64 - self.table_bits)))
        for i in unguided[tied].tolist():
            q[i] = exact_block(self.variance, int(words[i]) >> 1, stream.extension(position[i]))
        return q

    def _below_exponential(
        self,
        words: NDArray[np.uint64],
        start: NDArray[np.int64],
        x: NDArray[np.int64],
        position: range,
        stream: KeyStream,
    ) -> NDArray[np.bool_]:
        """For each word's V, is V < exp(−t)? With start = qB, t = (x − start)(x + start)/2σ²."""
        v = (words >> np.uint64(64 - V_BITS)).view(np.int64) * 2.0**-V_BITS
        t = (x - start).astype(np.float64) * (x + start).astype(np.float64) * self.inverse
        below = v + V_MARGIN <= 1.0 - t  # 1 − t ≤ exp(−t): settles all but one in a hundred
        (unsure,) = np.nonzero(~below)
        gap = _taylor_exponential(t[unsure]) - v[unsure]
        below[unsure] = gap > 0
        undecided = (np.abs(gap) < V_MARGIN) | (t[unsure] > LARGEST_TAYLOR_T)
        for i in unsure[undecided].tolist():
            exponent = Fraction(int(x[i]) ** 2 - int(start[i]) ** 2) / (2 * self.variance)
            more = stream.extension(position[i] + 1)
            below[i] = exact_below_exponential(exponent, int(words[i]) >> (64 - V_BITS), more)
        return below


@lru_cache(maxsize=64)
def block_table(variance: Fraction, table_bits: int) -> BlockTable:
    """The table at one variance; milliseconds, at any variance."""
    shift = 64 - table_bits
    ends = np.array([end << shift for end in block_ends(variance, table_bits)], np.uint64)
    cells = np.arange(1 << GUIDE_BITS, dtype=np.uint64) << np.uint64(64 - GUIDE_BITS)
    last = cells + np.uint64((1 << (64 - GUIDE_BITS)) - 1)
    lowest = np.searchsorted(ends, cells, side="left")
    highest = np.searchsorted(ends, last, side="right")
    guide = np.where(lowest == highest, lowest, UNDECIDED).astype(np.uint16)
    return BlockTable(
        variance, block_bits(variance), table_bits, ends, guide, float(1 / (2 * variance))
    )


def block_bits(variance: Fraction) -> int:
    """b: the largest with 32·2^b ≤ σ, that is 4^b ≤ σ²/32²; 0 if there is none."""
    return max(0, int(variance / BLOCKS_PER_SIGMA**2).bit_length() - 1) // 2


def _taylor_exponential(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """exp(−t) within 2^-40 for 0 ≤ t ≤ 1/2, by additions, products and quotients alone."""
    p = np.ones_like(t)
    for k in range(TAYLOR_TERMS, 0, -1):
        p = 1.0 - p * t / k
    return p


# What follows decides. It is integer arithmetic: lower bounds are rounded down, upper bounds up.


def exact_block(variance: Fraction, u: int, more: Iterator[int]) -> int:
    """The block of U, given its first U_BITS bits `u` and the words of bits that follow."""
    bits = U_BITS
    while True:
        ends = block_ends(variance, bits)
        q = bisect_right(ends, u)
        if q == 0 or ends[q - 1] < u:
            return q
        u, bits = u << 64 | next(more), bits + 64


def exact_below_exponential(t: Fraction, v: int, more: Iterator[int]) -> bool:
    """Is V < exp(−t), given V's first V_BITS bits `v` and the words of bits that follow?"""
    bits = V_BITS
    while True:
        low, high = exponential_bounds(t, bits)
        if v + 1 <= low:
            return True
        if v >= high:
            return False
        v, bits = v << 64 | next(more), bits + 64


@lru_cache(maxsize=64)
def block_ends(variance: Fraction, bits: int) -> tuple[int, ...]:
    """⌊2^bits · Pr[block ≤ q]⌋ for q = 0, 1, … up to the first that is 2^bits − 1.

    U with first bits `u` is certainly in a block ≤ q if u < ends[q], certainly in one > q if
    u > ends[q]. Raises the precision until the bounds leave no floor in doubt.
    """
    precision = bits + 64
    while (ends := _ends_at_precision(variance, bits, precision)) is None:
        precision += 64
    return ends


def _ends_at_precision(variance: Fraction, bits: int, precision: int) -> tuple[int, ...] | None:
    """The ends if bounds with `precision` fractional bits determine them all, else None."""
    lows, highs, rest = weight_sums(variance, precision)
    largest = (1 << bits) - 1
    ends: list[int] = []
    for low, high in zip(lows, highs, strict=True):
        lower = (low << bits) // (highs[-1] + rest)
        upper = min((high << bits) // lows[-1], largest)  # a probability below 1
        if lower != upper:
            return None
        ends.append(lower)
        if lower == largest:
            return tuple(ends)
    return None


def weight_sums(variance: Fraction, precision: int) -> tuple[list[int], list[int], int]:
    """Bounds on 1 + g + g⁴ + … + g^(q²) for q = 0, 1, …, and an upper bound on what is left.

    In units of 2^-precision. One exponential suffices: weight q + 1 is weight q times g^(2q+1).
    """
    width = 1 << block_bits(variance)
    low_ratio, high_ratio = exponential_bounds(Fraction(width**2) / (2 * variance), precision)
    low_square = low_ratio * low_ratio >> precision
    high_square = _ceil_shift(high_ratio * high_ratio, precision)
    low_weight = high_weight = 1 << precision
    lows, highs = [0], [0]
    while high_weight > 1 << 16:
        lows.append(lows[-1] + low_weight)
        highs.append(highs[-1] + high_weight)
        low_weight = low_weight * low_ratio >> precision
        high_weight = _ceil_shift(high_weight * high_ratio, precision)
        low_ratio = low_ratio * low_square >> precision
        high_ratio = _ceil_shift(high_ratio * high_square, precision)
    # The ratios only fall, so the rest is below a geometric series.
    rest = -((high_weight << precision) // -((1 << precision) - high_ratio))
    return lows[1:], highs[1:], rest


def exponential_bounds(t: Fraction, bits: int) -> tuple[int, int]:
    """Integers low ≤ 2^bits · exp(−t) ≤ high, at most 2 apart, for t ≥ 0.

    Sums the series of exp(t/2^h), whose terms are all positive, squares h times and inverts.
    """
    h = 8 + int(t).bit_length()  # t/2^h ≤ 1/256
    precision = bits + h + 16
    low = high = low_term = high_term = 1 << precision
    k = 0
    while high_term > 1:
        k += 1
        divisor = k * t.denominator << h
        low_term = low_term * t.numerator // divisor
        high_term = -(high_term * t.numerator // -divisor)
        low += low_term
        high += high_term
    high += high_term  # every further term is below half of the one before
    for _ in range(h):
        low = low * low >> precision
        high = _ceil_shift(high * high, precision)
    return (1 << bits + precision) // high, -((1 << bits + precision) // -low)


def _ceil_shift(a: int, bits: int) -> int:
    return -(-a >> bits)
