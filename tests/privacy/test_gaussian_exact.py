"""Bitwise: the fast sampler equals the reference, whatever its filters let pass."""

from __future__ import annotations

import hashlib
import itertools
import json
from fractions import Fraction

import numpy as np
import pytest
from mpmath import iv

from dhdmm.errors import PrivacyError
from dhdmm.privacy import gaussian
from dhdmm.privacy.gaussian import DiscreteGaussian, block_ends, exponential_bounds
from dhdmm.privacy.keystream import KeyStream
from tests.privacy.reference_gaussian import VECTORS, block_bits, make_vectors, reference_samples

VARIANCES = [
    Fraction(text)
    for text in ("1/4", "1/2", "7/3", "10", "4095", "4096", "1000003/17", "1e8", "1e12", "1e18")
]


def stream_for(variance: Fraction) -> KeyStream:
    return KeyStream.from_key_for_tests(hashlib.sha256(f"exact {variance}".encode()).digest())


class ScriptedStream:
    """Words chosen by the test; the extension of every word is the same chosen sequence."""

    def __init__(self, words: list[int], extension: list[int]) -> None:
        self.words, self.more, self.position = words, extension, 0

    def read(self, count: int) -> tuple[int, np.ndarray]:
        first, self.position = self.position, self.position + count
        padded = self.words[first : first + count] + [0] * max(0, first + count - len(self.words))
        return first, np.array(padded[:count], np.uint64)

    def extension(self, position: int) -> itertools.chain[int]:
        return itertools.chain(self.more, itertools.repeat(0x123456789ABCDEF0))


@pytest.mark.slow
@pytest.mark.fault(32)
@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_equals_the_reference_bit_by_bit(variance):
    fast = DiscreteGaussian(variance).sample(500, stream_for(variance))
    assert fast.dtype == np.int64
    assert fast.tolist() == reference_samples(variance, 500, stream_for(variance))


@pytest.mark.soak
@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_equals_the_reference_on_many_draws(variance):
    fast = DiscreteGaussian(variance).sample(30_000, stream_for(variance))
    assert fast.tolist() == reference_samples(variance, 30_000, stream_for(variance))


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_output_does_not_depend_on_what_the_filters_decide(variance, monkeypatch):
    """A margin of 1/4 and a 14-bit table send thousands of draws the exact way; none changes."""
    count = 10_000
    filtered = DiscreteGaussian(variance).sample(count, stream_for(variance))
    exact = {"exact_block": 0, "exact_below_exponential": 0}
    for name in exact:
        original = getattr(gaussian, name)

        def counted(*arguments, original=original, name=name):
            exact[name] += 1
            return original(*arguments)

        monkeypatch.setattr(gaussian, name, counted)
    monkeypatch.setattr(gaussian, "V_MARGIN", 0.25)
    monkeypatch.setattr(gaussian, "TABLE_BITS", gaussian.GUIDE_BITS)
    unfiltered = DiscreteGaussian(variance).sample(count, stream_for(variance))
    assert np.array_equal(filtered, unfiltered)
    if variance >= 4095:
        assert exact["exact_block"] > 50
    if block_bits(variance):
        assert exact["exact_below_exponential"] > 1000


