"""The key stream: AES-256-CTR word by word, never the same word twice, never a key in the open."""

from __future__ import annotations

import copy
import hmac
import json
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import islice

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import ECB

from dhdmm.privacy.gaussian import DiscreteGaussian
from dhdmm.privacy.keystream import KeyStream, StreamMisuse
from tests.privacy.reference_gaussian import VECTORS

KEY = bytes(range(32))


def key_stream() -> KeyStream:
    return KeyStream.from_key_for_tests(KEY)


def words_by_hand(purpose: bytes, first_block: int, count: int) -> list[int]:
    """The definition, from HMAC and the bare block cipher."""
    key = hmac.digest(KEY, b"dhdmm noise v1:" + purpose + b":" + b"\x01", sha256)
    blocks = b"".join((first_block + i).to_bytes(16, "big") for i in range(-(-count // 2)))
    output = Cipher(AES256(key), ECB()).encryptor().update(blocks)
    return [int.from_bytes(output[8 * i : 8 * i + 8], "little") for i in range(count)]


def test_words_and_extensions_follow_their_definition():
    stream = key_stream()
    assert stream.read(7)[1].tolist() == words_by_hand(b"words", 0, 7)
    extension = list(islice(stream.extension(5), 40))
    assert extension == words_by_hand(b"extension", 5 << 64, 40)


def test_matches_the_published_vectors():
    vector = json.loads(VECTORS.read_text(encoding="utf-8"))["stream"]
    stream = KeyStream.from_key_for_tests(bytes.fromhex(vector["key"]))
    assert [f"{word:016x}" for word in stream.read(4)[1].tolist()] == vector["words"]
    extension = [f"{word:016x}" for word in islice(stream.extension(3), 4)]
    assert extension == vector["extension_of_word_3"]


def test_reads_follow_each_other_whatever_their_sizes():
    whole = key_stream().read(100)[1]
    stream = key_stream()
    pieces = [stream.read(size) for size in (1, 0, 2, 33, 64)]
    assert [first for first, _ in pieces] == [0, 1, 1, 3, 36]
    assert np.array_equal(np.concatenate([words for _, words in pieces]), whole)


def test_an_extension_moves_no_other_word():
    stream = key_stream()
    stream.read(10)
    list(islice(stream.extension(3), 1000))
    assert stream.read(5)[1].tolist() == key_stream().read(15)[1].tolist()[10:]


def test_fresh_streams_differ():
    assert KeyStream.fresh().read(2)[1].tolist() != KeyStream.fresh().read(2)[1].tolist()


def test_substreams_are_separate_and_each_label_is_handed_out_once():
    stream = key_stream()
    heads = [
        stream.read(4)[1].tolist(),
        stream.substream(b"a").read(4)[1].tolist(),
        stream.substream(b"b").read(4)[1].tolist(),
        list(islice(stream.extension(0), 4)),
    ]
    assert len({word for head in heads for word in head}) == 16
    assert key_stream().substream(b"a").read(4)[1].tolist() == heads[1]
    with pytest.raises(StreamMisuse, match="before"):
        stream.substream(b"a")


def test_threads_never_get_the_same_word():
    stream = key_stream()
    with ThreadPoolExecutor(4) as pool:
        reads = list(pool.map(lambda _: stream.read(1000), range(200)))
    whole = key_stream().read(200_000)[1]
    assert sorted(first for first, _ in reads) == list(range(0, 200_000, 1000))
    assert all(np.array_equal(words, whole[first : first + 1000]) for first, words in reads)


@pytest.mark.slow
@pytest.mark.fault(31)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
def test_a_forked_child_cannot_use_its_parents_stream():
    stream = key_stream()
    uses = [
        lambda: stream.read(1),
        lambda: stream.substream(b"child"),
        lambda: next(stream.extension(0)),
        lambda: DiscreteGaussian(2).sample(1, stream),
    ]
    child = os.fork()
    if child == 0:
        refused = 0
        for use in uses:
            try:
                use()
            except StreamMisuse:
                refused += 1
        usable = len(KeyStream.fresh().read(3)[1]) == 3
        os._exit(refused if usable else 99)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == len(uses)
    assert stream.read(1)[0] == 0


@pytest.mark.fault(31)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_is_neither_copied_nor_pickled(duplicate):
    with pytest.raises(StreamMisuse):
        duplicate(key_stream())


def test_shows_no_key_and_needs_a_whole_one():
    assert repr(key_stream()) == "<KeyStream at word 0>"
    with pytest.raises(ValueError, match="32 bytes") as refusal:
        KeyStream.from_key_for_tests(b"secret")
    assert "secret" not in str(refusal.value).replace("key stream's secret", "")
