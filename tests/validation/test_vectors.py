"""The stored commitment and proof are what dhdmm makes, and hold for a second implementation."""

import hashlib
import json

import pytest

from tests.validation import plain
from tests.vectors.make_validation import VECTORS, make_vectors

STORED = json.loads(VECTORS.read_text(encoding="utf-8"))
Q = plain.Q


def test_vectors_are_those_that_are_stored() -> None:
    assert make_vectors() == STORED


def test_the_blinding_is_the_weighted_sum_of_its_limbs() -> None:
    drawn = hashlib.shake_256(b"dhdmm validation 1 limb weights").digest(48 * len(STORED["limbs"]))
    weights = [
        int.from_bytes(drawn[48 * j : 48 * j + 48], "little") for j in range(len(drawn) // 48)
    ]
    blinding = sum(t * limb for t, limb in zip(weights, STORED["limbs"], strict=True)) % Q
    assert blinding == int(STORED["blinding"])


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
