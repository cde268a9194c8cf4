"""What a browser computes for a report is what Python computes: noise, columns, seals."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, MLKEM768X25519PrivateKey, Suite
from playwright.sync_api import Browser, Page

import dhdmm
from dhdmm.study.histogram import Histogram
from tests.web.coordinators import served

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
VECTORS = json.loads((ROOT / "tests/vectors/gaussian.json").read_text())
TWO_SERVERS = json.loads((ROOT / "tests/vectors/two-servers.json").read_text())
HEX = """
const bytes = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (octet) => parseInt(octet, 16));
const hex = (octets) => Array.from(octets, (octet) => octet.toString(16).padStart(2, "0")).join("");
"""


@pytest.fixture(scope="module")
def blank(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page of a coordinator, which may load its modules."""
    with served(tmp_path_factory.mktemp("coordinator")) as coordinator:
        page = browser.new_page()
        page.goto(f"{coordinator.address}/sign-in")
        yield page


def computed(page: Page, module: str, names: str, body: str, argument: Any) -> Any:
    """What a function of this body returns, given these names of a module."""
    imports = f'const {{ {names} }} = await import("/static/{module}.js");'
    return page.evaluate(f"async (given) => {{ {HEX} {imports} {body} }}", argument)


def test_noise_is_drawn_as_in_python(blank: Page) -> None:
    drawn = computed(
        blank,
        "report-noise",
        "KeyStream, sample",
        """const all = [];
        for (const { key, variance, samples } of given) {
          const [numerator, denominator = "1"] = variance.split("/");
          const stream = await KeyStream.of(bytes(key));
          all.push((await sample(samples.length, [numerator, denominator], stream)).map(String));
        }
        return all;""",
        VECTORS["samples"],
    )
    expected = [[str(value) for value in one["samples"]] for one in VECTORS["samples"]]
    assert len(drawn) == len(expected) > 10
    assert drawn == expected


def test_words_that_noise_is_made_of_are_those_of_python(blank: Page) -> None:
    words, more = computed(
        blank,
        "report-noise",
        "KeyStream",
        """const stream = await KeyStream.of(bytes(given));
        const words = [...(await stream.read(4))];
        const extension = stream.extension(3);
        const more = [];
        for (let i = 0; i < 4; i++) more.push((await extension.next()).value);
        const shown = (word) => word.toString(16).padStart(16, "0");
        return [words.map(shown), more.map(shown)];""",
        VECTORS["stream"]["key"],
    )
    assert words == VECTORS["stream"]["words"]
    assert more == VECTORS["stream"]["extension_of_word_3"]


@pytest.mark.parametrize("example", ["hospitals", "census-sf1", "adult-5"])
def test_a_record_adds_the_same_column(blank: Page, example: str) -> None:
    study = dhdmm.Study.load(ROOT / "examples" / example / "study.yaml")
    strategy = dhdmm.optimise(study.workload)
    generator = np.random.default_rng(1)
    codes = generator.integers(study.schema.shape, size=(20, len(study.schema.shape)))
    columns = computed(
        blank,
        "report-plan",
        "Strategy",
        """const strategy = new Strategy(bytes(given.strategy));
        return given.codes.map((codes) => strategy.column(codes).map(Number));""",
        {"strategy": strategy.to_bytes().hex(), "codes": codes.tolist()},
    )
    expected = [strategy.measure(Histogram.of_records(one[None])).tolist() for one in codes]
    assert columns == expected


def test_a_browser_seals_what_python_opens(blank: Page) -> None:
    curve, lattice = X25519PrivateKey.generate(), MLKEM768PrivateKey.generate()
    curve_public = curve.public_key().public_bytes_raw()
    both_public = lattice.public_key().public_bytes_raw() + curve_public
    both = MLKEM768X25519PrivateKey(lattice, curve)
    for name, kem, secret, public, size in (
        ("X25519", KEM.X25519, curve, curve_public, 80),
        ("MLKEM768-X25519", KEM.MLKEM768_X25519, both, both_public, 1168),
    ):
        sealed = computed(
            blank,
            "report-seal",
            "seal",
            """const { kem, key, info } = given;
            return hex(await seal(kem, bytes(key), bytes(info), new Uint8Array(32).fill(7)));""",
            {"kem": name, "key": public.hex(), "info": b"info".hex()},
        )
        suite = Suite(kem, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
        assert len(sealed) == 2 * size
        assert suite.decrypt(bytes.fromhex(sealed), secret, info=b"info") == bytes([7] * 32)


def test_sha3_is_that_of_the_standard(blank: Page) -> None:
    lengths = [0, 1, 71, 134, 135]
    messages = [bytes(i * 7 % 256 for i in range(length)) for length in lengths]
    digests = computed(
        blank,
        "report-sha3",
        "sha3",
        "return given.map((message) => hex(sha3(bytes(message))));",
        [message.hex() for message in messages],
    )
    assert digests == [hashlib.sha3_256(message).hexdigest() for message in messages]


SUITES = ["x25519", "mlkem768-x25519"]


@pytest.mark.parametrize("suite", SUITES)
def test_a_share_is_split_and_packed_as_in_the_vectors(blank: Page, suite: str) -> None:
    one = TWO_SERVERS["reports"][suite]
    packed = computed(
        blank,
        "report",
        "leaderShare",
        """const { vector, plan, seed, session, position } = given;
        const values = vector.map(BigInt);
        return hex(await leaderShare(values, plan, bytes(seed), bytes(session), position));""",
        {
            "vector": TWO_SERVERS["vector"],
            "plan": {
                "modulusBits": TWO_SERVERS["modulus"].bit_length() - 1,
                "sumBits": [own for rows, _, own in TWO_SERVERS["sum_ranges"] for _ in range(rows)],
            },
            "seed": one["seed"],
            "session": TWO_SERVERS["session"],
            "position": TWO_SERVERS["position"],
        },
    )
    assert packed == one["packed"]


@pytest.mark.parametrize("suite", SUITES)
def test_only_the_helper_s_own_key_is_taken(blank: Page, suite: str) -> None:
    one = TWO_SERVERS["reports"][suite]
    message = bytes.fromhex(one["helper_key_message"])
    others = TWO_SERVERS["identity_public"]
    body = """const { message, number, helper, session } = given;
    try {
      const plan = { suite: { number }, helper: bytes(helper) };
      return hex(await helperKey(bytes(message), plan, bytes(session)));
    } catch (error) { return error.message; }"""
    asked = {
        "message": one["helper_key_message"],
        "number": {"mlkem768-x25519": 1, "x25519": 2}[suite],
        "helper": TWO_SERVERS["helper_identity_public"],
        "session": TWO_SERVERS["session"],
    }
    changed = message[:50] + bytes([message[50] ^ 1]) + message[51:]
    other_session = bytes.fromhex(TWO_SERVERS["session"])[::-1].hex()

    def answer(**changes: str) -> str:
        return str(computed(blank, "report", "helperKey", body, asked | changes))

    assert answer() == one["helper_public"]
    assert "has not signed" in answer(helper=others)
    assert "has not signed" in answer(message=changed.hex())
    assert "not one of this round" in answer(session=other_session)
