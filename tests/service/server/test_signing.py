"""Signed requests."""

from hashlib import sha256

import pytest

from dhdmm.secagg.keys import Identity, signature_holds
from dhdmm.service.problems import Problem
from dhdmm.service.signing import KEY_HEADER, SIGNATURE_HEADER, sign, verified_key

IDENTITY = Identity(sha256(b"somebody").digest())
TARGET = "/v1/rounds/00/message?after=&wait=30"


def test_a_request_is_signed_as_the_page_says() -> None:
    headers = sign(IDENTITY, "POST", TARGET, b"body")
    said = b"dhdmm1 request".ljust(16, b"\0") + b"POST\0" + TARGET.encode() + b"\0"
    said += sha256(b"body").digest()
    assert headers[KEY_HEADER] == IDENTITY.public.hex()
    assert signature_holds(IDENTITY.public, said, bytes.fromhex(headers[SIGNATURE_HEADER]))


def test_a_signature_holds_for_one_method_target_and_body() -> None:
    headers, digest = sign(IDENTITY, "POST", TARGET, b"body"), sha256(b"body").digest()
    assert verified_key(headers, "POST", TARGET, digest) == IDENTITY.public
    for method, target, other in [
        ("GET", TARGET, digest),
        ("POST", TARGET + "0", digest),
        ("POST", TARGET, sha256(b"other").digest()),
    ]:
        with pytest.raises(Problem) as refused:
            verified_key(headers, method, target, other)
        assert refused.value.status == 401
