"""Sums of vectors with a number beside them: masks cancel, and each element has one spelling."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import CTR
from hypothesis import given
from hypothesis import strategies as st

from dhdmm.aggregation.errors import LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.group import Element, Group
from dhdmm.aggregation.masks import add_masks
from dhdmm.aggregation.modulus import SUMMED_TOGETHER, Modulus, SumRange, pack
from tests.secagg.seeded import seeded

Q = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
GROUP = Group(Modulus(2**25), 5, Q)
SEED = seeded("mask")(32)

moduli = st.sampled_from([Modulus(2**bits) for bits in (1, 25, 32, 33, 63)])
scalars = st.sampled_from([1, 2, 3, 255, 257, 2**255 - 19, Q])


@st.composite
def ranged_groups(draw: st.DrawFn) -> Group:
    modulus, half = draw(moduli), 2**62
    run = st.tuples(st.integers(1, 9), st.integers(-half, half), st.integers(1, modulus.bits)).map(
        lambda one: SumRange(*one)
    )
    ranges = tuple(draw(st.lists(run, min_size=1, max_size=5)))
    return Group(modulus, sum(one.rows for one in ranges), draw(scalars), ranges)


groups = st.builds(Group, moduli, st.integers(1, 20), scalars) | ranged_groups()


def drawn(group: Group, seed: object) -> Element:
    """Any element: a mask."""
    element = group.zero()
    group.add_masks(element, [(seeded(seed)(32), 1)])
    return Element(group.modulus.reduce(element.vector), element.scalar)


def same(group: Group, one: Element, other: Element) -> bool:
    return group.pack(one) == group.pack(other)


@given(groups, st.integers(0, 10**6))
def test_masks_cancel_and_sums_are_those_of_the_inputs(group: Group, seed: int) -> None:
    inputs = [drawn(group, (seed, i)) for i in range(3)]
    total = group.zero()
    for i, one in enumerate(inputs):
        masked = one.copy()
        group.add_masks(masked, [(seeded(i)(32), 1), (seeded(i + 1)(32), -1)])
        group.add(total, masked)
    group.add_masks(total, [(seeded(0)(32), -1), (seeded(3)(32), 1)])
    assert total.scalar == sum(one.scalar for one in inputs) % group.scalar_modulus
    for one in inputs:
        group.subtract(total, one)
    assert same(group, total, group.zero())


@given(groups, st.integers(0, 10**6))
def test_elements_return_from_the_wire_and_from_stores(group: Group, seed: int) -> None:
    element = drawn(group, seed)
    packed = group.pack(element)
    group.require_packed(packed)
    assert len(packed) == group.packed_size
    assert same(group, group.unpack(packed), element)
    assert same(group, group.load(group.dump(element)), element)
    for wrong in (packed[:-1], packed + b"\0", b""):
        with pytest.raises(RemoteProtocolError):
            group.unpack(wrong)


@given(ranged_groups(), st.integers(0, 10**6))
def test_sums_in_their_ranges_are_known_from_what_was_sent(group: Group, seed: int) -> None:
    sums = np.empty(group.length, object)
    residue, start = drawn(group, seed).vector.tolist(), 0
    for rows, low, bits in group.sum_ranges:
        for i in range(start, start + rows):
            sums[i] = low + residue[i] % 2**bits
        start += rows
    whole = group.element((sums % group.modulus.value).astype(np.uint64), 0)
    share, rest = drawn(group, (seed, "share")), group.zero()
    group.add(rest, whole)
    group.subtract(rest, share)
    received = group.unpack(group.pack(rest))
    group.add(received, group.unpack(group.pack(share)))
    assert group.residues(received).tolist() == whole.vector.tolist()


@given(groups, st.integers(0, 10**6), st.sampled_from([0, 1, 3, 300]))
def test_packed_elements_add_up_as_unpacked_ones_do(group: Group, seed: int, count: int) -> None:
    few = [group.pack(drawn(group, (seed, i))) for i in range(min(count, 3))]
    packed = [few[i % len(few)] for i in range(count)]
    total, expected = drawn(group, seed), drawn(group, seed)
    for one in packed:
        group.add(expected, group.unpack(one))
    group.add_packed(total, packed)
    assert same(group, total, expected)


def test_as_many_bytes_as_there_can_be_add_up_without_overflow() -> None:
    group = Group(Modulus(2**63), 3)
    largest = group.element(np.full(3, 2**63 - 1), 0)
    total = group.zero()
    group.add_packed(total, [group.pack(largest)] * (2 * SUMMED_TOGETHER + 1))
    assert group.residues(total).tolist() == [2**63 - (2 * SUMMED_TOGETHER + 1)] * 3


def test_a_sum_is_sent_in_the_bits_of_its_range_alone() -> None:
    ranges = SumRange(8, 0, 16), SumRange(16, -5, 3), SumRange(8, -5, 3)
    group = Group(Modulus(2**34), 32, sum_ranges=ranges)
    assert group.packed_size == 8 * 2 + 24 * 3 // 8
    assert Group(Modulus(2**34), 32).packed_size == 32 * 34 // 8
    outside = group.element(np.full(32, 2**16), 0)
    assert group.residues(outside).tolist() == [0] * 32


@pytest.mark.parametrize("ranges", [(SumRange(4, 0, 3),), (SumRange(5, 0, 26),)])
def test_ranges_are_of_all_sums_and_within_the_modulus(ranges: tuple[SumRange, ...]) -> None:
    with pytest.raises(LocalProtocolError):
        Group(Modulus(2**25), 5, sum_ranges=ranges)


def test_without_a_number_everything_is_as_it_is_for_vectors() -> None:
    group, vector = Group(Modulus(2**25), 5), Modulus(2**25).zeros(5)
    element = group.zero()
    group.add_masks(element, [(SEED, 1)])
    assert add_masks(group.modulus, vector, [(SEED, 1)]) == 0
    assert group.dump(element) == vector.tobytes()
    assert group.pack(element) == pack(group.modulus, vector)
    assert group.packed_size + 32 == GROUP.packed_size


def test_the_numbers_mask_is_the_key_stream_behind_the_vectors() -> None:
    """No byte of it masks anything else."""
    stream = Cipher(AES128(SEED[:16]), CTR(SEED[16:])).encryptor().update(bytes(4 * 5 + 48))
    element = GROUP.zero()
    GROUP.add_masks(element, [(SEED, 1)])
    assert element.vector.tobytes() == stream[:20]
    assert element.scalar == int.from_bytes(stream[20:], "little") % Q


def test_masks_of_numbers_are_uniform_modulo_q() -> None:
    """The mean of 6,000 is within 5 of its deviations, but once in 10⁶ seeds; of 32 bytes, 10."""
    scalars = [drawn(GROUP, ("uniform", i)).scalar for i in range(6000)]
    assert abs(sum(s / Q for s in scalars) / 6000 - 0.5) < 5 * (12 * 6000) ** -0.5


@pytest.mark.parametrize("scalar", [Q, Q + 1, 2**256 - 1])
def test_a_number_that_is_not_reduced_is_refused(scalar: int) -> None:
    packed = GROUP.pack(drawn(GROUP, 0))[:-32] + scalar.to_bytes(32, "little")
    for read in (GROUP.require_packed, GROUP.unpack):
        with pytest.raises(RemoteProtocolError, match="not reduced"):
            read(packed)


@pytest.mark.parametrize(
    ("vector", "scalar", "words"),
    [
        ([0] * 4, 0, "agreed length"),
        ([0.0] * 5, 0, "integer vector"),
        ([0] * 4 + [2**25], 0, "not in Z_m"),
        ([0] * 4 + [-1], 0, "not in Z_m"),
        ([0] * 5, Q, "not in Z_q"),
        ([0] * 5, -1, "not in Z_q"),
    ],
)
def test_refuses_inputs_that_are_not_in_the_group(vector: list, scalar: int, words: str) -> None:
    with pytest.raises(LocalProtocolError, match=words):
        GROUP.element(np.array(vector), scalar)


def test_an_input_is_copied_before_it_is_masked() -> None:
    vector = GROUP.modulus.zeros(5)
    GROUP.add_masks(GROUP.element(vector, 0), [(SEED, 1)])
    assert not vector.any()


@pytest.mark.parametrize(("length", "scalar_modulus"), [(0, 1), (1, 0)])
def test_refuses_groups_without_elements(length: int, scalar_modulus: int) -> None:
    with pytest.raises(LocalProtocolError):
        Group(Modulus(2), length, scalar_modulus)
