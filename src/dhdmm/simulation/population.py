"""Everybody in a simulated round; all of it, every secret included, follows from one seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.method import input_phase
from dhdmm.aggregation.randomness import Randomness
from dhdmm.aggregation.roster import Roster
from dhdmm.cohort.drive import Silent, dropouts
from dhdmm.cohort.helper import LocalHelper, own_helper
from dhdmm.cohort.people import Seeded, seeded_randomness
from dhdmm.errors import Refused
from dhdmm.planning.plan import Plan
from dhdmm.simulation.records import dealt_records, uniform_records
from dhdmm.study.histogram import Histogram

Dropout = float | Mapping[str, float]
"""The share that falls silent before its masked input, the costliest moment; or which share does
from which phase on."""


@dataclass(frozen=True)
class Population:
    """`plan` is for this roster."""

    plan: Plan
    people: Seeded
    round_id: bytes
    roster: Roster
    secret: bytes = field(repr=False)
    identity: Identity | None = field(default=None, repr=False)
    """Of the second server, where there is one."""

    def helper(self) -> LocalHelper | None:
        if self.identity is None:
            return None
        randomness = seeded_randomness(self.secret + b"helper key")
        return LocalHelper(self.plan, self.round_id, self.roster, self.identity, randomness)

    def randomness(self) -> Randomness:
        """The coordinator's."""
        return seeded_randomness(self.secret)


def population_for(plan: Plan, records_each: int, data: Histogram | None, seed: int) -> Population:
    """Seeded participants with records drawn from the schema, or dealt out of `data`."""
    bound = plan.study.aggregation.max_records_per_participant
    if records_each > bound:
        raise Refused(
            f"{records_each:,} records a participant, max_records_per_participant is {bound:,}",
            hint="nothing is clipped: simulate fewer records, or raise the study's bound",
        )
    schema, n = plan.study.workload.schema, plan.participants
    if data is None:
        records = uniform_records(schema, n, records_each, seed)
    else:
        records = dealt_records(schema, data, n, records_each, seed)
    secret = secret_of(seed)
    people = Seeded(secret, records)
    names = tuple(name_of(i + 1) for i in people.positions())
    roster = Roster(names, tuple(people.identity(i).public for i in people.positions()))
    helper = own_helper(plan, seeded_randomness(secret + b"helper"))
    final = replace(
        plan, roster_digest=roster.digest, helper=b"" if helper is None else helper.public
    )
    return Population(final, people, secret[:16], roster, secret, helper)


def name_of(number: int) -> str:
    """Of a simulated participant, from 1."""
    return f"participant {number}"


def silent_ones(dropout: Dropout, plan: Plan, seed: int) -> Silent:
    """Who says nothing from which phase on."""
    costliest = input_phase(plan.method).name
    shares = dropout if isinstance(dropout, Mapping) else {costliest: dropout}
    count = plan.participants
    return {
        phase: dropouts(seeded_randomness(secret_of(seed) + phase.encode()), count, share)
        for phase, share in shares.items()
    }


def secret_of(seed: int) -> bytes:
    return sha256(f"dhdmm simulation {seed}".encode()).digest()
