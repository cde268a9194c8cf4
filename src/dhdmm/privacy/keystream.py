"""The random words that noise is made of: AES-256 in counter mode under a fresh secret.

A stream is a sequence of 64-bit words, read once and in order. Behind the word at each position
stands an endless *extension*, found from the position alone: whoever needs more random bits for one
decision takes them there, and the words that everyone else reads stay where they were. That is what
makes a sample a function of the secret only, whichever decisions needed more bits (docs/noise.md).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from numpy.typing import NDArray

SECRET_BYTES = 32
WORD_BYTES = 8
EXTENSION_WORDS = 8  # drawn at a time; one is nearly always enough
NAMESPACE = b"dhdmm noise v1"

_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):  # absent where there is no fork
    os.register_at_fork(after_in_child=_count_fork)


class StreamMisuse(RuntimeError):
    """A use that would hand out the same random bits twice: a defect of the program."""


class KeyStream:
    """Words of AES-256-CTR, each read at most once; threads may share it, processes may not."""

    def __init__(self, *, _secret: bytes) -> None:
        """Not for callers: they use `fresh`, `of_seed` and `substream`."""
        if len(_secret) != SECRET_BYTES:
            raise ValueError(f"a key stream's secret has {SECRET_BYTES} bytes, not {len(_secret)}")
        self._secret = _secret
        self._words = _counter_mode(_derive(_secret, b"words"), bytes(16))
        self._extension_key = _derive(_secret, b"extension")
        self._position = 0
        self._labels: set[bytes] = set()
        self._lock = threading.Lock()
        self._born_after_forks = _forks

    @classmethod
    def fresh(cls) -> KeyStream:
        """A stream under a new secret from the operating system: one for every round."""
        return cls(_secret=os.urandom(SECRET_BYTES))

    @classmethod
    def from_key_for_tests(cls, key: bytes) -> KeyStream:
        """A reproducible stream. Noise made from a known key hides nothing."""
        return cls(_secret=key)

    @classmethod
    def of_seed(cls, seed: bytes) -> KeyStream:
        """The stream under a secret that may be shown later, to whoever is to know its words."""
        return cls(_secret=seed)

    def substream(self, label: bytes) -> KeyStream:
        """An independent stream for one purpose. Each label is good for one call only."""
        self._refuse_after_fork()
        with self._lock:
            if label in self._labels:
                raise StreamMisuse(f"the substream {label!r} was handed out before")
            self._labels.add(label)
        return KeyStream(_secret=_derive(self._secret, b"substream", label))

    def read(self, count: int) -> tuple[int, NDArray[np.uint64]]:
        """The next `count` words and the position of the first."""
        self._refuse_after_fork()
        words = np.zeros(count, "<u8")
        octets = words.view(np.uint8).data
        with self._lock:
            first, self._position = self._position, self._position + count
            self._words.update_into(octets, octets)
        return first, words.astype(np.uint64, copy=False)

    def extension(self, position: int) -> Iterator[int]:
        """The endless words behind the word at `position`; every call starts at the first."""
        self._refuse_after_fork()
        blocks = _counter_mode(self._extension_key, position.to_bytes(8, "big") + bytes(8))
        while True:
            octets = blocks.update(bytes(WORD_BYTES * EXTENSION_WORDS))
            yield from np.frombuffer(octets, "<u8").tolist()

    def _refuse_after_fork(self) -> None:
        if _forks != self._born_after_forks:
            raise StreamMisuse("this key stream belongs to the parent process; make a fresh one")

    def __repr__(self) -> str:
        return f"<KeyStream at word {self._position}>"

    def __reduce__(self) -> NoReturn:
        raise StreamMisuse("a key stream is neither copied nor sent to another process")


def _derive(secret: bytes, purpose: bytes, label: bytes = b"") -> bytes:
    """An independent key for every (purpose, label): HKDF-Expand (RFC 5869) with SHA-256.

    Purposes are words without a colon, so that no two pairs share an encoding.
    """
    info = b":".join([NAMESPACE, purpose, label])
    return HKDFExpand(SHA256(), SECRET_BYTES, info).derive(secret)


def _counter_mode(key: bytes, first_block: bytes) -> CipherContext:
    return Cipher(AES256(key), CTR(first_block)).encryptor()
