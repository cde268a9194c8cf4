"""Where a coordinator is, and how a participant knows that it speaks with that one.

TLS 1.3 always, except with a coordinator on this machine. The coordinator's certificate is believed
because a certificate authority vouches for it (the system's, or the one given), or because it is
the very certificate whose SHA-256 was pinned. Secure aggregation does not rest on this: it keeps
strangers from joining the conversation, not the coordinator from lying.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dhdmm.errors import DhdmmError, Refused

_ROUND_PATH = re.compile(r"^/v1/rounds/([0-9a-f]{32})$")
_HINT = "such as https://coordinator.example:8443"


@dataclass(frozen=True)
class Address:
    """A coordinator, and one of its rounds if the address names it."""

    base: str
    round_id: bytes | None = None

    @classmethod
    def parse(cls, written: str) -> Address:
        try:
            parts = urlsplit(written)
            host = parts.hostname
            parts.port  # noqa: B018 - reading it checks it
            place = parts.netloc.encode("idna").decode()
        except ValueError as error:
            raise DhdmmError(f"not an address: {error}", where=written, hint=_HINT) from None
        if parts.scheme not in ("http", "https") or not host or parts.username or parts.query:
            raise DhdmmError("not a coordinator's address", where=written, hint=_HINT)
        if parts.scheme == "http" and not is_loopback(host):
            raise Refused(
                "without TLS anybody on the way could take part in your place",
                where=written,
                hint="https; plain http is for a coordinator on this machine",
            )
        named = _ROUND_PATH.match(parts.path)
        if parts.path not in ("", "/") and named is None:
            raise DhdmmError("not a coordinator's address", where=written, hint=_HINT)
        base = f"{parts.scheme}://{place}"
        return cls(base, bytes.fromhex(named[1]) if named else None)

    @property
    def local(self) -> bool:
        return is_loopback(urlsplit(self.base).hostname or "")


def is_loopback(host: str) -> bool:
    """Whether what is sent there stays on this machine.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("10.0.0.1")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def trusting(authority: Path | None = None, pin: bytes | None = None) -> ssl.SSLContext:
    """TLS 1.3 with a coordinator that the authority vouches for, or with the pinned certificate."""
    if authority is not None and pin is not None:
        raise DhdmmError("a certificate is believed for one reason", hint="give --ca or --pin")
    if pin is not None:
        return _PinnedContext.to(pin)
    try:
        context = ssl.create_default_context(cafile=authority and str(authority))
    except (OSError, ssl.SSLError):
        raise DhdmmError("no certificates can be read from it", where=str(authority)) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


class _PinnedContext(ssl.SSLContext):
    """Believes one certificate, by its SHA-256 and while it is valid; names play no part."""

    pin: bytes

    @classmethod
    def to(cls, pin: bytes) -> _PinnedContext:
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the pin is stricter, and is checked below
        context.pin = pin
        return context

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        """The handshake is over when this returns, and nothing has been said."""
        wrapped = super().wrap_socket(*arguments, **options)
        try:
            self._require_pinned(wrapped.getpeercert(binary_form=True) or b"")
        except ssl.SSLCertVerificationError:
            wrapped.close()
            raise
        return wrapped

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        raise ssl.SSLCertVerificationError("a pinned certificate cannot be checked on this way")

    def _require_pinned(self, certificate: bytes) -> None:
        if sha256(certificate).digest() != self.pin:
            raise ssl.SSLCertVerificationError("it is not the pinned certificate")
        from cryptography import x509  # slow to import, and only for pins

        valid = x509.load_der_x509_certificate(certificate)
        if not valid.not_valid_before_utc <= datetime.now(UTC) <= valid.not_valid_after_utc:
            raise ssl.SSLCertVerificationError("the pinned certificate has expired")


def parse_digest(written: str, what: str, hint: str | None = None) -> bytes:
    """32 bytes in hexadecimal; colons and spaces between digits are common and allowed."""
    try:
        digest = bytes.fromhex(written.replace(":", ""))
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise DhdmmError(f"{what} has 64 hexadecimal digits", where=written[:80], hint=hint)
    return digest
