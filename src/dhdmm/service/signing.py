"""Every request of a participant is signed by its identity.

    label "dhdmm1 request" ‖ method ‖ 0x00 ‖ path and query as sent ‖ 0x00 ‖ SHA-256 of the body

The label is filled with zero bytes to 16, as all labels are. There is no time and no nonce in it:
every route may be called again, and a replayed request only repeats what was done.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from dhdmm.secagg.keys import KEY_BYTES, SIGNATURE_BYTES, Identity, signature_holds
from dhdmm.service.problems import Problem, Reason

KEY_HEADER, SIGNATURE_HEADER = "dhdmm-key", "dhdmm-signature"
_LABEL = b"dhdmm1 request\0\0"


def sign(identity: Identity, method: str, target: str, body: bytes = b"") -> dict[str, str]:
    """The headers of a request; `target` is its path and query exactly as they are sent."""
    said = _statement(method, target, sha256(body).digest())
    return {KEY_HEADER: identity.public.hex(), SIGNATURE_HEADER: identity.sign(said).hex()}


def claimed_key(headers: Mapping[str, str]) -> bytes:
    """Whose signature the request claims to have; nothing is verified yet."""
    return _hexadecimal(headers, KEY_HEADER, KEY_BYTES)


def verified_key(headers: Mapping[str, str], method: str, target: str, body_digest: bytes) -> bytes:
    """The key that signed this request; otherwise a 401."""
    key = claimed_key(headers)
    signature = _hexadecimal(headers, SIGNATURE_HEADER, SIGNATURE_BYTES)
    if not signature_holds(key, _statement(method, target, body_digest), signature):
        raise Problem(401, Reason.UNSIGNED, "the request's signature does not hold")
    return key


def _statement(method: str, target: str, body_digest: bytes) -> bytes:
    return b"\0".join([_LABEL + method.encode(), target.encode(), body_digest])


def _hexadecimal(headers: Mapping[str, str], name: str, size: int) -> bytes:
    try:
        value = bytes.fromhex(headers.get(name, ""))
    except ValueError:
        value = b""
    if len(value) != size:
        raise Problem(401, Reason.UNSIGNED, f"the header {name} is missing or not {size} bytes")
    return value
