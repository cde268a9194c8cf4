"""What is derived from names and secrets by hashing."""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dhdmm.aggregation.method import ThreatModel

_THREAT_BYTE = {"semi-honest": b"\x00", "malicious": b"\x01", "two-servers": b"\x02"}


def session_of(
    plan_digest: bytes, round_id: bytes, threat_model: ThreatModel, roster_digest: bytes
) -> bytes:
    """SHA-256 of the label, plan digest, round id, threat model and roster digest; 32 bytes."""
    parts = plan_digest, round_id, _THREAT_BYTE[threat_model], roster_digest
    return sha256(b"dhdmm session 1" + b"".join(parts)).digest()


def hkdf_extract(secret: bytes) -> bytes:
    """HKDF-Extract with SHA-256 and no salt (RFC 5869, section 2.2): an HMAC under the zero key."""
    return hmac.digest(bytes(32), secret, "sha256")


def hkdf_expand(key: bytes, info: bytes) -> bytes:
    """The first block, 32 bytes, of HKDF-Expand with SHA-256 (RFC 5869, section 2.3)."""
    return hmac.digest(key, info + b"\x01", "sha256")
