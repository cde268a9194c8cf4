"""Rounds of a few machines that remove excess noise, and a coordinator that wants too much."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.aggregation.method import Method
from dhdmm.aggregation.wrapping import detach
from dhdmm.privacy.removable import SEED_BYTES, RemovableNoise
from dhdmm.removal.method import RemovedExcess
from dhdmm.removal.participant import RemovingParticipant
from dhdmm.removal.round import RemovingRound, separate
from tests.protocol.adversary import Adversary, Group
from tests.protocol.network import Stream
from tests.validation.rounds import BOUND, LENGTH, Table

VARIANCE = Fraction(10_000)


@dataclass
class RemovingTable(Table):
    """Ten people whose inputs have no other noise than what can be removed."""

    level: str = "none"
    people: int = 10

    @cached_property
    def method(self) -> Method:
        below = Table.__dict__["method"].func(self)
        return RemovedExcess(below)

    @cached_property
    def round(self) -> RemovingRound:
        parameters = self.method.choose(self.people, 0.1, 0.3)
        terms = replace(self.terms, norm_bound=100 * BOUND, noise_variance=VARIANCE)
        return self.method.round(parameters, terms)

    def machine(self, i: int) -> Any:
        journal = self.journals.setdefault(i, MemoryJournal())
        drawn = Stream("table", i) if journal.read() is None else Stream("table again", i)
        return self.method.participant(
            self.round, self.roster, self.identities[i], i, drawn, journal
        )

    def seeds(self, i: int) -> list[bytes]:
        """Those that participant i drew, first of all."""
        return separate(Stream("table", i)(SEED_BYTES * self.round.noise.parts))

    def expanded(self, i: int, parts: Collection[int]) -> np.ndarray:
        noise, seeds = self.round.noise, self.seeds(i)
        drawn = [noise.expand(part, seeds[part], LENGTH) for part in parts]
        return np.sum(drawn, axis=0, dtype=np.int64) if drawn else np.zeros(LENGTH, np.int64)

    def expected(self, survivors: Collection[int], unremoved: Collection[int] = ()) -> list[int]:
        """Σ of the inputs and of the noise that is left in them."""
        everything = range(self.round.noise.parts)
        removed = self.round.removed(len(survivors))
        kept = [part for part in everything if part not in removed]
        total = self.vectors[list(survivors)].sum(axis=0)
        for i in survivors:
            total = total + self.expanded(i, everything if i in unremoved else kept)
        return total.tolist()


class Watched:
    """A machine as the adversary hears it: its messages, and beside them the seeds that left."""

    def __init__(self, machine: RemovingParticipant) -> None:
        self.machine, self.left = machine, set[bytes]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.machine.below, name)

    def begin(self) -> bytes | None:
        return self._heard(self.machine.begin())

    def receive(self, data: bytes) -> bytes | None:
        return self._heard(self.machine.receive(data))

    def give_input(self, vector: np.ndarray) -> bytes | None:
        return self._heard(self.machine.give_input(vector))

    def _heard(self, answer: bytes | None) -> bytes | None:
        if answer is None:
            return None
        seeds, message = detach(answer)
        self.left.update(separate(seeds))
        return message


class Remover(Adversary):
    """A coordinator with two of twenty people, after less honest noise than was promised.

    14 must survive, so the noise of twelve honest ones is S.
    """

    group = Group(20, frozenset({18, 19}), 14, threshold=11)
    targets: Collection[int] = range(12)
    noise = RemovableNoise(VARIANCE, 20, 14, 12)
    remover = RemovingParticipant

    def participant(self, position: int) -> Any:
        if position in self.corrupt:
            return super().participant(position)
        return self.removing(position, self.journals[position])

    def removing(self, position: int, journal: Any) -> Watched:
        parameters = self.parameters_for(position)

        def below(journal: Any) -> Any:
            made = self._honest_class(
                parameters,
                self.roster(),
                self.identity(position),
                position,
                Stream(self._seed, position, "below"),
                journal,
            )
            return made.resume()

        round = RemovingRound(parameters, self.noise)
        return Watched(self.remover(round, Stream(self._seed, position), journal, below))

    def removed_variance(self, position: int) -> Fraction:
        """What the adversary can take off this participant's noise."""
        drawn = separate(Stream(self._seed, position)(SEED_BYTES * self.noise.parts))
        known = self.participants[position].left
        return sum(
            (self.noise.step * 2**part for part, seed in enumerate(drawn) if seed in known),
            Fraction(0),
        )

    def honest_variance(self) -> Fraction:
        """Of the noise in the targets' sum that the adversary does not know."""
        return sum(
            (self.noise.variance - self.removed_variance(i) for i in self.targets), Fraction(0)
        )

    @property
    def promised(self) -> Fraction:
        """S."""
        return self.noise.variance * self.noise.honest_floor
