"""Every request of a participant is signed by its identity, in its header.

    label "dhdmm1 request" ‖ method ‖ 0x00 ‖ path and query as sent ‖ 0x00
        ‖ the body's length in decimal ‖ 0x00 ‖ SHA-256 of the body

The label is filled with zero bytes to 16, as all labels are. The header announces the body's
length and digest, so who asks is known before a byte of the body is read; whether the body is
the announced one is seen afterwards. There is no time and no nonce in the signature: every route
may be called again, and a replayed request only repeats what was done.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from dhdmm.aggregation.identity import KEY_BYTES, SIGNATURE_BYTES, Identity, signature_holds
from dhdmm.network.problems import Problem, Reason

KEY_HEADER, SIGNATURE_HEADER = "dhdmm-key", "dhdmm-signature"
DIGEST_HEADER = "dhdmm-digest"
"""SHA-256 of the body in hexadecimal; not sent without a body."""
TOKEN_HEADER = "dhdmm-token"
"""An enrolment token, of somebody who has no seat yet."""
REPLY_HEADER = "dhdmm-reply"
"""What became of a message, in an answer that has the next one as its body."""
_LABEL = b"dhdmm1 request\0\0"
_NOTHING = sha256(b"").digest()


def sign(identity: Identity, method: str, target: str, body: bytes = b"") -> dict[str, str]:
    """The headers of a request; `target` is its path and query exactly as they are sent."""
    digest = sha256(body).digest()
    said = _statement(method, target, len(body), digest)
    headers = {KEY_HEADER: identity.public.hex(), SIGNATURE_HEADER: identity.sign(said).hex()}
    return headers | ({DIGEST_HEADER: digest.hex()} if body else {})


def claimed_key(headers: Mapping[str, str]) -> bytes:
    """Whose signature the request claims to have; nothing is verified yet."""
    return _hexadecimal(headers, KEY_HEADER, KEY_BYTES)


def require_signature(key: bytes, headers: Mapping[str, str], method: str, target: str) -> None:
    """A 401 unless this key signed this header. The body has yet to be compared."""
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not (length.isascii() and length.isdecimal()):
        raise Problem(401, Reason.UNSIGNED, "a signed request announces its length")
    said = _statement(method, target, int(length), announced_digest(headers))
    signature = _hexadecimal(headers, SIGNATURE_HEADER, SIGNATURE_BYTES)
    if not signature_holds(key, said, signature):
        raise Problem(401, Reason.UNSIGNED, "the request's signature does not hold")


def announced_digest(headers: Mapping[str, str]) -> bytes:
    """What the body is to be; of a request without one, the digest of nothing."""
    return _hexadecimal(headers, DIGEST_HEADER, 32) if DIGEST_HEADER in headers else _NOTHING


def require_announced(headers: Mapping[str, str], body: bytes) -> None:
    """A 401 unless this is the body that was signed."""
    if sha256(body).digest() != announced_digest(headers):
        raise Problem(401, Reason.UNSIGNED, "the body is not the one that was signed")


def _statement(method: str, target: str, length: int, digest: bytes) -> bytes:
    return b"\0".join([_LABEL + method.encode(), target.encode(), str(length).encode(), digest])


def _hexadecimal(headers: Mapping[str, str], name: str, size: int) -> bytes:
    try:
        value = bytes.fromhex(headers.get(name, ""))
    except ValueError:
        value = b""
    if len(value) != size:
        raise Problem(401, Reason.UNSIGNED, f"the header {name} is missing or not {size} bytes")
    return value
