"""Keys: the standards' vectors, one key a purpose, and refusal of every known malformed key."""

import itertools

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.identity import Identity, signature_holds
from dhdmm.secagg.keys import (
    Endpoint,
    KeyPair,
    Label,
    channel_key,
    check_public_key,
    evidence,
    evidence_holds,
    hkdf_expand,
    hkdf_extract,
    pairwise_mask_seed,
    seal,
    seed_commitment,
    self_mask_seed,
    statement,
    unseal,
)
from tests.secagg.seeded import seeded
from tests.vectors.make_secagg_primitives import x25519

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
ORDER_8 = [
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
]
LOW_ORDER = [0, 1, P - 1, *ORDER_8]
NOT_CANONICAL = [P, P + 1, 2**255 - 1]
HIGH_BIT = [u + 2**255 for u in [*LOW_ORDER, *NOT_CANONICAL, 9]]
SMALL_ORDER_ED25519 = [  # y-coordinates of the points of order 1, 2, 4, 8; then other names of them
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "0100000000000000000000000000000000000000000000000000000000000080",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
]
SESSION = bytes(range(32))


def pairs(count=2):
    return [KeyPair.from_secret(seeded(("pair", i))(32)) for i in range(count)]


# X25519


def test_agreement_is_the_standards():
    """RFC 7748, section 6.1."""
    alice = KeyPair.from_secret(
        bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    )
    bob = KeyPair.from_secret(
        bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    )
    shared = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
    assert alice.public.hex() == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    assert bob.public.hex() == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    assert alice.agree(bob.public) == bob.agree(alice.public) == hkdf_extract(shared)


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_both_ends_agree(one, other):
    a, b = KeyPair.from_secret(one), KeyPair.from_secret(other)
    assert a.agree(b.public) == b.agree(a.public)
    assert a.agree(b.public) == hkdf_extract(x25519(one, b.public))


@pytest.mark.fault(27)
@pytest.mark.parametrize("u", LOW_ORDER + NOT_CANONICAL + HIGH_BIT)
def test_low_order_and_non_canonical_points_are_refused(u):
    with pytest.raises(RemoteProtocolError) as caught:
        pairs()[0].agree(u.to_bytes(32, "little"))
    assert caught.value.reason == AbortReason.BAD_PUBLIC_KEY


@pytest.mark.parametrize("u", LOW_ORDER)
def test_without_the_refusal_a_low_order_point_dictates_the_secret(u):
    a, b = pairs()
    point = u.to_bytes(32, "little")
    assert x25519(a.secret, point) == x25519(b.secret, point) == bytes(32)


@pytest.mark.parametrize("u", [9 + 2**255, 3 + P, 3 + P + 2**255])
def test_without_the_refusal_one_key_has_two_names(u):
    private = X25519PrivateKey.from_private_bytes(pairs()[0].secret)
    other_name = (u % 2**255 % P).to_bytes(32, "little")
    one, other = (
        private.exchange(X25519PublicKey.from_public_bytes(name))
        for name in (u.to_bytes(32, "little"), other_name)
    )
    assert one == other
    with pytest.raises(RemoteProtocolError):
        check_public_key(u.to_bytes(32, "little"))


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_keys_of_another_length_are_refused(size):
    with pytest.raises(RemoteProtocolError):
        pairs()[0].agree(bytes([9]) * size)
    with pytest.raises(LocalProtocolError):
        KeyPair.from_secret(bytes(size))
    with pytest.raises(LocalProtocolError):
        Identity(bytes(size))


# HKDF


def test_key_derivation_is_the_standards():
    """RFC 5869, test cases 1 and 3 (first block)."""
    key = bytes.fromhex("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5")
    block = hkdf_expand(key, bytes(range(0xF0, 0xFA)))
    assert block.hex() == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
    key = hkdf_extract(bytes([11]) * 22)
    assert key.hex() == "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04"
    assert hkdf_expand(key, b"").hex() == (
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
    )


