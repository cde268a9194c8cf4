"""A second, slow discrete Gaussian sampler that shares no arithmetic with dhdmm.privacy.gaussian.

It follows the definition in docs/noise.md one proposal and one comparison at a time. Every
comparison of a random real with a probability is made by mpmath's interval arithmetic; there is no
filter and no table of rounded numbers. Given the same key it must return the same integers.

Run as a program it writes tests/vectors/gaussian.json.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import count as count_from
from pathlib import Path
from typing import Any

from mpmath import iv

from dhdmm.privacy.keystream import KeyStream

VECTORS = Path(__file__).parent.parent / "vectors" / "gaussian.json"
GUARD_BITS = 80

Interval = Any


def reference_samples(variance: Fraction, count: int, stream: KeyStream) -> list[int]:
    """The first `count` accepted proposals of `stream`."""
    samples: list[int] = []
    while len(samples) < count:
        x = _proposal(variance, stream)
        if x is not None:
            samples.append(x)
    return samples


def _proposal(variance: Fraction, stream: KeyStream) -> int | None:
    b = block_bits(variance)
    u, u_more = _word(stream)
    x = _block(variance, b, u >> 1, u_more) << b
    if b:
        v, v_more = _word(stream)
        start, x = x, x + v % 2**b
        t = Fraction(x**2 - start**2) / (2 * variance)
        if not _below(v >> 32, 32, v_more, lambda bits: _exponential(t, bits + GUARD_BITS)):
            return None
    if u % 2 and x == 0:
        return None
    return -x if u % 2 else x


def block_bits(variance: Fraction) -> int:
    """The largest b with 32·2^b ≤ σ, or 0."""
    b = 0
    while (32 * 2 ** (b + 1)) ** 2 <= variance:
        b += 1
    return b


def _word(stream: KeyStream) -> tuple[int, Iterator[int]]:
    position, words = stream.read(1)
    return int(words[0]), stream.extension(position)


def _block(variance: Fraction, b: int, u: int, more: Iterator[int]) -> int:
    """min{q : U < Pr[block ≤ q]}, with the further bits of U read once and kept."""
    kept: list[int] = []

    def replay() -> Iterator[int]:
        for i in count_from():
            if i == len(kept):
                kept.append(next(more))
            yield kept[i]

    def below(q: int) -> bool:
        return _below(u, 63, replay(), lambda bits: _cumulative(variance, b, q, bits))

    low, high = -1, 1
    while not below(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if below(middle) else (middle, high)
    return high


def _below(
    prefix: int, bits: int, more: Iterator[int], probability: Callable[[int], Interval]
) -> bool:
    """Is the real number with these first bits, and `more` after them, below a probability?"""
    while True:
        p = probability(bits) * 2**bits
        if prefix + 1 <= p.a:
            return True
        if prefix >= p.b:
            return False
        prefix, bits = prefix * 2**64 + next(more), bits + 64


def _exponential(t: Fraction, precision: int) -> Interval:
    iv.prec = precision
    return iv.exp(-iv.mpf(t.numerator) / t.denominator)


def _cumulative(variance: Fraction, b: int, q: int, bits: int) -> Interval:
    sums = _weight_sums(variance, b, bits)
    iv.prec = bits + GUARD_BITS
    return sums[min(q, len(sums) - 2)] / sums[-1]


@lru_cache(maxsize=64)
def _weight_sums(variance: Fraction, b: int, bits: int) -> list[Interval]:
    """Σ_{i ≤ q} exp(−(i·2^b)²/2σ²) for q = 0, 1, …; the last entry is the sum over all i.

    Let w be the first weight below 2^-(bits + 80), bits ≥ 63, so that i·2^b > 14σ. As 2^b > σ/64,
    each later weight is at most exp(−14/64) < 7/8 of the one before; with w they sum to at most 8w.
    """
    sums: list[Interval] = []
    total = iv.mpf(0)
    for i in count_from():
        weight = _exponential(Fraction((i << b) ** 2) / (2 * variance), bits + GUARD_BITS)
        if weight.b * 2 ** (bits + GUARD_BITS) < 1:
            break
        total += weight
        sums.append(total)
    return [*sums, total + 8 * weight * iv.mpf([0, 1])]


VECTOR_VARIANCES = [
    *("1/4", "1/2", "2", "7/3", "10", "4095", "4096", "10000", "1000003/17"),
    *("100000000", "1000000000000", "1000000000000000000"),
]


def make_vectors() -> dict[str, Any]:
    """The words of one key, and for every variance the first samples under a key of its own."""
    key = bytes(range(32))
    _, words = KeyStream.from_key_for_tests(key).read(4)
    extension = KeyStream.from_key_for_tests(key).extension(3)
    stream = {
        "key": key.hex(),
        "words": [f"{word:016x}" for word in words.tolist()],
        "extension_of_word_3": [f"{next(extension):016x}" for _ in range(4)],
    }
    return {"stream": stream, "samples": [_sample_vector(text) for text in VECTOR_VARIANCES]}


def _sample_vector(variance: str) -> dict[str, Any]:
    key = hashlib.sha256(variance.encode()).digest()
    samples = reference_samples(Fraction(variance), 40, KeyStream.from_key_for_tests(key))
    return {"variance": variance, "key": key.hex(), "samples": samples}


def _write(vectors: dict[str, Any]) -> None:
    lines = ",\n  ".join(json.dumps(vector) for vector in vectors["samples"])
    text = f'{{\n "stream": {json.dumps(vectors["stream"])},\n "samples": [\n  {lines}\n ]\n}}\n'
    VECTORS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    _write(make_vectors())
