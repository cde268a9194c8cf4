"""Shamir: any t shares give the secret, t−1 say nothing, and shares that disagree are noticed."""

import contextlib
import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.secagg.shamir import LIMBS, PRIME, SHARE_BYTES, evaluate, interpolate, split
from tests.secagg.seeded import scripted, seeded
from tests.secagg.sharing import reconstruct

secrets = st.binary(min_size=32, max_size=32)
holder_lists = st.lists(st.integers(0, 2**31 - 3), min_size=1, max_size=12, unique=True)


@st.composite
def dealings(draw):
    """Two secrets, their holders, a threshold, and the shares."""
    pair, holders = draw(st.tuples(secrets, secrets)), draw(holder_lists)
    threshold = draw(st.integers(1, len(holders)))
    shares = split(pair, threshold, holders, seeded(draw(st.integers(0, 2**32))))
    return pair, holders, threshold, shares


@given(dealings(), st.data())
def test_any_threshold_many_holders_reconstruct(dealing, data):
    pair, holders, threshold, shares = dealing
    batch = []
    for row in shares:
        some = data.draw(st.permutations(list(zip(holders, row, strict=True))))
        batch.append(dict(some[: data.draw(st.integers(threshold, len(holders)))]))
    assert tuple(reconstruct(batch, threshold)) == pair


@pytest.mark.fault(26)
@given(dealings(), st.data())
def test_one_altered_share_among_more_than_threshold_is_detected(dealing, data):
    _, holders, threshold, shares = dealing
    given_shares = dict(zip(holders, shares[0], strict=True))
    liar = data.draw(st.sampled_from(holders))
    limb = data.draw(st.integers(0, LIMBS - 1))
    values = np.frombuffer(given_shares[liar], dtype="<u4").copy()
    values[limb] = (int(values[limb]) + data.draw(st.integers(1, PRIME - 1))) % PRIME
    given_shares[liar] = values.tobytes()
    if len(holders) > threshold:
        with pytest.raises(RemoteProtocolError) as caught:
            reconstruct([given_shares], threshold)
        assert caught.value.reason == AbortReason.INCONSISTENT_SHARES
    else:  # nothing to compare with: it must at least not pass as the same secret
        with contextlib.suppress(RemoteProtocolError):
            assert reconstruct([given_shares], threshold) != [dealing[0][0]]


@given(dealings())
def test_fewer_than_threshold_are_refused(dealing):
    _, holders, threshold, shares = dealing
    few = dict(list(zip(holders, shares[0], strict=True))[: threshold - 1])
    with pytest.raises(RemoteProtocolError) as caught:
        reconstruct([few], threshold)
    assert caught.value.reason == AbortReason.TOO_FEW_SHARES


def views(coefficients_of, secret, points, prime=7):
    """How often each view of the holders at `points` occurs over all random coefficients."""
    return Counter(
        tuple(evaluate(coefficients_of(secret, random), points, prime)[:, 0].tolist())
        for random in itertools.product(range(prime), repeat=2)
    )


def honest(secret, random):
    return np.array([secret, *random], dtype=np.uint64)[:, None]


def one_degree_short(secret, random):
    return np.array([secret, random[0]], dtype=np.uint64)[:, None]


def test_fewer_than_threshold_shares_have_the_same_distribution_for_every_secret():
    """Exact counting, t = 3 over the field of 7: every pair of values once, for all secrets."""
    every_pair_once = Counter(itertools.product(range(7), repeat=2))
    for points in itertools.combinations(range(1, 7), 2):
        x = np.array(points, dtype=np.uint64)
        assert all(views(honest, secret, x) == every_pair_once for secret in range(7))
        assert views(one_degree_short, 1, x) != views(one_degree_short, 2, x)


def test_interpolation_accepts_exactly_the_polynomials_below_threshold():
    """All 7⁴ value vectors at four points with t = 2: only the 7² lines pass, with f(0) right."""
    x = np.array([[1, 2, 4, 6]], dtype=np.uint64)
    lines = {
        tuple((a + b * int(point)) % 7 for point in x[0]): a for a in range(7) for b in range(7)
    }
    for values in itertools.product(range(7), repeat=4):
        given_values = np.array(values, dtype=np.uint64).reshape(1, 4, 1)
        if values in lines:
            assert interpolate(x, given_values, 2, 7) == lines[values]
        else:
            with pytest.raises(RemoteProtocolError):
                interpolate(x, given_values, 2, 7)


