"""Validated rounds of a few machines, driven by hand, with liars among them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dhdmm.aggregation.errors import RemoteProtocolError
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.aggregation.method import (
    FINISHED,
    Checked,
    Method,
    PublishedSum,
    RoundTerms,
    ThreatModel,
)
from dhdmm.aggregation.modulus import Modulus
from dhdmm.aggregation.roster import Roster
from dhdmm.secagg.method import SecureAggregation
from dhdmm.validated.method import ValidatedSum
from tests.secagg.seeded import seeded

LENGTH, BOUND, MODULUS = 5, 100, Modulus(2**24)
Machine = Any


@dataclass
class Table:
    """Six people, or more, and a coordinator, for one round."""

    level: str = "bounded"
    threat_model: ThreatModel = ThreatModel.MALICIOUS
    people: int = 6
    round_id: bytes = bytes(16)
    store: dict[str, bytes] = field(default_factory=dict)
    journals: dict[int, MemoryJournal] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)

    @cached_property
    def identities(self) -> list[Identity]:
        return [Identity.generate(seeded(("identity", i))) for i in range(self.people)]

    @cached_property
    def roster(self) -> Roster:
        names = tuple(f"person {i}" for i in range(self.people))
        return Roster(names, tuple(identity.public for identity in self.identities))

    @cached_property
    def method(self) -> Method:
        below = SecureAggregation(self.threat_model)
        return below if self.level == "none" else ValidatedSum(below, self.level == "bounded")

    @cached_property
    def round(self) -> Any:
        parameters = self.method.choose(self.people, 0.2, 0.2)
        return self.method.round(parameters, self.terms)

    @property
    def terms(self) -> RoundTerms:
        return RoundTerms(
            plan_digest=bytes(32),
            round_id=self.round_id,
            roster_digest=self.roster.digest,
            participants=self.people,
            modulus=MODULUS,
            length=LENGTH,
            norm_bound=BOUND,
        )

    @cached_property
    def coordinator(self) -> Machine:
        return self.method.coordinator(self.round, self.roster, os.urandom, self.store)

    @cached_property
    def machines(self) -> list[Machine]:
        return [self.machine(i) for i in range(self.people)]

    def machine(self, i: int) -> Machine:
        journal = self.journals.setdefault(i, MemoryJournal())
        return self.method.participant(
            self.round, self.roster, self.identities[i], i, os.urandom, journal
        )

    @cached_property
    def vectors(self) -> np.ndarray:
        """Everybody's input: short ones."""
        return np.random.default_rng(0).integers(-20, 21, (self.people, LENGTH))

    def total(self, positions: Iterable[int] | None = None) -> list[int]:
        counted = range(self.people) if positions is None else positions
        return self.vectors[list(counted)].sum(axis=0).tolist()

    @property
    def sum(self) -> list[int] | None:
        """What the coordinator found."""
        result = self.coordinator.result
        return None if result is None else MODULUS.signed(result.total).tolist()

    def play(
        self,
        change: Callable[[int, bytes], bytes] = lambda _i, said: said,
        until: str = FINISHED.name,
    ) -> Table:
        """`change` is what becomes of an input before it is sent."""
        self.exchange(lambda i: self.machines[i].begin())
        while self.coordinator.state not in (until, "aborted", FINISHED.name):
            self.exchange(lambda i: self.answer(i, change))
        return self

    def exchange(self, say: Callable[[int], bytes | None]) -> None:
        """One phase; what comes together is prepared together."""
        invited = sorted(self.coordinator.invited - self.silent)
        said = [(i, message) for i in invited if (message := say(i)) is not None]
        self.coordinator.prepare(said)
        for i, message in said:
            try:
                self.coordinator.receive(i, message)
            except RemoteProtocolError as error:
                self.refused[i] = str(error)
        self.coordinator.close_phase()

    def answer(self, i: int, change: Callable[[int, bytes], bytes]) -> bytes | None:
        message = self.coordinator.message_for(i)
        said = None if message is None else self.machines[i].receive(message)
        if self.machines[i].ready_for_input:
            residues = MODULUS.residues(self.vectors[i])
            return change(i, self.machines[i].give_input(residues))
        return said

    def checked(self, account: bytes | None = None, sums: list[int] | None = None) -> list[str]:
        """What a reader of the transcript finds to hold."""
        return list(self._read(account, sums).holds)

    def open(self, account: bytes | None = None, sums: list[int] | None = None) -> list[str]:
        """What it cannot see."""
        return list(self._read(account, sums).open)

    def _read(self, account: bytes | None, sums: list[int] | None) -> Checked:
        machine = self.coordinator
        given = machine.account if account is None else account
        shown = self.sum if sums is None else sums
        said = PublishedSum(machine.survivors, shown, given)
        found: Checked = self.method.check_account(self.round, self.roster, said)
        return found
