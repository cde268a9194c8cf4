"""A whole round on this machine: all parties, real sessions, real cryptography, no network."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Unpack

import numpy as np

from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.randomness import uniform_permutation
from dhdmm.aggregation.roster import Roster
from dhdmm.cohort.drive import drive, dropouts
from dhdmm.cohort.helper import LocalHelper, own_helper
from dhdmm.cohort.members import Answer, Invitation, permissive, pinned
from dhdmm.cohort.people import Enrolled, LocalSeat
from dhdmm.cohort.workers import cohorts_here
from dhdmm.errors import DataError, Refused
from dhdmm.participant.data_sets import accounted, ledgers_for
from dhdmm.participant.policy import Policy
from dhdmm.participant.report import ACCEPTED_LOSS, Report, RowsLeftOut, require_accepted
from dhdmm.participant.tabulate import TableOptions, Tabulation, count_for
from dhdmm.planning.plan import Plan
from dhdmm.release import made
from dhdmm.release.release import Release
from dhdmm.session.coordinator import CoordinatorSession
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study

Progress = Callable[[str], None]
"""Called with the name of each phase that begins."""


@dataclass(frozen=True)
class Costs:
    """What the round took. Bytes and milliseconds are means over the participants."""

    participant_ms: float
    coordinator_s: float
    participant_sent_bytes: float
    participant_received_bytes: float
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """A release, what it cost, and who survived (roster positions)."""

    release: Release
    costs: Costs
    survivors: tuple[int, ...]


def run(
    plan: Plan,
    tables: Sequence[Any],
    *,
    accept_loss: float = ACCEPTED_LOSS,
    ledger: str | os.PathLike[str] | None = None,
    **options: Unpack[TableOptions],
) -> Release:
    """Run a whole round on this machine, with real cryptography.

    Args:
        plan: The plan, made with `dhdmm.plan`.
        tables: One table per participant: a path (CSV, TSV, Parquet), a pandas or polars frame, an
            Arrow table, a DuckDB relation or an ibis table.
        accept_loss: The largest share of all rows that may be left out. When any is, a warning
            (`RowsLeftOut`) says how many and why.
        ledger: What pays for the round: a data set's name, or a ledger file. Tables that
            `dhdmm data add` has named pay by themselves; a round over others, without a ledger, is
            accounted for nowhere.
        **options: How the tables are read: `columns`, `on_unknown` and `other`, as in
            `dhdmm.tabulate`.

    Returns:
        The release.

    Raises:
        DataError: A table does not fit the study, or there are not as many as participants.
        Refused: More rows would be left out than accepted, or a table has more records than the
            study allows, or a budget does not suffice.
        RoundAborted: The round ended without a result.

    Example:
        >>> import pyarrow
        >>> from dhdmm import Study, plan
        >>> study = Study.from_text('''
        ... study: answers
        ... schema: {answer: {type: category, values: ["yes", "no"]}}
        ... workload: [{name: answers, by: [answer]}]
        ... privacy: {unit: record, rho: 0.125, corrupt_fraction: 0.2}
        ... aggregation: {participants: 3, max_records_per_participant: 100}
        ... ''')
        >>> tables = [pyarrow.table({"answer": ["yes", "no", "yes"]})] * 3
        >>> run(plan(study), tables)["answers"]
        <Table name='answers' rows=2 level=0.95>
    """
    counted = count_tables(plan.study, tables, accept_loss=accept_loss, **options)
    warn_of_loss([one.report for one in counted])
    enrolment, histograms = enrol(plan), [one.histogram for one in counted]
    ledgers = ledgers_for(tables, ledger)
    with accounted(ledgers, enrolment.plan, enrolment.round_id) as debit:
        return run_round(enrolment, histograms, before_inputs=debit).release


def warn_of_loss(reports: Sequence[Report]) -> None:
    """Tell a program's user what is not in the answers."""
    together = Report.total(reports)
    if together.left_out:
        warnings.warn("; ".join(together.words()), RowsLeftOut, stacklevel=3)


def count_tables(
    study: Study,
    tables: Iterable[Any],
    advance: Callable[[int], None] = lambda _done: None,
    *,
    accept_loss: float = ACCEPTED_LOSS,
    **options: Unpack[TableOptions],
) -> list[Tabulation]:
    """Each participant's table, counted within the study's bounds.

    One table is counted with all cores; several are counted in parallel, each with one core.
    `advance` is called with the number of tables that are done. A loss is accepted of all rows
    together: these are what the answers are about.
    """

    def count(table: Any, threads: int | None = None) -> Tabulation:
        return count_for(study, table, accept_loss=1.0, threads=threads, **options)

    waiting = list(tables)
    counted: list[Tabulation] = []
    if len(waiting) == 1:  # in this thread, where Ctrl-C reaches DuckDB
        counted = [count(waiting[0])]
    else:
        pool = ThreadPoolExecutor(os.cpu_count())  # DuckDB works outside the interpreter's lock
        try:
            for one in pool.map(partial(count, threads=1), waiting):
                counted.append(one)
                advance(len(counted))
        finally:
            pool.shutdown(cancel_futures=True)
    require_accepted(Report.total([one.report for one in counted]), accept_loss)
    return counted


