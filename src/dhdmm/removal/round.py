"""One round in which excess noise is removed: the terms of the one below it, and how noise is
divided."""

from __future__ import annotations

from dataclasses import dataclass

from dhdmm.aggregation.modulus import Vector
from dhdmm.aggregation.wrapping import RoundOver, attach
from dhdmm.privacy.removable import SEED_BYTES, RemovableNoise


@dataclass(frozen=True)
class RemovingRound(RoundOver):
    """How the noise of every participant is divided, besides."""

    noise: RemovableNoise

    @property
    def input_bytes(self) -> int:
        return len(attach(b"", b"")) + self.below.input_bytes

    @property
    def all_parts(self) -> tuple[int, ...]:
        return tuple(range(self.noise.parts))

    def removed(self, survivors: int) -> tuple[int, ...]:
        """The parts that are in excess with so many survivors."""
        return self.noise.removed(self.noise.level(survivors))

    def expanded(self, parts: tuple[int, ...], seeds: bytes) -> Vector:
        """What these parts' noise adds up to, from their seeds one after another."""
        total = self.modulus.zeros(self.length)
        for part, seed in zip(parts, separate(seeds), strict=True):
            drawn = self.noise.expand(part, seed, self.length)
            self.modulus.add(total, self.modulus.residues(drawn))
        return self.modulus.reduce(total)


def separate(seeds: bytes) -> list[bytes]:
    return [seeds[at : at + SEED_BYTES] for at in range(0, len(seeds), SEED_BYTES)]
