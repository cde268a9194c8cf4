"""`dhdmm run`: a whole round on this machine, from tables to a release."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from dhdmm.cli import answers, options, output
from dhdmm.cli.places import is_new_file, opened, require_free, tables_given
from dhdmm.errors import DataError
from dhdmm.participant.address import TableAddress
from dhdmm.participant.data_sets import UNNAMED, accounted, ledgers_for, now
from dhdmm.participant.report import Report
from dhdmm.participant.tabulate import count_for
from dhdmm.planning.draft import plan as make_plan
from dhdmm.planning.plan import ExpectedError
from dhdmm.privacy.budgets import Budget
from dhdmm.privacy.ledger import Ledger
from dhdmm.runner import (
    Outcome,
    Progress,
    count_tables,
    enrol,
    require_within_bound,
    run_round,
    split,
)
from dhdmm.study.division import divided
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study

PHASES = 6
"""Of a round in the malicious model; the other one skips two."""


def run(
    study: options.StudyFile,
    data: Annotated[
        list[str],
        "A table per participant: a file, a folder of them, or a table in a warehouse, as in"
        " postgresql://me@host/db?table=name ; repeat it. Or one table to deal out.",
    ],
    participants: Annotated[
        int | None, typer.Option(min=3, help="Deal one table out among so many participants.")
    ] = None,
    out: options.ReleaseOut = None,
    dropout: options.Dropout = 0.0,
    threat_model: options.ThreatModel = None,
    reading: options.Tables = options.Tables(),  # noqa: B008 - frozen
    ledger: Annotated[
        str | None,
        "What is debited: a data set's name or a ledger file. Tables that dhdmm data add has"
        " named are debited anyway.",
    ] = None,
    budget: Annotated[str, "The budget of a ledger file that does not exist yet."] = "rho=1",
    truth: Annotated[bool, "Compare with the exact answers (not private!)."] = False,
    full_transcript: Annotated[
        bool, "Keep every message, so that the sum can be recomputed."
    ] = False,
    workers: options.Workers = None,
    as_json: output.Json = False,
) -> None:
    """Run a whole round here, all parties in one place, with real cryptography."""

    asked = study_of(study, threat_model)
    directory = out or Path(f"release-{study.stem}")
    require_free(directory)
    total = Budget.parse(budget)
    histograms, report = _counted(asked, data, participants, reading)
    with output.progress("planning", 1):
        enrolment = enrol(make_plan(asked, participants=len(histograms)))
    if report.left_out:
        print_report(report)
    ledgers = _ledgers(data, ledger, total)
    if not (ledgers or as_json):
        print(UNNAMED, file=sys.stderr)
    with (
        accounted(ledgers, enrolment.plan, enrolment.round_id) as debit,
        output.progress("round", PHASES) as advance,
    ):
        outcome = run_round(
            enrolment,
            histograms,
            dropout=dropout,
            workers=workers,
            full_transcript=full_transcript,
            before_inputs=debit,
            progress=by_phase(advance),
        )
        outcome.release.save(directory)
    document = summary(outcome, directory)
    document |= {"table_rows": report.figures(), "ledgers": [str(one.path) for one in ledgers]}
    if truth:
        document["actual_rmse"] = actual_rmse(outcome, histograms)
    output.emit(document, as_json, lambda screen: _draw(screen, outcome, document, report))


def by_phase(advance: output.Advance) -> Progress:
    """A bar that moves as the phases of a round begin."""
    begun = count(1)
    return lambda _phase: advance(next(begun))


def summary(outcome: Outcome, directory: Path) -> dict[str, Any]:
    """What `--json` prints."""
    release, costs = outcome.release, outcome.costs
    plan = release.plan
    return {
        "study": plan.study.name,
        "participants": plan.participants,
        "survivors": release.survivors,
        "threat_model": plan.threat_model.value,
        "rows": plan.strategy.rows,
        "rho": float(plan.rho),
        "epsilon": plan.promise.epsilon,
        "delta": plan.promise.delta,
        "expected_rmse": plan.expected_error(release.survivors, release.unremoved).rmse,
        "participant_ms": costs.participant_ms,
        "coordinator_s": costs.coordinator_s,
        "participant_sent_bytes": costs.participant_sent_bytes,
        "participant_received_bytes": costs.participant_received_bytes,
        "seconds": costs.seconds,
        "release": str(directory),
        "transcript_key": release.transcript.key.hex() if release.transcript else None,
    }


def actual_rmse(outcome: Outcome, histograms: list[Histogram]) -> float:
    """√(mean squared error) against the exact answers over the survivors' records."""

    error = outcome.release.answers - exact_answers(outcome, histograms)
    return ExpectedError(outcome.release.plan.study, error).rmse