def test_every_purpose_direction_session_and_party_has_its_own_key():
    one, other, third = (Endpoint(i, pair.public) for i, pair in enumerate(pairs(3)))
    moved = Endpoint(7, one.public)
    ends = list(itertools.permutations([one, other, third, moved], 2))
    sessions = [SESSION, bytes(32)]
    keys = {
        channel_key(bytes(32), label, session, *pair)
        for label in Label
        for session in sessions
        for pair in ends
    }
    assert len(keys) == len(Label) * len(sessions) * len(ends)


def test_labels_have_one_length_so_that_no_two_statements_collide():
    assert {len(label) for label in Label} == {16}
    assert len(set(Label)) == len(Label)


def test_mask_seed_is_the_same_at_both_ends_and_bound_to_session_ids_and_keys():
    a, b = pairs()
    one, other = Endpoint(3, a.public), Endpoint(12, b.public)
    seed = pairwise_mask_seed(a.agree(b.public), SESSION, one, other)
    assert seed == pairwise_mask_seed(b.agree(a.public), SESSION, other, one)
    for changed in (
        pairwise_mask_seed(a.agree(b.public), bytes(32), one, other),
        pairwise_mask_seed(a.agree(b.public), SESSION, Endpoint(4, a.public), other),
        pairwise_mask_seed(a.agree(b.public), SESSION, Endpoint(3, b.public), other),
    ):
        assert changed != seed


def test_own_mask_and_commitment_are_bound_to_session_and_position():
    places = [(SESSION, 1), (SESSION, 2), (bytes(32), 1)]
    derived = [f(bytes(32), *place) for f in (self_mask_seed, seed_commitment) for place in places]
    assert len(set(derived)) == 6


# AES-GCM


def test_sealed_message_opens_and_every_bit_flip_and_truncation_is_refused():
    sealed = seal(bytes(32), SESSION, 1, 2, b"two shares")
    assert unseal(bytes(32), SESSION, 1, 2, sealed) == b"two shares"
    flips = [
        sealed[:i] + bytes([sealed[i] ^ 1 << bit]) + sealed[i + 1 :]
        for i in range(len(sealed))
        for bit in range(8)
    ]
    for wrong in [*flips, *(sealed[:size] for size in range(len(sealed))), sealed + b"\0"]:
        with pytest.raises(RemoteProtocolError) as caught:
            unseal(bytes(32), SESSION, 1, 2, wrong)
        assert caught.value.reason == AbortReason.BAD_CIPHERTEXT


@pytest.mark.parametrize(
    ("session", "sender", "receiver"), [(bytes(32), 1, 2), (SESSION, 3, 2), (SESSION, 2, 1)]
)
def test_sealed_message_is_bound_to_its_session_and_direction(session, sender, receiver):
    sealed = seal(bytes(32), SESSION, 1, 2, b"two shares")
    with pytest.raises(RemoteProtocolError):
        unseal(bytes(32), session, sender, receiver, sealed)


# Evidence


def test_evidence_holds_for_what_it_says_and_nothing_else():
    key, bitmap = bytes(32), bytes([5]) * 32
    one, two, three = (Endpoint(i, pair.public) for i, pair in enumerate(pairs(3), start=1))
    said = (key, Label.ACK, SESSION, one, two, bitmap)
    tag = evidence(*said)
    assert len(tag) == 16
    assert evidence_holds(tag, evidence(*said))
    for other in (
        (bytes([1]) * 32, Label.ACK, SESSION, one, two, bitmap),
        (key, Label.INCLUDED, SESSION, one, two, bitmap),
        (key, Label.ACK, bytes(32), one, two, bitmap),
        (key, Label.ACK, SESSION, two, one, bitmap),
        (key, Label.ACK, SESSION, one, three, bitmap),
        (key, Label.ACK, SESSION, one, Endpoint(2, three.public), bitmap),
        (key, Label.ACK, SESSION, one, two, bytes(32)),
        (key, Label.ACK, SESSION, one, two),
    ):
        assert not evidence_holds(tag, evidence(*other))
    for wrong in (tag[:-1], tag + b"\0", b"", bytes(16)):
        assert not evidence_holds(wrong, evidence(*said))


