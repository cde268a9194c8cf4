"""Randomness for tests: one reproducible stream a seed."""

from collections.abc import Callable
from hashlib import sha256

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR


def seeded(seed: object) -> Callable[[int], bytes]:
    """The AES-256-CTR key stream under SHA-256 of the seed's text; bytes do not depend on the
    sizes in which they are asked for."""
    stream = Cipher(AES256(sha256(str(seed).encode()).digest()), CTR(bytes(16))).encryptor()
    return lambda size: stream.update(bytes(size))


def scripted(*replies: bytes) -> Callable[[int], bytes]:
    """Randomness that says these bytes, call by call."""
    remaining = list(replies)

    def reply(size: int) -> bytes:
        said = remaining.pop(0)
        assert len(said) == size
        return said

    return reply
