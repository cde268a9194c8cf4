"""A certificate that vouches for itself: for trying things out on one machine.

Whoever is to believe it gets the certificate itself, as its authority or as a pin. For others use
one of your organisation's authority: see docs/DEPLOYING.md.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dhdmm.network.files import create_new

LIFE = timedelta(days=7)
CLOCKS_DIFFER = timedelta(minutes=10)


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A fresh certificate for this machine's own addresses, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    known_as = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + LIFE)
        .add_extension(known_as, critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    certificate, key_file = folder / "coordinator.pem", folder / "coordinator.key"
    create_new(certificate, made.public_bytes(serialization.Encoding.PEM), private=False)
    create_new(key_file, secret, private=True)
    return certificate, key_file
