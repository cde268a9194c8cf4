"""The key tree: true leaves verify, anything else does not, and verifying costs one hash a node."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhdmm.aggregation import merkle
from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.merkle import NODE_BYTES, MerkleTree, leaf_hash, verify_multiproof

contents_lists = st.lists(st.none() | st.binary(max_size=8), min_size=1, max_size=40)


@st.composite
def proofs(draw):
    """A tree, some of its leaves, and the proof of them."""
    contents = draw(contents_lists)
    positions = draw(st.sets(st.integers(0, len(contents) - 1), min_size=1))
    tree = MerkleTree(contents)
    return tree, {i: contents[i] for i in positions}, tree.multiproof(positions)


def refused(root, size, leaves, proof):
    with pytest.raises(RemoteProtocolError) as caught:
        verify_multiproof(root, size, leaves, proof)
    return caught.value.reason == AbortReason.BAD_PROOF


@given(proofs())
def test_true_leaves_verify_in_any_order(case):
    tree, leaves, proof = case
    size = tree.size
    verify_multiproof(tree.root, size, leaves, proof)
    verify_multiproof(tree.root, size, dict(reversed(leaves.items())), proof)


@given(proofs(), st.data())
def test_every_bit_flip_is_refused(case, data):
    tree, leaves, proof = case
    size = tree.size
    everything = tree.root + proof
    bit = data.draw(st.integers(0, 8 * len(everything) - 1))
    flipped = bytearray(everything)
    flipped[bit // 8] ^= 1 << bit % 8
    assert refused(bytes(flipped[:32]), size, leaves, bytes(flipped[32:]))


@given(proofs(), st.data())
def test_other_content_at_any_leaf_is_refused(case, data):
    tree, leaves, proof = case
    size = tree.size
    position = data.draw(st.sampled_from(sorted(leaves)))
    other = data.draw(st.none() | st.binary(max_size=8))
    if other != leaves[position]:
        assert refused(tree.root, size, leaves | {position: other}, proof)


@given(proofs(), st.binary(min_size=1, max_size=40))
def test_missing_and_left_over_bytes_are_refused(case, extra):
    tree, leaves, proof = case
    size = tree.size
    assert refused(tree.root, size, leaves, proof + extra)
    for cut in {1, NODE_BYTES, len(proof)} if proof else ():
        assert refused(tree.root, size, leaves, proof[:-cut])


@given(proofs(), st.integers(0, 60))
def test_another_number_of_leaves_is_refused(case, other_size):
    tree, leaves, proof = case
    if other_size != tree.size:
        assert refused(tree.root, other_size, leaves, proof)


@pytest.mark.slow
@given(st.lists(st.binary(max_size=4), min_size=2, max_size=20, unique=True), st.data())
def test_leaf_shown_at_another_position_is_refused(contents, data):
    tree, size = MerkleTree(contents), len(contents)
    at = data.draw(st.integers(0, size - 1))
    other = data.draw(st.integers(0, size - 1).filter(lambda i: i != at))
    assert refused(tree.root, size, {other: contents[at]}, tree.multiproof([at]))
    assert refused(tree.root, size, {other: contents[at]}, tree.multiproof([other]))


def test_equal_contents_at_two_positions_have_different_leaves():
    contents = [b"key"] * 4 + [None] * 4 + [b""] * 4
    assert len({leaf_hash(content, i, 12) for i, content in enumerate(contents)}) == 12


FOUR = [b"a", b"b", b"c", b"d"]


def inner_nodes_as_leaves():
    """The second-preimage attack: a tree of two leaves whose contents are inner nodes' inputs."""
    below = [merkle.leaf_hash(content, i, len(FOUR)) for i, content in enumerate(FOUR)]
    return {0: below[0] + below[1], 1: below[2] + below[3]}


def test_inner_node_cannot_be_shown_as_a_leaf(monkeypatch):
    assert refused(MerkleTree(FOUR).root, 2, inner_nodes_as_leaves(), b"")
    monkeypatch.setattr(merkle, "leaf_hash", lambda content, *_: sha256(content).digest())
    monkeypatch.setattr(merkle, "_node", lambda left, right: sha256(left + right).digest())
    verify_multiproof(MerkleTree(FOUR).root, 2, inner_nodes_as_leaves(), b"")


def test_verifying_hashes_each_given_node_once(monkeypatch):
    contents = [bytes([i % 251]) for i in range(1000)]
    tree, positions = MerkleTree(contents), range(3, 1000, 29)
    proof = tree.multiproof(positions)
    hashed, node = [], merkle._node
    monkeypatch.setattr(merkle, "_node", lambda *pair: hashed.append(1) or node(*pair))
    verify_multiproof(tree.root, 1000, {i: contents[i] for i in positions}, proof)
    assert len(hashed) == len(positions) + len(proof) // NODE_BYTES - 1


def test_one_proof_is_shorter_than_many():
    tree = MerkleTree([b"x"] * 1024)
    assert tree.multiproof(range(1024)) == b""
    assert len(tree.multiproof([6, 7])) == 9 * NODE_BYTES


@pytest.mark.parametrize("positions", [[], [-1], [5], [0, 5]])
def test_refuses_to_prove_what_is_not_there(positions):
    tree = MerkleTree([b"x"] * 5)
    with pytest.raises(LocalProtocolError):
        tree.multiproof(positions)
    assert refused(tree.root, 5, dict.fromkeys(positions, b"x"), b"")


def test_refuses_an_empty_tree():
    with pytest.raises(LocalProtocolError):
        MerkleTree([])