def require_within_bound(study: Study, histograms: Iterable[Histogram]) -> None:
    """Refuse a participant with more records than the modulus and the sensitivity allow for."""
    bound = study.aggregation.max_records_per_participant
    most = max((histogram.records for histogram in histograms), default=0)
    if most > bound:
        raise Refused(
            f"a participant has {most:,} records, max_records_per_participant is {bound:,}",
            hint="nothing is clipped: have more participants, or agree on a larger bound",
        )


def split(histogram: Histogram, parts: int) -> list[Histogram]:
    """One table's records divided at random among `parts` participants, for experiments."""
    records = np.repeat(histogram.codes, histogram.counts, axis=0)
    dealt = records[uniform_permutation(os.urandom, len(records))]
    return [Histogram.of_records(dealt[part::parts]) for part in range(parts)]


@dataclass(frozen=True)
class Enrolment:
    """Who takes part in one round: `plan` is final, `identities` hold the participants' keys."""

    plan: Plan
    round_id: bytes
    roster: Roster
    identities: tuple[Identity, ...] = field(repr=False)
    helper: Identity | None = field(default=None, repr=False)
    """Of the second server, where there is one."""


def enrol(plan: Plan) -> Enrolment:
    """Fresh identities for all participants, and the plan for their roster."""
    identities = tuple(Identity.generate(os.urandom) for _ in range(plan.participants))
    names = tuple(f"participant {i + 1}" for i in range(plan.participants))
    roster = Roster(names, tuple(identity.public for identity in identities))
    helper = own_helper(plan, os.urandom)
    final = replace(
        plan, roster_digest=roster.digest, helper=b"" if helper is None else helper.public
    )
    return Enrolment(final, os.urandom(16), roster, identities, helper)


def run_round(
    enrolment: Enrolment,
    histograms: Sequence[Histogram],
    *,
    dropout: float = 0.0,
    workers: int | None = None,
    policy: Policy | None = None,
    before_inputs: Callable[[], None] = lambda: None,
    progress: Progress = lambda _phase: None,
    full_transcript: bool = False,
) -> Outcome:
    """One round with one histogram per participant.

    A `dropout` share of the participants, chosen at random, stops answering after it has shared its
    secrets and before its masked input, when that costs the others most. `before_inputs` is called
    just before inputs are requested: the moment to debit a ledger. A `full_transcript` keeps every
    message, so that the sum can be recomputed from it.
    """
    started = time.perf_counter()
    plan, roster = enrolment.plan, enrolment.roster
    if len(histograms) != plan.participants:
        raise DataError(f"{len(histograms)} tables for {plan.participants} participants")
    require_within_bound(plan.study, histograms)
    invitation = Invitation(
        plan.to_bytes(),
        enrolment.round_id,
        roster,
        pinned(policy or permissive(plan), roster, plan.helper),
    )
    coordinator = CoordinatorSession(
        plan,
        enrolment.round_id,
        roster,
        os.urandom,
        archive={} if full_transcript else None,
        clock=made.now,
        helper=_helper(enrolment),
    )
    silent = dropouts(os.urandom, len(roster), dropout)
    pairs = enumerate(zip(enrolment.identities, histograms, strict=True))
    people = Enrolled([LocalSeat(i, identity, histogram) for i, (identity, histogram) in pairs])
    traffic = Traffic()
    with cohorts_here(invitation, people, workers) as cohorts:
        silence = {coordinator.input_phase: silent}
        drive(coordinator, cohorts, silence, traffic, before_inputs, progress)
    release = coordinator.release()
    costs = Costs(
        participant_ms=1000 * traffic.participant_seconds / len(roster),
        coordinator_s=traffic.coordinator_seconds,
        participant_sent_bytes=traffic.sent / len(roster),
        participant_received_bytes=traffic.received / len(roster),
        seconds=time.perf_counter() - started,
    )
    return Outcome(release, costs, coordinator.survivors)


def _helper(enrolment: Enrolment) -> LocalHelper | None:
    if enrolment.helper is None:
        return None
    return LocalHelper(
        enrolment.plan, enrolment.round_id, enrolment.roster, enrolment.helper, os.urandom
    )


@dataclass
class Traffic:
    """Totals, counted as the bytes go by; bytes as the participants see them."""

    sent: int = 0
    received: int = 0
    participant_seconds: float = 0.0
    coordinator_seconds: float = 0.0

    def opened(self, phase: str, position: int, message: bytes, seconds: float) -> None:
        self.received += len(message)
        self.coordinator_seconds += seconds

    def answered(self, phase: str, position: int, answer: Answer, seconds: float) -> None:
        self.sent += len(answer.message)
        self.participant_seconds += answer.seconds
        self.coordinator_seconds += seconds

    def closed(self, phase: str, seconds: float) -> None:
        self.coordinator_seconds += seconds