def test_reflected_evidence_is_refused_and_would_hold_under_one_undirected_key():
    a, b = pairs()
    one, other = Endpoint(1, a.public), Endpoint(2, b.public)
    pairwise = a.agree(b.public)
    own = evidence(pairwise, Label.INCLUDED, SESSION, one, other)
    assert not evidence_holds(own, evidence(pairwise, Label.INCLUDED, SESSION, other, one))
    undirected = pairwise_mask_seed(pairwise, SESSION, one, other)
    own = hkdf_expand(undirected, Label.INCLUDED + SESSION)  # neither key nor statement says who
    neighbours = hkdf_expand(
        pairwise_mask_seed(pairwise, SESSION, other, one), Label.INCLUDED + SESSION
    )
    assert own == neighbours


# Ed25519


def test_signature_is_the_standards():
    """RFC 8032, section 7.1, test 1."""
    identity = Identity(
        bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    )
    assert identity.public.hex() == (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    )
    signature = identity.sign(b"")
    assert signature.hex() == (
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555"
        "fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )
    assert signature_holds(identity.public, b"", signature)


def test_signature_is_bound_to_every_bit():
    identity, message = Identity(bytes(32)), statement(Label.KEYS, SESSION, 1, 2)
    signature = identity.sign(message)
    assert signature_holds(identity.public, message, signature)
    for bit in range(8 * 64):
        flipped = (int.from_bytes(signature, "little") ^ 1 << bit).to_bytes(64, "little")
        assert not signature_holds(identity.public, message, flipped)
    assert not signature_holds(identity.public, message + b"\0", signature)
    assert not signature_holds(Identity(bytes([1]) * 32).public, message, signature)


@pytest.mark.parametrize("size", [0, 32, 63, 65])
def test_signatures_and_keys_of_another_length_do_not_hold(size):
    identity = Identity(bytes(32))
    assert not signature_holds(identity.public, b"m", (identity.sign(b"m") * 2)[:size])
    assert not signature_holds((identity.public * 3)[: size + 1], b"m", identity.sign(b"m"))


@pytest.mark.fault(27)
@pytest.mark.parametrize("times", [1, 2, 7, 15])
def test_malleable_signature_does_not_hold_and_would_if_reduced(times):
    identity = Identity(bytes(32))
    signature = identity.sign(b"m")
    shifted = int.from_bytes(signature[32:], "little") + times * L
    malleated = signature[:32] + shifted.to_bytes(32, "little")
    assert not signature_holds(identity.public, b"m", malleated)
    reduced = signature[:32] + (shifted % L).to_bytes(32, "little")
    assert signature_holds(identity.public, b"m", reduced)


@pytest.mark.fault(27)
@pytest.mark.parametrize("public", SMALL_ORDER_ED25519)
def test_small_order_keys_sign_nothing(public):
    for commitment in SMALL_ORDER_ED25519:
        signature = bytes.fromhex(commitment) + bytes(32)
        assert not any(
            signature_holds(bytes.fromhex(public), bytes([m]), signature) for m in range(8)
        )


def test_a_lenient_verifier_lets_the_identity_point_sign_everything():
    identity_point = bytes.fromhex(SMALL_ORDER_ED25519[0])
    forged = identity_point + bytes(32)
    Ed25519PublicKey.from_public_bytes(identity_point).verify(forged, b"any message")
    assert not signature_holds(identity_point, b"any message", forged)


def test_honest_key_does_not_verify_a_small_order_commitment():
    identity = Identity(bytes(32))
    for commitment in SMALL_ORDER_ED25519:
        assert not signature_holds(identity.public, b"m", bytes.fromhex(commitment) + bytes(32))


# Secrets stay secret


def test_secrets_are_in_no_repr():
    secret = bytes(range(100, 132))
    for shown in (repr(KeyPair.from_secret(secret)), repr(Identity(secret))):
        assert repr(secret)[2:-1] not in shown
        assert secret.hex() not in shown


def test_identity_returns_its_seed_to_its_owner():
    assert Identity(Identity(SESSION).seed).public == Identity(SESSION).public
