"""Who takes part in a round on this machine: seats, and where each one's random bits come from.

`Enrolled` people have real keys and the operating system's randomness. `Seeded` people are for
simulation only: one seed gives all their keys, shares and noise, so whoever knows it knows every
secret. They hold made-up or public records, and never stand in for anybody real.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.randomness import Randomness
from dhdmm.privacy.keystream import KeyStream
from dhdmm.study.histogram import Histogram

_BLOCK = 16


@dataclass(frozen=True)
class LocalSeat:
    """One participant: where it sits, who it is, what it holds."""

    position: int
    identity: Identity = field(repr=False)
    histogram: Histogram = field(repr=False)


class People(Protocol):
    """Some of a round's participants."""

    def positions(self) -> Sequence[int]: ...

    def seat(self, position: int) -> LocalSeat: ...

    def randomness(self, position: int) -> Randomness:
        """For keys and shares. A second call continues the stream and repeats nothing."""

    def noise(self, position: int) -> KeyStream:
        """For the one measurement."""

    def part(self, home: int, homes: int) -> People:
        """Every `homes`-th of them, from `home` on."""

    def encode(self) -> dict[str, Any]:
        """For a worker, in values that CBOR knows."""


class Enrolled:
    """People with keys of their own."""

    def __init__(self, seats: Sequence[LocalSeat]) -> None:
        self._seats = {seat.position: seat for seat in seats}

    def positions(self) -> Sequence[int]:
        return list(self._seats)

    def seat(self, position: int) -> LocalSeat:
        return self._seats[position]

    def randomness(self, position: int) -> Randomness:
        return os.urandom

    def noise(self, position: int) -> KeyStream:
        return KeyStream.fresh()

    def part(self, home: int, homes: int) -> Enrolled:
        return Enrolled(list(self._seats.values())[home::homes])

    def encode(self) -> dict[str, Any]:
        return {
            "seats": [
                (seat.position, seat.identity.seed, *_encode_histogram(seat.histogram))
                for seat in self._seats.values()
            ]
        }


class Seeded:
    """Made-up people: every `step`-th of a round, the j-th with records[j]: (r, attributes).

    Each has an AES key stream of its own for every purpose, under a hash of seed and position.
    """

    def __init__(self, seed: bytes, records: NDArray[Any], first: int = 0, step: int = 1) -> None:
        self._seed, self._records, self._first, self._step = seed, records, first, step
        self._drawn: dict[int, int] = {}

    def positions(self) -> Sequence[int]:
        return range(self._first, self._first + len(self._records) * self._step, self._step)

    def identity(self, position: int) -> Identity:
        return Identity(self._key(b"identity", position))

    def seat(self, position: int) -> LocalSeat:
        codes = self._records[(position - self._first) // self._step].astype(np.int64)
        return LocalSeat(position, self.identity(position), Histogram.of_records(codes))

    def randomness(self, position: int) -> Randomness:
        drawn = self._drawn.get(position, 0)
        stream = _counter_mode(self._key(b"randomness", position), drawn)

        def draw(size: int) -> bytes:
            self._drawn[position] = self._drawn.get(position, 0) + size
            return stream(size)

        return draw

    def first_drawn(self, position: int, size: int) -> bytes:
        """What `randomness` gave first, once more."""
        return _counter_mode(self._key(b"randomness", position), 0)(size)

    def noise(self, position: int) -> KeyStream:
        return KeyStream.from_key_for_tests(self._key(b"noise", position))

    def part(self, home: int, homes: int) -> Seeded:
        first = self._first + home * self._step
        return Seeded(self._seed, self._records[home::homes], first, homes * self._step)

    def encode(self) -> dict[str, Any]:
        records = self._records
        where = {"first": self._first, "step": self._step, "seed": self._seed}
        return {"records": [records.tobytes(), records.dtype.str, list(records.shape)], **where}

    def _key(self, purpose: bytes, position: int) -> bytes:
        place = position.to_bytes(4, "big")
        return sha256(b"dhdmm simulated " + purpose + place + self._seed).digest()


def decode_people(frame: dict[str, Any]) -> People:
    """The inverse of `encode`."""
    if "seats" in frame:
        return Enrolled(
            [
                LocalSeat(
                    position, Identity(seed), Histogram(_integers(codes, width), _integers(counts))
                )
                for position, seed, width, codes, counts in frame["seats"]
            ]
        )
    data, dtype, shape = frame["records"]
    records = np.frombuffer(data, np.dtype(dtype)).reshape(shape)
    return Seeded(frame["seed"], records, frame["first"], frame["step"])


def seeded_randomness(seed: bytes) -> Randomness:
    """The key stream under one seed; not for secrets of anybody real."""
    return _counter_mode(sha256(b"dhdmm simulated coordinator" + seed).digest(), 0)


def _counter_mode(key: bytes, start: int) -> Randomness:
    """AES-256-CTR from byte `start` on."""
    block, within = divmod(start, _BLOCK)
    stream = Cipher(AES256(key), CTR(block.to_bytes(_BLOCK, "big"))).encryptor()
    stream.update(bytes(within))
    return lambda size: stream.update(bytes(size))


def _encode_histogram(histogram: Histogram) -> tuple[int, bytes, bytes]:
    return histogram.codes.shape[1], histogram.codes.tobytes(), histogram.counts.tobytes()


def _integers(data: bytes, width: int | None = None) -> Any:
    integers = np.frombuffer(data, np.int64)
    return integers if width is None else integers.reshape(-1, width)
