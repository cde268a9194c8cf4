"""Masks cancel exactly, are uniform, and travel in one canonical form."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from dhdmm.aggregation.errors import LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.masks import add_masks
from dhdmm.aggregation.modulus import Modulus, pack, packed_size, unpack
from tests.secagg.seeded import seeded

FALSE_ALARM = 1e-6
MODULI = [Modulus(1 << bits) for bits in range(1, 64)]
moduli = st.sampled_from(MODULI)
seeds = st.binary(min_size=32, max_size=32)


def add_mask(modulus, accumulator, seed, sign):
    add_masks(modulus, accumulator, [(seed, sign)])


def mask(modulus, seed, length):
    vector = modulus.zeros(length)
    add_mask(modulus, vector, seed, 1)
    return modulus.reduce(vector)


def looks_uniform(values, outcomes):
    """Pearson's χ²; a uniform source fails once in a million seeds."""
    counts = np.bincount(values, minlength=outcomes)
    expected = len(values) / outcomes
    return ((counts - expected) ** 2).sum() / expected < chi2.isf(FALSE_ALARM, outcomes - 1)


def test_key_stream_is_the_standards():
    """The output blocks of AES-128-CTR in NIST SP 800-38A, F.5.1."""
    seed = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3cf0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    blocks = bytes.fromhex(
        "ec8cdf7398607cb0f2d21675ea9ea1e4362b7c3c6773516318a077d7fc5073ae"
        "6a2cc3787889374fbeb4c81b17ba6c44e89c399ff0f198c6d40a31db156cabfe"
    )
    assert mask(Modulus(2**32), seed, 16).tobytes() == blocks
    low_63_bits = np.frombuffer(blocks, dtype="<u8") & np.uint64(2**63 - 1)
    assert mask(Modulus(2**63), seed, 8).tolist() == low_63_bits.tolist()


@given(moduli, seeds, st.integers(0, 50), st.data())
def test_mask_added_and_subtracted_leaves_the_input(modulus, seed, length, data):
    integers = data.draw(
        st.lists(st.integers(0, modulus.value - 1), min_size=length, max_size=length)
    )
    vector = np.array(integers, dtype=modulus.dtype)
    add_mask(modulus, vector, seed, 1)
    add_mask(modulus, vector, seed, -1)
    assert modulus.reduce(vector).tolist() == integers


@pytest.mark.parametrize("value", [2, 2**25, 2**32, 2**33, 2**63])
def test_masks_added_together_are_those_added_one_by_one(value):
    modulus = Modulus(value)
    signed_seeds = [(seeded(number)(32), sign) for number, sign in enumerate((1, -1, -1, 1))]
    together, one_by_one = modulus.zeros(40_000), modulus.zeros(40_000)
    add_masks(modulus, together, signed_seeds)
    for seed, sign in signed_seeds:
        add_mask(modulus, one_by_one, seed, sign)
    assert (together == one_by_one).all()


@pytest.mark.parametrize("value", [2, 2**25, 2**32, 2**33, 2**63])
def test_masks_of_many_neighbours_cancel_over_chunks(value):
    modulus = Modulus(value)
    rng, length = np.random.default_rng(8), 40_000
    total = np.array([0] * length, dtype=object)
    accumulator = modulus.zeros(length)
    for number in range(3):
        seed, x = seeded(number)(32), rng.integers(0, modulus.value, length, dtype=np.uint64)
        total += x.astype(object)
        y = x.astype(modulus.dtype)
        add_mask(modulus, y, seed, 1)
        modulus.add(accumulator, modulus.reduce(y))
        add_mask(modulus, accumulator, seed, -1)
    assert (modulus.reduce(accumulator) == total % modulus.value).all()


@settings(max_examples=30)
@given(moduli, seeds, st.integers(1, 70_000), st.integers(1, 70_000))
def test_shorter_mask_is_the_beginning_of_the_longer(modulus, seed, one, other):
    short, long = sorted([one, other])
    assert (mask(modulus, seed, short) == mask(modulus, seed, long)[:short]).all()


@pytest.mark.parametrize("value", [2, 16, 256])
def test_masks_are_uniform_in_the_residues(value):
    assert looks_uniform(mask(Modulus(value), seeded(("mask", value))(32), 50_000), value)


def test_words_that_are_not_uniform_would_be_noticed():
    words = mask(Modulus(32), seeded("folded")(32), 50_000)
    assert looks_uniform(words, 32)
    assert not looks_uniform(words % 17, 17)


@given(moduli, st.lists(st.integers(-(2**62), 2**62), max_size=20))
def test_signed_integers_return_if_they_fit(modulus, integers):
    half = modulus.value // 2
    fitting = [(x + half) % modulus.value - half for x in integers]
    vector = modulus.residues(np.array(fitting, dtype=np.int64))
    assert vector.tolist() == [x % modulus.value for x in fitting]
    assert modulus.signed(vector).tolist() == fitting


@pytest.mark.parametrize(
    "value",
    [-3, -2, 0, 1, 3, 6, 9, 251, 2**31 - 1, 2**31 + 1, 2**63 - 1, 2**63 + 29, 2**64],
)
def test_refuses_other_moduli(value):
    with pytest.raises(LocalProtocolError):
        Modulus(value)


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_refuses_seeds_of_another_length(size):
    with pytest.raises(LocalProtocolError):
        add_mask(Modulus(2), Modulus(2).zeros(1), bytes(size), 1)


@given(moduli, st.integers(0, 100), seeds)
def test_packed_vector_unpacks_and_is_as_short_as_its_bits(modulus, length, seed):
    vector = mask(modulus, seed, length)
    packed = pack(modulus, vector)
    assert len(packed) == packed_size(modulus, length)
    assert 0 <= len(packed) - -(-length * modulus.bits // 8) < 8
    assert unpack(modulus, length, packed).tolist() == vector.tolist()


@pytest.mark.parametrize("modulus", [Modulus(2**25), Modulus(2**32), Modulus(2**31)])
@pytest.mark.parametrize("length", [1, 7, 8, 13])
def test_every_other_size_is_refused(modulus, length):
    packed = pack(modulus, mask(modulus, seeded(length)(32), length))
    for wrong in [packed[:size] for size in range(len(packed))] + [packed + b"\0"]:
        with pytest.raises(RemoteProtocolError):
            unpack(modulus, length, wrong)


@pytest.mark.parametrize("value", [2, 8, 2**25, 2**31, 2**32, 2**61, 2**63])
def test_every_bit_flip_is_refused_or_is_another_vector(value):
    modulus, length = Modulus(value), 11
    packed = pack(modulus, mask(modulus, seeded(value)(32), length))
    original = unpack(modulus, length, packed).tolist()
    for bit in range(8 * len(packed)):
        flipped = bytearray(packed)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            changed = unpack(modulus, length, bytes(flipped))
        except RemoteProtocolError:
            continue
        assert changed.tolist() != original
        assert pack(modulus, changed) == flipped


def test_padding_that_is_not_zero_is_refused():
    modulus = Modulus(2**9)
    packed = bytearray(pack(modulus, modulus.zeros(5)))
    packed[-1] |= 1 << 5
    with pytest.raises(RemoteProtocolError):
        unpack(modulus, 5, bytes(packed))
