"""dhdmm gives what the plain implementation gives, byte for byte, and so does its stored file."""

import json

import pytest

from dhdmm.aggregation.identity import Identity, signature_holds
from dhdmm.aggregation.masks import add_masks
from dhdmm.aggregation.merkle import MerkleTree, verify_multiproof
from dhdmm.aggregation.modulus import Modulus, pack, unpack
from dhdmm.secagg.graph import harary_neighbours, sample_out_neighbours
from dhdmm.secagg.keys import (
    Endpoint,
    KeyPair,
    Label,
    channel_key,
    evidence,
    pairwise_mask_seed,
    seal,
    seed_commitment,
    self_mask_seed,
    statement,
)
from dhdmm.secagg.shamir import split
from tests.secagg.sharing import reconstruct
from tests.vectors.make_secagg_primitives import VECTORS, Stream, make_vectors

STORED = json.loads(VECTORS.read_text())


def raw(case, *names):
    return [bytes.fromhex(case[name]) for name in names]


def test_stored_vectors_are_what_the_plain_implementation_gives():
    assert make_vectors() == STORED


def test_key_derivations_and_evidence():
    case = STORED["keys"]
    session, pairwise, bitmap_hash = raw(case, "session", "pairwise", "bitmap_hash")
    five, two = (KeyPair.from_secret(secret) for secret in raw(case["secrets"], "5", "2"))
    assert [five.public, two.public] == raw(case["publics"], "5", "2")
    assert five.agree(two.public) == two.agree(five.public) == pairwise
    ends = {5: Endpoint(5, five.public), 2: Endpoint(2, two.public)}
    for sender, receiver in ((5, 2), (2, 5)):
        ways, said = (session, ends[sender], ends[receiver]), f"{sender} to {receiver}"
        assert channel_key(pairwise, Label.SHARE, *ways).hex() == case["share"][said]
        assert evidence(pairwise, Label.INCLUDED, *ways).hex() == case["included"][said]
        assert evidence(pairwise, Label.ACK, *ways, bitmap_hash).hex() == case["ack"][said]
    seed = pairwise_mask_seed(pairwise, session, ends[5], ends[2])
    assert seed.hex() == case["mask_seed"]
    assert self_mask_seed(five.secret, session, 5).hex() == case["self_mask_seed"]
    assert seed_commitment(five.secret, session, 5).hex() == case["seed_commitment"]


def test_sealed_and_signed_messages():
    case = STORED["messages"]
    session, key, bitmap_hash = raw(case, "session", "key", "bitmap_hash")
    plaintext, seed = raw(case, "plaintext", "identity_seed")
    assert seal(key, session, 5, 2, plaintext).hex() == case["sealed"]
    said, identity = statement(Label.ACK, session, 5, 2) + bitmap_hash, Identity(seed)
    assert identity.public.hex() == case["identity_public"]
    assert identity.sign(said).hex() == case["signed_ack"]
    assert signature_holds(identity.public, said, bytes.fromhex(case["signed_ack"]))


def test_shares():
    case = STORED["shares"]
    secrets = [bytes.fromhex(secret) for secret in case["secrets"]]
    dealt = split(secrets, case["threshold"], case["holders"], Stream(case["randomness"]))
    assert [[share.hex() for share in row] for row in dealt] == case["shares"]
    held = [dict(zip(case["holders"], row, strict=True)) for row in dealt]
    assert reconstruct(held, case["threshold"]) == secrets


@pytest.mark.parametrize("case", STORED["masks"]["cases"], ids=lambda case: case["modulus"])
def test_masks_and_their_packing(case):
    modulus, expected = Modulus(int(case["modulus"])), [int(x) for x in case["mask"]]
    vector = modulus.zeros(len(expected))
    add_masks(modulus, vector, [(bytes.fromhex(STORED["masks"]["seed"]), 1)])
    assert modulus.reduce(vector).tolist() == expected
    packed = pack(modulus, vector)
    assert packed.hex() == case["packed"]
    assert unpack(modulus, len(expected), packed).tolist() == expected


@pytest.mark.parametrize("case", STORED["trees"], ids=lambda case: str(len(case["contents"])))
def test_trees_and_proofs(case):
    contents = [None if c is None else bytes.fromhex(c) for c in case["contents"]]
    tree, (root, proof) = MerkleTree(contents), raw(case, "root", "proof")
    assert tree.root == root
    assert tree.multiproof(case["positions"]) == proof
    verify_multiproof(root, len(contents), {i: contents[i] for i in case["positions"]}, proof)


def test_graphs():
    case = STORED["graphs"]
    n, k = case["participants"], case["degree"]
    circle = harary_neighbours(n, k, Stream(case["harary"]["randomness"]))
    assert circle.tolist() == case["harary"]["neighbours"]
    out = case["out"]
    chosen = sample_out_neighbours(out["position"], n, k, Stream(out["randomness"]))
    assert chosen.tolist() == out["chosen"]