def exact_answers(outcome: Outcome, histograms: list[Histogram]) -> NDArray[np.float64]:
    """W x over the survivors: the strategy reconstructs its own noiseless measurement exactly."""

    plan = outcome.release.plan
    together = Histogram.total(histograms[i] for i in outcome.survivors)
    measured = plan.strategy.measure(divided(plan.study.schema, together))
    return plan.strategy.reconstruct(measured)


def study_of(path: Path, threat_model: str | None) -> Study:

    study = Study.load(path)
    return study if threat_model is None else study.with_aggregation(threat_model=threat_model)


def print_report(report: Report) -> None:
    """On standard error: which rows are counted and which are not."""
    for line in report.words():
        print(line, file=sys.stderr)


def _counted(
    study: Study, data: list[str], participants: int | None, reading: options.Tables
) -> tuple[list[Histogram], Report]:
    tables = [table for given in data for table in tables_given(given)]
    if participants is not None:
        return _split_table(study, tables, participants, reading)
    if len(tables) == 1:
        raise DataError(
            "one table is one participant",
            where=str(tables[0]),
            hint="--participants deals it out among so many",
        )
    accepted, how = reading.accepted, reading.reading(study)
    with output.progress("tabulating", len(tables)) as advance:
        counted = count_tables(study, map(opened, tables), advance, accept_loss=accepted, **how)
    return [one.histogram for one in counted], Report.total([one.report for one in counted])


def _split_table(
    study: Study, tables: list[Path | TableAddress], participants: int, reading: options.Tables
) -> tuple[list[Histogram], Report]:

    if len(tables) != 1:
        raise DataError(
            f"--participants deals out one table, not {len(tables)}",
            hint="leave it out: every file is a participant",
        )
    if study.privacy.person is not None:
        raise DataError(
            "a table cannot be dealt out by rows when the unit is a person",
            hint="give one table per participant",
        )
    table, how = opened(tables[0]), reading.reading(study)
    with output.progress("tabulating", 1):
        counted = count_for(study, table, accept_loss=reading.accepted, bounded=False, **how)
        histograms = split(counted.histogram, participants)
    require_within_bound(study, histograms)
    return histograms, counted.report


def _ledgers(data: list[str], given: str | None, budget: Budget) -> list[Ledger]:
    """What the round debits: the data sets' budgets, or a ledger file, which may be a new one."""
    tables = [table for one in data for table in (one, *tables_given(one))]
    if given is not None and is_new_file(given) and not ledgers_for(tables, None):
        return [Ledger.create(Path(given), budget.rho, now)]
    return ledgers_for(tables, given)


def _draw(screen: Console, outcome: Outcome, document: dict[str, Any], report: Report) -> None:

    release = outcome.release
    answers.draw_release(screen, release, [table.head(options.ROWS) for table in release.values()])
    screen.print("tables: " + "; ".join(report.words()))
    expected = f"expected error a query {document['expected_rmse']:.4g}"
    actual = f", measured {document['actual_rmse']:.4g}" if "actual_rmse" in document else ""
    screen.print(expected + actual)
    screen.print(
        f"{document['seconds']:.1f} s; a participant computed {document['participant_ms']:.1f} ms,"
        f" sent {document['participant_sent_bytes'] / 1000:.1f} kB and received"
        f" {document['participant_received_bytes'] / 1000:.1f} kB"
    )
    screen.print(f"release written to {document['release']}")
