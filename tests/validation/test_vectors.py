"""The stored commitment and proof are what dhdmm makes, and hold for a second implementation."""

import json

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import CTR

from tests.validation import plain
from tests.vectors.make_validation import VECTORS, make_vectors

STORED = json.loads(VECTORS.read_text(encoding="utf-8"))
Q = plain.Q


def test_vectors_are_those_that_are_stored() -> None:
    assert make_vectors() == STORED


def test_the_blinding_is_masked_by_the_key_stream_behind_the_vectors() -> None:
    seed, k = bytes.fromhex(STORED["mask seed"]), len(STORED["vector"])
    stream = Cipher(AES128(seed[:16]), CTR(seed[16:])).encryptor().update(bytes(4 * k + 48))
    mask = int.from_bytes(stream[4 * k :], "little")
    masked = (int(STORED["blinding"]) + mask) % Q
    assert bytes.fromhex(STORED["masked"])[-32:] == masked.to_bytes(32, "little")
    first = (STORED["vector"][0] + int.from_bytes(stream[:4], "little")) % STORED["modulus"]
    assert bytes.fromhex(STORED["masked"])[0] == first % 256


@pytest.fixture(scope="module")
def generators() -> dict[str, list[bytes]]:
    return {
        name: [bytes.fromhex(p) for p in points] for name, points in STORED["generators"].items()
    }


def test_the_commitment_is_that_of_plain_arithmetic(generators: dict[str, list[bytes]]) -> None:
    points = [plain.point(p) for p in [*generators["g"], *generators["h"]]]
    expected = plain.combination(points, [*STORED["vector"], int(STORED["blinding"])])
    assert plain.point(bytes.fromhex(STORED["commitment"])) == expected


@pytest.mark.slow
@pytest.mark.parametrize("bound", [100, 99])
def test_a_plain_verifier_agrees(bound: int, generators: dict[str, list[bytes]]) -> None:
    said = (bytes.fromhex(STORED[name]) for name in ("context", "commitment", "proof"))
    assert plain.holds(len(STORED["vector"]), bound, *said, generators) == (bound == 100)