@pytest.mark.fault(32)
def test_a_filter_without_margin_is_noticed(monkeypatch):
    """The weakened variant: floats that decide within half the last known bits of V do go wrong."""
    variance = Fraction(10**8)
    q, b = 40, block_bits(variance)
    x = (q << b) + 100
    t = Fraction(x**2 - (q << b) ** 2) / (2 * variance)
    low, _ = exponential_bounds(t, 32)
    u = (gaussian.block_ends(variance, 63)[q - 1] + 1) << 1
    words = [u, low << 32 | 100]
    all_ones = [2**64 - 1]  # V just above the grid point's cell: beyond exp(−t), so rejected
    right = reference_samples(variance, 1, ScriptedStream(words, all_ones))
    assert DiscreteGaussian(variance).sample(1, ScriptedStream(words, all_ones)).tolist() == right
    assert right != [x]
    monkeypatch.setattr(gaussian, "V_MARGIN", 0.0)
    assert DiscreteGaussian(variance).sample(1, ScriptedStream(words, all_ones)).tolist() == [x]


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
@pytest.mark.parametrize("nudge", [-2, -1, 0, 1, 2])
@pytest.mark.parametrize("extension", [[0, 0], [2**64 - 1, 2**64 - 1], [2**63]], ids=str)
def test_words_at_the_end_of_a_block_fall_on_the_right_side(variance, nudge, extension):
    ends = block_ends(variance, 63)
    chosen = ends[:2] + ends[len(ends) // 2 : len(ends) // 2 + 2] + ends[-2:-1]
    words = [word for end in chosen for word in (min(max((end << 1) + nudge, 0), 2**64 - 1), 7)]
    scripted = DiscreteGaussian(variance).sample(4, ScriptedStream(words, extension))
    reference = reference_samples(variance, 4, ScriptedStream(words, extension))
    assert scripted.tolist() == reference


@pytest.mark.slow
@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_the_tail_has_no_end(variance):
    """All of U's first 63 bits set: farther out than the table, decided by the bits that follow."""
    sigma = float(variance) ** 0.5
    reached = []
    for ones in range(4):
        extension = [2**64 - 1] * ones + [1]
        words = [2**64 - 2, 3]
        sample = DiscreteGaussian(variance).sample(1, ScriptedStream(words, extension))
        assert sample.tolist() == reference_samples(variance, 1, ScriptedStream(words, extension))
        reached.append(int(sample[0]))
    assert reached == sorted(reached)
    assert reached[0] >= 8 * sigma
    assert reached[3] >= 17 * sigma


@pytest.mark.parametrize(
    "t", [Fraction(0), Fraction(1, 7), Fraction(1, 3), Fraction(5, 2), Fraction(50)]
)
@pytest.mark.parametrize("bits", [32, 63, 96, 500])
def test_exponential_bounds_enclose_the_exponential_tightly(t, bits):
    low, high = exponential_bounds(t, bits)
    iv.prec = bits + 200
    scaled = iv.exp(-iv.mpf(t.numerator) / t.denominator) * 2**bits
    assert low <= scaled.b
    assert scaled.a <= high
    assert high - low <= 2


def test_taylor_polynomial_is_within_its_certified_error():
    t = np.linspace(0.0, gaussian.LARGEST_TAYLOR_T, 2001)
    iv.prec = 120
    for value, approximation in zip(t, gaussian._taylor_exponential(t), strict=True):
        error = iv.mpf(float(approximation)) - iv.exp(-iv.mpf(float(value)))
        assert abs(error).b < 2.0**-40


@pytest.mark.fault(32)
def test_matches_the_published_vectors():
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))
    for vector in vectors["samples"]:
        stream = KeyStream.from_key_for_tests(bytes.fromhex(vector["key"]))
        samples = DiscreteGaussian(Fraction(vector["variance"])).sample(40, stream)
        assert samples.tolist() == vector["samples"], vector["variance"]


def test_published_vectors_are_what_the_reference_gives():
    assert json.loads(VECTORS.read_text(encoding="utf-8")) == make_vectors()


def test_batches_do_not_show_in_the_output(monkeypatch):
    variance = Fraction(10**8)
    whole = DiscreteGaussian(variance).sample(3000, stream_for(variance))
    assert np.array_equal(whole[:10], DiscreteGaussian(variance).sample(10, stream_for(variance)))
    monkeypatch.setattr(gaussian, "LARGEST_BATCH", 64)
    assert np.array_equal(whole, DiscreteGaussian(variance).sample(3000, stream_for(variance)))


def test_a_second_call_continues_the_stream():
    variance, stream = Fraction(10**18), stream_for(Fraction(10**18))
    first, second = (DiscreteGaussian(variance).sample(100, stream) for _ in range(2))
    assert not set(first.tolist()) & set(second.tolist())


def test_zero_draws_read_nothing():
    stream = stream_for(Fraction(2))
    assert DiscreteGaussian(2).sample(0, stream).tolist() == []
    assert stream.read(1)[0] == 0


@pytest.mark.parametrize(
    "variance", [0, -1, Fraction(1, 5), 10**18 + 1, 2.0, float("nan"), float("inf"), "2", None]
)
def test_refuses_a_variance_that_is_inexact_or_out_of_range(variance):
    with pytest.raises(PrivacyError, match="noise variance"):
        DiscreteGaussian(variance)
