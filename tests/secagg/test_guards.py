"""Small refusals and bindings, each at the very value where it begins."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import LocalProtocolError, MalformedMessage, RemoteProtocolError
from dhdmm.aggregation.identity import Identity, signature_holds
from dhdmm.aggregation.merkle import MerkleTree, verify_multiproof
from dhdmm.aggregation.messages import HEADER_BYTES
from dhdmm.aggregation.method import ParameterError, ThreatModel
from dhdmm.aggregation.roster import Roster
from dhdmm.secagg import conditions, shamir
from dhdmm.secagg import messages as m
from dhdmm.secagg.channels import keys_statement
from dhdmm.secagg.keys import Label, check_public_key, evidence_holds, statement
from dhdmm.secagg.parameters import MODELS, GraphParameters, check, choose
from dhdmm.secagg.tails import log_binomial_tail, log_factorial, log_hypergeometric_tail
from tests.protocol.network import identity, roster_of, setting
from tests.secagg.seeded import scripted, seeded
from tests.secagg.test_keys import HIGH_BIT, LOW_ORDER, NOT_CANONICAL

SEMI_HONEST, MALICIOUS = ThreatModel.SEMI_HONEST, ThreatModel.MALICIOUS

# Keys, signatures and evidence


@pytest.mark.parametrize("u", LOW_ORDER + NOT_CANONICAL + HIGH_BIT)
def test_bad_keys_are_refused_when_they_are_shown(u: int) -> None:
    """Before anything is agreed with them: the library would only notice a shared zero."""
    with pytest.raises(RemoteProtocolError):
        check_public_key(u.to_bytes(32, "little"))
    check_public_key((9).to_bytes(32, "little"))


def test_a_signature_does_not_take_over_bytes_of_its_message() -> None:
    """Signature and message are joined to be verified, so their border must be fixed."""
    signer, message = Identity(bytes(32)), statement(Label.KEYS, bytes(32), 1, 2)
    signature = signer.sign(message)
    for moved in range(1, 8):
        longer = signature + message[:moved]
        assert not signature_holds(signer.public, message[moved:], longer)


def test_every_byte_of_evidence_counts() -> None:
    expected = bytes(range(16))
    assert evidence_holds(bytes(range(16)), expected)
    for i in range(16):
        other = bytearray(expected)
        other[i] ^= 0x80
        assert not evidence_holds(bytes(other), expected)


def test_signed_keys_are_bound_to_session_seat_and_both_keys() -> None:
    said = (bytes(32), 3, b"m" * 32, b"c" * 32)
    others = [(b"\1" * 32, *said[1:]), (said[0], 4, *said[2:])]
    others += [(*said[:2], b"n" * 32, said[3]), (*said[:3], b"d" * 32)]
    assert len({keys_statement(*each) for each in (said, *others)}) == 5


# Rosters and rounds


def test_a_roster_is_named_by_every_name_and_key_in_it() -> None:
    keys = [identity(i).public for i in range(3)]
    rosters = [
        Roster(("ab", "c"), (keys[0], keys[1])),
        Roster(("a", "bc"), (keys[0], keys[1])),
        Roster(("c", "ab"), (keys[0], keys[1])),
        Roster(("ab", "c"), (keys[1], keys[0])),
        Roster(("ab", "c"), (keys[0], keys[2])),
        Roster(("ab", "c", "d"), tuple(keys)),
    ]
    for digests in zip(*(roster.fingerprints for roster in rosters), strict=True):
        assert len(set(digests)) == len(rosters)


def test_a_session_is_bound_to_plan_round_model_and_roster() -> None:
    chosen = setting(5).parameters
    others = [
        dataclasses.replace(chosen, plan_digest=bytes(32)),
        dataclasses.replace(chosen, round_id=bytes(16)),
        dataclasses.replace(chosen, threat_model=SEMI_HONEST),
        dataclasses.replace(chosen, roster_digest=bytes(32)),
    ]
    assert len({each.session for each in (chosen, *others)}) == 5


@pytest.mark.parametrize(
    "change",
    [
        {"minimum_survivors": 1},
        {"minimum_survivors": 6},
        {"threshold": 0},
        {"threshold": 2},  # of degree 4: two disjoint sets of holders
        {"degree": 5},
        {"length": 0},
        {"participants": 2, "degree": 1, "threshold": 1, "minimum_survivors": 2},
    ],
    ids=str,
)
def test_rounds_that_hide_nothing_are_refused(change: dict[str, int]) -> None:
    chosen = setting(5).parameters
    assert dataclasses.replace(chosen, threshold=3) == chosen
    with pytest.raises(LocalProtocolError):
        dataclasses.replace(chosen, **change)


def test_a_roster_pairs_names_with_different_identities() -> None:
    with pytest.raises(LocalProtocolError, match="twice"):
        Roster(("a", "a"), tuple(roster_of(2).identities))
    with pytest.raises(LocalProtocolError, match="twice"):
        Roster(("a", "b"), (identity(0).public,) * 2)


# Trees, vectors and bitmaps


@pytest.mark.parametrize("position", [-1, 5, 7])
def test_leaves_outside_the_tree_are_refused(position: int) -> None:
    contents = [bytes((i,)) for i in range(5)]
    tree = MerkleTree(contents)
    with pytest.raises(RemoteProtocolError, match="outside"):
        verify_multiproof(tree.root, 5, {position: contents[4]}, tree.multiproof([4]))


def test_a_bitmap_has_one_encoding() -> None:
    assert Bitmap(10, b"\xff\x03").members() == tuple(range(10))
    for data in (b"\xff\x07", b"\xff\x03\x00", b"\xff"):
        with pytest.raises(MalformedMessage):
            Bitmap(10, data)


def test_both_shares_of_one_participant_are_not_read() -> None:
    """Two records of one position, as no honest participant would write them."""
    honest = m.Unmask(bytes(32), 0, (m.Reveal(3, 0, bytes(36)), m.Reveal(4, 1, bytes(36))))
    encoded = honest.encode()
    both = encoded.replace((4).to_bytes(4, "big") + b"\1", (3).to_bytes(4, "big") + b"\1")
    assert both != encoded
    with pytest.raises(MalformedMessage, match="ascending"):
        m.decode(both)


@pytest.mark.parametrize(("kind", "place"), [(m.Unmask, 4), (m.ProvenNeighbours, 4)])
def test_a_share_or_an_edge_of_no_kind_is_not_read(kind: type[m.Message], place: int) -> None:
    message = (
        m.Unmask(bytes(32), 0, (m.Reveal(3, 1, bytes(36)),))
        if kind is m.Unmask
        else m.ProvenNeighbours(
            bytes(32), 0, (m.SignedPublicKeys(3, 1, bytes(32), bytes(32), bytes(64)),), b""
        )
    )
    encoded = bytearray(message.encode())
    encoded[HEADER_BYTES + 4 + place] = 9
    with pytest.raises(MalformedMessage):
        m.decode(bytes(encoded))


# Shares


def test_no_holder_is_handed_the_secret() -> None:
    """The secret lies at 0, where no holder is: not even the first of the roster."""
    secret = bytes(range(32))
    alone = shamir.split([secret], 1, [0], seeded("alone"))[0][0]
    for share in shamir.split([secret], 2, list(range(6)), seeded("shares"))[0]:
        assert share != alone, "with a threshold of one everybody's share is the secret"


def test_every_drawn_coefficient_counts() -> None:
    """Shares of a threshold of three move with each limb of each of the two coefficients."""
    words = np.arange(1, 2 * shamir.LIMBS + 1, dtype="<u4")
    seen = set[tuple[bytes, ...]]()
    for changed in range(len(words)):
        drawn = words.copy()
        drawn[changed] += 1000
        shares = shamir.split([bytes(32)], 3, [0, 1, 2], scripted(drawn.tobytes()))[0]
        seen.add(tuple(shares))
    assert len(seen) == 2 * shamir.LIMBS


# The graph


def test_the_honest_floor_counts_neither_corrupt_nor_phantoms() -> None:
    chosen = choose(1_000, 0.05, 0.05, MALICIOUS)
    assert (chosen.minimum_survivors, chosen.corrupt, chosen.margin) == (950, 50, 20)
    assert chosen.honest_floor == 880


def test_a_plan_without_honest_noise_is_refused() -> None:
    """Everything that survives may be corrupt or a phantom."""
    chosen = choose(1_000, 0.05, 0.05, MALICIOUS)
    check(dataclasses.replace(chosen, margin=899), 1_000, 0.05, 0.05, MALICIOUS)
    with pytest.raises(ParameterError, match="no honest noise"):
        check(dataclasses.replace(chosen, margin=900), 1_000, 0.05, 0.05, MALICIOUS)


def test_a_graph_that_is_safe_against_nobody_is_refused() -> None:
    """Graphs chosen for one corrupt participant, offered where a third is."""
    for model in MODELS:
        weak = choose(1_000, 0.001, 0.05, model)
        claimed = dataclasses.replace(weak, corrupt=300, margin=max(weak.margin, 400))
        with pytest.raises(ParameterError, match=r"violate E[14]"):
            check(claimed, 1_000, 0.3, 0.05, model)


def test_the_margin_is_the_one_for_the_stated_corruption() -> None:
    """More corrupt participants leave fewer honest ones who must not notice."""
    chosen = choose(1_000, 0.2, 0.01, MALICIOUS)
    none_corrupt = conditions.margin_needed(
        1_000, 0, chosen.minimum_survivors, chosen.degree, chosen.threshold, MALICIOUS
    )
    assert none_corrupt < chosen.margin
    short = dataclasses.replace(chosen, margin=none_corrupt)
    with pytest.raises(ParameterError, match="E7"):
        check(short, 1_000, 0.2, 0.01, MALICIOUS)


def test_a_sparse_graph_that_calls_itself_complete_is_refused() -> None:
    chosen = choose(1_000, 0.05, 0.05, MALICIOUS)
    for claimed in (
        dataclasses.replace(chosen, complete=True),
        GraphParameters(999, 525, 950, 50, 0, complete=False),
    ):
        with pytest.raises(ParameterError, match="no graph"):
            check(claimed, 1_000, 0.05, 0.05, MALICIOUS)


def test_graphs_that_break_one_condition_alone_are_refused_by_it() -> None:
    """Honest survivors that may be cut off, and more in-neighbours than a participant accepts."""
    cut_off = GraphParameters(16, 2, 80, 1, 0, complete=False)
    with pytest.raises(ParameterError, match="E2"):
        check(cut_off, 100, 0.01, 0.2, SEMI_HONEST)
    drowned = GraphParameters(7, 7, 30, 1, 28, complete=False)
    with pytest.raises(ParameterError, match="E6"):
        check(drowned, 30, 0.03, 0, MALICIOUS)


@pytest.mark.parametrize(("n", "k"), [(300, 4), (1_000, 8)])
def test_who_is_corrupt_connects_nobody(n: int, k: int) -> None:
    """E2 counts the corrupt among the absent, as in the exact ½n(n−k−1)·C(n−k, B−k)/C(n, B)."""
    absent = n // 2
    ways = Fraction(math.comb(n - k, absent - k), math.comb(n, absent))
    assert Fraction(n * (n - k - 1), 2) * ways > Fraction(1, 2**41)
    assert not conditions.e2_holds(n, absent, n, k)
    assert not conditions.e2_holds(n, 0, n - absent, k)


# Tails


@pytest.mark.parametrize(("trials", "x"), [(1000, 200), (1000, 450), (300, 20)])
@pytest.mark.parametrize("percent", [10, 30, 45])
def test_binomial_tails_are_never_below_the_truth(trials: int, x: int, percent: int) -> None:
    """Also where far more than 64 terms count."""
    exact = sum(
        math.comb(trials, y) * percent**y * (100 - percent) ** (trials - y)
        for y in range(x, trials + 1)
    )
    log_exact, log_chance = _log(exact) - trials * _log(100), math.log(percent / 100)
    found = float(log_binomial_tail(np.asarray(float(trials)), np.asarray(log_chance), x))
    assert found >= min(0.0, log_exact) - 1e-9


@pytest.mark.parametrize(
    ("population", "marked", "k", "x"), [(2000, 900, 600, 250), (999, 50, 61, 23)]
)
def test_hypergeometric_tails_are_never_below_the_truth(population, marked, k, x) -> None:
    hits = sum(
        math.comb(marked, y) * math.comb(population - marked, k - y) for y in range(x, k + 1)
    )
    log_exact = _log(hits) - _log(math.comb(population, k))
    found = float(log_hypergeometric_tail(population, np.asarray(float(marked)), k, x))
    assert found >= log_exact - 1e-9


def test_logarithms_of_factorials_are_exact_to_the_last_digits() -> None:
    numbers = [*range(200), 1000, 54_321, 1_000_000]
    expected = [math.lgamma(n + 1) for n in numbers]
    found = log_factorial(np.array(numbers, np.float64))
    assert found == pytest.approx(expected, rel=2e-15)


def _log(number: int) -> float:
    """ln of an integer of any size."""
    shift = max(number.bit_length() - 1000, 0)
    return math.log(number >> shift) + shift * math.log(2)
