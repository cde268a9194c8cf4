"""`dhdmm demo`: a whole round here and now, answers beside the truth."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as RichTable

from dhdmm.cli import output
from dhdmm.cli.places import require_free
from dhdmm.cli.run import PHASES, by_phase, exact_answers, summary
from dhdmm.demo.picture import draw
from dhdmm.demo.records import offices
from dhdmm.planning.draft import plan as make_plan
from dhdmm.planning.plan import Plan
from dhdmm.release.directory import MANIFEST
from dhdmm.release.release import Release
from dhdmm.release.tables import Table
from dhdmm.release.wording import decimals, number
from dhdmm.runner import Costs, Outcome, count_tables, enrol, run_round
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study

SEED = 1994
DROPOUT = 0.05
SHOWN = ("age and sex", "race and sex")
ERRORS = {
    "actual_rmse": "this round",
    "expected_rmse": "as the plan foretold",
    "central_rmse": "a trusted curator",
    "alone_rmse": "each protected alone",
}
"""What the errors are called in the table and in the picture."""


def demo(
    out: Annotated[Path, "The folder to write the release to."] = Path("dhdmm-demo"),
    as_json: output.Json = False,
) -> None:
    """A whole round with 200 participants and made-up people, answers beside the truth."""

    if not (out / MANIFEST).is_file():  # an earlier demo makes room
        require_free(out)
    say: Callable[[str], None] = (lambda _text: None) if as_json else print
    text = resources.files("dhdmm.demo").joinpath("study.yaml").read_text(encoding="utf-8")
    plan = make_plan(Study.from_text(text))
    say(_introduction(plan))
    histograms = _counted(plan, say)
    with output.progress("round", PHASES) as advance:
        outcome = run_round(enrol(plan), histograms, dropout=DROPOUT, progress=by_phase(advance))
    say(_in_words(outcome))
    exact = exact_answers(outcome, histograms)
    outcome.release.save(out, overwrite=True)
    document = summary(outcome, out) | errors(outcome, exact) | {"picture": str(out / "demo.svg")}
    truths = _by_table(outcome.release, exact)
    named = {words: document[key] for key, words in ERRORS.items()}
    draw(outcome.release, truths, named, _costs(outcome.costs), out / "demo.svg")
    output.emit(document, as_json, lambda screen: _draw(screen, outcome, truths, document))


def errors(outcome: Outcome, exact: NDArray[np.float64]) -> dict[str, float]:
    """Root mean squared errors: realised, and what others would have.

    central: a trusted curator, all data in one place and the same strategy. alone: everybody adds
    the noise that protects it without trusting anyone.
    """

    release = outcome.release
    plan = release.plan
    curator = plan.sensitivity_squared / (2 * float(plan.rho))
    per_query = float(np.mean(plan.strategy.variances()))
    return {
        "actual_rmse": float(np.sqrt(np.mean((release.answers - exact) ** 2))),
        "central_rmse": float(np.sqrt(curator * per_query)),
        "alone_rmse": float(np.sqrt(release.survivors * curator * per_query)),
    }


def _counted(plan: Plan, say: Callable[[str], None]) -> list[Histogram]:

    started = time.perf_counter()
    with output.progress("tabulating", plan.participants) as advance:
        counted = count_tables(plan.study, offices(plan.participants, SEED), advance)
    histograms = [one.histogram for one in counted]
    records = sum(histogram.records for histogram in histograms)
    taken = time.perf_counter() - started
    say(f"tables    {records:,} records of {plan.participants} offices counted in {taken:.1f} s")
    return histograms


def _introduction(plan: Plan) -> str:
    queries, promise = plan.study.workload.queries, plan.promise
    ratio = plan.strategy.ratio
    assert ratio is not None, "a strategy optimised here knows how good it is"
    return (
        f"{plan.participants} offices hold the records of made-up people. Together they answer"
        f" {queries} queries\nat ε = {promise.epsilon:.3g}, δ = {promise.delta:g}. Nobody sees"
        f" anybody else's records, even if {plan.parameters.corrupt} of them\ncollude with the"
        " coordinator.\n\n"
        f"strategy  {plan.strategy.rows} sums instead of {queries} queries"
        f", {100 * (ratio - 1):.1f} % above the least possible error"
    )


def _in_words(outcome: Outcome) -> str:
    plan = outcome.release.plan
    return (
        f"round     {plan.threat_model} model, {outcome.release.survivors} of"
        f" {plan.participants} offices stayed to the end;\n          {_costs(outcome.costs)}\n"
    )


def _costs(costs: Costs) -> str:
    return (
        f"{costs.seconds:.1f} s; each computed {costs.participant_ms:.0f} ms, sent"
        f" {_kilobytes(costs.participant_sent_bytes)}, received"
        f" {_kilobytes(costs.participant_received_bytes)}"
    )


def _kilobytes(size: float) -> str:
    return f"{size / 1000:.1f} kB"


def _by_table(release: Release, exact: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:

    sizes = [item.queries for item in release.plan.study.workload.items]
    return dict(zip(release, np.split(exact, np.cumsum(sizes)[:-1]), strict=True))


def _draw(
    screen: Console,
    outcome: Outcome,
    truths: dict[str, NDArray[np.float64]],
    document: dict[str, Any],
) -> None:

    for name in SHOWN:
        screen.print(_beside_the_truth(outcome.release[name], truths[name]), "")
    compared = output.table("", numbers=[""], header=False)
    compared.add_row("error of an answer (root mean square)", "")
    for key, words in ERRORS.items():
        compared.add_row(f"  {words}", f"{document[key]:.1f}")
    screen.print(compared, "")
    screen.print(f"release   {document['release']}   (dhdmm show {document['release']})")
    screen.print(f"picture   {document['picture']}")


def _beside_the_truth(table: Table, truth: NDArray[np.float64]) -> RichTable:

    labels = table.varying()
    headers = ("truth", "answer", "± s.e.", "from", "to")
    drawn = output.table(*labels, numbers=headers, ruled=True)
    drawn.title, drawn.title_justify = f"{table.name}: 95 % intervals", "left"
    drawn.title_style = "bold"
    places = decimals(float(table.standard_errors.min()))
    low, high = table.bounds()
    columns = (table.values, table.standard_errors, low, high)
    numbers = [[number(float(value), places) for value in column] for column in columns]
    exact = [number(float(value), 0) for value in truth]
    for row in zip(*labels.values(), exact, *numbers, strict=True):
        drawn.add_row(*row)
    return drawn
