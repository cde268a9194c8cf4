"""Participants that only a coordinator takes for real ones, for measuring what it does for many.

They leave out what it cannot see, and their noise: a round costs about a millisecond of them each.
The coordinator's messages, theirs but for what is encrypted, and the exact sum are those of a real
round with the same seed.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from dhdmm.aggregation.method import SimplifiedMachine, input_phase
from dhdmm.aggregation.modulus import Vector
from dhdmm.cohort.drive import Silent
from dhdmm.cohort.members import Answer, Cohort, Messages
from dhdmm.cohort.usage import Usage
from dhdmm.errors import DataError
from dhdmm.session.introductions import split
from dhdmm.simulation.population import Population
from dhdmm.study.division import divided


class SimplifiedParticipants:
    """All participants of a round, in this process; `gone` are those who will send no input."""

    def __init__(self, population: Population, gone: Collection[int]) -> None:
        self._plan, self._people, self._gone = population.plan, population.people, gone
        self._round = population.plan.round(population.round_id)
        self._machines: dict[int, SimplifiedMachine] = {}
        self._batches: list[dict[int, Answer]] = []

    def send(self, messages: Messages) -> None:
        self._batches.append(
            {i: Answer(self._answer(i, message), 0.0) for i, message in messages.items()}
        )
        gc.freeze()  # the coordinator is not to pay for searches through participants

    def collect(self) -> dict[int, Answer]:
        return self._batches.pop(0)

    def total(self, positions: Iterable[int]) -> Callable[[], Vector]:
        modulus, total = self._plan.modulus, self._plan.modulus.zeros(self._plan.strategy.rows)
        for i in positions:
            modulus.add(total, self._input(i))
        return lambda: modulus.reduce(total)

    def usage(self) -> Usage:
        return Usage(0.0, 0)

    def close(self) -> None:
        self._machines.clear()
        gc.unfreeze()

    def _answer(self, position: int, message: bytes | None) -> bytes:
        if message is None:
            people = self._people
            identity, randomness = people.identity(position), people.randomness(position)
            machine = self._plan.method.simplified_participant(
                self._round, identity, position, randomness, self._gone
            )
            self._machines[position] = machine
            return machine.begin()
        said = split(message).message
        return self._machines[position].answer(said, lambda: self._input(position))

    def _input(self, position: int) -> Vector:
        """A′x: what is added up, without noise."""
        histogram = self._people.seat(position).histogram
        exact = self._plan.strategy.measure(divided(self._plan.study.schema, histogram))
        return self._plan.modulus.residues(exact)


@contextmanager
def simplified(population: Population, silent: Silent) -> Iterator[list[Cohort]]:
    if population.plan.study.aggregation.validation != "none":
        raise DataError(
            "simplified participants prove nothing, and this study asks for proofs of inputs",
            hint="simulate it with another engine, or with 'validation: none'",
        )
    if population.plan.removable is not None:
        raise DataError(
            "simplified participants add no noise, and this study has noise removed",
            hint="simulate it with another engine, or with 'excess_noise: keep'",
        )
    if population.plan.method.has_helper:
        raise DataError(
            "participants of two servers are quick: there are no simplified ones",
            hint="simulate it with another engine",
        )
    method, gone = population.plan.method, set[int]()
    names = [phase.name for phase in method.phases]
    for name in names[: names.index(input_phase(method).name) + 1]:
        gone.update(silent.get(name, ()))
    everybody = SimplifiedParticipants(population, gone)
    try:
        yield [everybody]
    finally:
        everybody.close()