def test_dealer_of_two_secrets_is_detected_and_would_choose_if_only_threshold_were_used():
    one, other = bytes(32), bytes([1]) * 32
    holders, threshold = list(range(8)), 4
    first, second = split([one, other], threshold, holders, seeded("dealer"))
    dealt = dict(zip(holders, first[:4] + second[4:], strict=True))
    with pytest.raises(RemoteProtocolError) as caught:
        reconstruct([dealt], threshold)
    assert caught.value.reason == AbortReason.INCONSISTENT_SHARES
    halves = [{i: dealt[i] for i in half} for half in (holders[:4], holders[4:])]
    assert reconstruct(halves, threshold) == [one, other]


def test_arithmetic_is_exact_at_the_largest_values():
    rng = np.random.default_rng(5)
    coefficients = rng.integers(PRIME - 2, PRIME, (300, 3), dtype=np.uint64)
    points = np.array([PRIME - 1, PRIME - 2, 2**30, 1], dtype=np.uint64)
    expected = [
        [sum(int(c) * pow(int(x), e, PRIME) for e, c in enumerate(column)) % PRIME
         for column in coefficients.T]
        for x in points
    ]  # fmt: skip
    assert evaluate(coefficients, points).tolist() == expected


def test_large_batches_of_mixed_sizes_come_back_in_order():
    draws, rng = seeded("batch"), np.random.default_rng(3)
    originals, batch = [], []
    for _ in range(150):
        holders = rng.choice(10_000, 40, replace=False).tolist()
        secret = draws(32)
        shares = split([secret], 20, holders, draws)[0]
        kept = dict(list(zip(holders, shares, strict=True))[: int(rng.integers(20, 41))])
        originals.append(secret)
        batch.append(kept)
    assert reconstruct(batch, 20) == originals
    assert reconstruct([], 20) == []


def test_the_two_secrets_are_shared_by_independent_polynomials():
    seed_shares, key_shares = split([bytes(32), bytes(32)], 3, [0, 1, 2], seeded("two"))
    assert not set(seed_shares) & set(key_shares)


def test_coefficients_outside_the_field_are_drawn_again():
    out, zero = PRIME.to_bytes(4, "little"), bytes(4)
    draws = scripted(zero * (LIMBS - 1) + out, (PRIME - 1).to_bytes(4, "little"))
    shares = split([bytes(32)], 2, [0, 1], draws)[0]
    assert np.frombuffer(shares[0], dtype="<u4").tolist() == [0] * (LIMBS - 1) + [PRIME - 1]


@pytest.mark.parametrize(
    ("lengths", "threshold", "holders"),
    [
        ([32], 0, [1]),
        ([32], 2, [1]),
        ([32], 1, [1, 1]),
        ([31], 1, [1]),
        ([33], 1, [1]),
        ([32], 1, [PRIME - 1]),
    ],
)
def test_refuses_to_deal_what_nobody_could_reconstruct(lengths, threshold, holders):
    with pytest.raises(LocalProtocolError):
        split([bytes(length) for length in lengths], threshold, holders, seeded(0))


@pytest.mark.parametrize("limb", range(LIMBS))
def test_limb_outside_the_field_is_refused(limb):
    share = bytearray(SHARE_BYTES)
    share[4 * limb : 4 * limb + 4] = (PRIME - 1).to_bytes(4, "little")
    with pytest.raises(RemoteProtocolError) as in_the_field:
        reconstruct([{0: bytes(share)}], 1)
    share[4 * limb : 4 * limb + 4] = PRIME.to_bytes(4, "little")
    with pytest.raises(RemoteProtocolError) as outside:
        reconstruct([{0: bytes(share)}], 1)
    assert in_the_field.value.reason is AbortReason.INCONSISTENT_SHARES
    assert outside.value.reason is AbortReason.MALFORMED


@pytest.mark.parametrize("limbs", [[2**30] + [0] * 8, [0] * 8 + [2**16]])
def test_limbs_that_are_no_32_byte_secret_are_refused(limbs):
    with pytest.raises(RemoteProtocolError) as caught:
        reconstruct([{4: np.array(limbs, dtype="<u4").tobytes()}], 1)
    assert caught.value.reason == AbortReason.INCONSISTENT_SHARES
