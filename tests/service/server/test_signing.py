"""Signed requests."""

from hashlib import sha256

import pytest

from dhdmm.aggregation.identity import Identity, signature_holds
from dhdmm.network.problems import Problem
from dhdmm.network.signing import (
    DIGEST_HEADER,
    KEY_HEADER,
    SIGNATURE_HEADER,
    claimed_key,
    require_announced,
    require_signature,
    sign,
)

IDENTITY = Identity(sha256(b"somebody").digest())
TARGET = "/v1/rounds/00/message?after=&wait=30"


def test_a_request_is_signed_as_the_page_says() -> None:
    headers = sign(IDENTITY, "POST", TARGET, b"body")
    said = b"dhdmm1 request".ljust(16, b"\0") + b"POST\0" + TARGET.encode() + b"\0"
    said += b"4\0" + sha256(b"body").digest()
    assert headers[KEY_HEADER] == IDENTITY.public.hex()
    assert headers[DIGEST_HEADER] == sha256(b"body").hexdigest()
    assert signature_holds(IDENTITY.public, said, bytes.fromhex(headers[SIGNATURE_HEADER]))


def test_a_signature_holds_for_one_method_target_length_and_digest() -> None:
    headers = sign(IDENTITY, "POST", TARGET, b"body") | {"content-length": "4"}
    require_signature(claimed_key(headers), headers, "POST", TARGET)
    other = sha256(b"other").hexdigest()
    for method, target, changed in [
        ("GET", TARGET, {}),
        ("POST", TARGET + "0", {}),
        ("POST", TARGET, {DIGEST_HEADER: other}),
        ("POST", TARGET, {"content-length": "5"}),
        ("POST", TARGET, {"transfer-encoding": "chunked"}),
    ]:
        with pytest.raises(Problem) as refused:
            require_signature(claimed_key(headers | changed), headers | changed, method, target)
        assert refused.value.status == 401


def test_a_body_is_the_one_that_was_signed() -> None:
    headers = sign(IDENTITY, "POST", TARGET, b"body")
    require_announced(headers, b"body")
    require_announced(sign(IDENTITY, "GET", TARGET), b"")
    for signed, body in [(headers, b"bode"), (sign(IDENTITY, "GET", TARGET), b"body")]:
        with pytest.raises(Problem) as refused:
            require_announced(signed, body)
        assert refused.value.status == 401
