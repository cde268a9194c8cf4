"""`dhdmm demo`: a whole round here and now, answers beside the truth."""

from __future__ import annotations

import time
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dhdmm.cli import output
from dhdmm.cli.run import exact_answers, summary

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console

    from dhdmm.runner import Outcome

SEED = 1994
DROPOUT = 0.05
SHOWN = ("age and sex", "race and sex")


def demo(
    out: Annotated[Path, typer.Option(help="The folder to write the release to.")] = Path(
        "dhdmm-demo"
    ),
    as_json: output.Json = False,
) -> None:
    """A whole round with 200 participants and made-up people, answers beside the truth."""
    from dhdmm.demo.picture import draw
    from dhdmm.demo.records import offices
    from dhdmm.planning.draft import plan as make_plan
    from dhdmm.runner import enrol, histograms_of, run_round
    from dhdmm.study.spec import Study

    say = _narrator(as_json)
    study = Study.from_text(resources.files("dhdmm.demo").joinpath("study.yaml").read_text())
    plan = make_plan(study)
    say(
        f"{plan.participants} offices hold the records of made-up people. They answer"
        f" {study.workload.queries} queries\ntogether at ε = {plan.promise.epsilon:.3g},"
        f" δ = {plan.promise.delta:g}. Nobody sees anybody else's records,"
        f" and up to\n{plan.graph.corrupt} of them may collude with the coordinator.\n"
    )
    say(
        f"strategy  {plan.strategy.rows} measurements instead of {study.workload.queries}"
        f" queries, {100 * (plan.strategy.ratio - 1):.1f} % above the best possible error"
    )
    started = time.perf_counter()
    histograms = histograms_of(study, offices(plan.participants, SEED))
    records = sum(histogram.records for histogram in histograms)
    say(f"tables    {records:,} records counted in {time.perf_counter() - started:.1f} s")
    outcome = run_round(enrol(plan), histograms, dropout=DROPOUT)
    costs = outcome.costs
    say(
        f"round     {plan.threat_model} model, {outcome.release.survivors} of"
        f" {plan.participants} stayed to the end, {costs.seconds:.1f} s:\n"
        f"          {costs.participant_ms:.0f} ms of computing and"
        f" {_kilobytes(costs.participant_sent_bytes)} sent,"
        f" {_kilobytes(costs.participant_received_bytes)} received a participant\n"
    )
    exact = exact_answers(outcome, histograms)
    outcome.release.save(out, overwrite=True)
    picture = out / "demo.png"
    draw(outcome.release, exact, picture)
    document = summary(outcome, out) | errors(outcome, exact) | {"picture": str(picture)}
    output.emit(document, as_json, lambda screen: _draw(screen, outcome, exact, document))


def errors(outcome: Outcome, exact: NDArray[np.float64]) -> dict[str, float]:
    """Root mean squared errors: realised, expected, and what others would have.

    central: a trusted curator, all data in one place and the same strategy. alone: everybody adds
    the noise that protects it without trusting anyone.
    """
    import numpy as np

    release = outcome.release
    plan = release.plan
    curator = plan.sensitivity_squared / (2 * float(plan.rho))
    per_query = float(np.mean(plan.strategy.variances()))
    return {
        "actual_rmse": float(np.sqrt(np.mean((release.answers - exact) ** 2))),
        "central_rmse": float(np.sqrt(curator * per_query)),
        "alone_rmse": float(np.sqrt(release.survivors * curator * per_query)),
    }


def _narrator(as_json: bool) -> Any:
    return (lambda _text: None) if as_json else print


def _kilobytes(size: float) -> str:
    return f"{size / 1000:.1f} kB"


def _draw(
    screen: Console, outcome: Outcome, exact: NDArray[np.float64], document: dict[str, Any]
) -> None:
    from rich import box
    from rich.table import Table

    from dhdmm.release.wording import decimals, number

    release = outcome.release
    starts = dict(zip(release, _starts(outcome), strict=True))
    for name in SHOWN:
        table = release[name]
        drawn = Table(title=name, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        drawn.add_column("query", no_wrap=True)
        for header in ("truth", "answer", "± s.e.", "95 % from", "to"):
            drawn.add_column(header, justify="right")
        places = decimals(float(table.standard_errors.min()))
        truths = exact[starts[name] : starts[name] + len(table)]
        low, high = table.bounds()
        rows = zip(table.queries(), truths, table.values, table.standard_errors, low, high)
        for (label, _sql), *numbers in rows:
            drawn.add_row(label, *(number(float(value), places) for value in numbers))
        screen.print(drawn)
    errors = Table(box=None, pad_edge=False, show_header=False)
    errors.add_column()
    errors.add_column(justify="right")
    errors.add_row("error a query, measured against the truth", f"{document['actual_rmse']:.1f}")
    errors.add_row("  as the plan foretold", f"{document['expected_rmse']:.1f}")
    errors.add_row("  if a trusted curator held all data", f"{document['central_rmse']:.1f}")
    errors.add_row("  if each protected itself alone", f"{document['alone_rmse']:.1f}")
    screen.print(errors, "")
    screen.print(f"release   {document['release']}   (dhdmm show {document['release']})")
    screen.print(f"picture   {document['picture']}")


def _starts(outcome: Outcome) -> list[int]:
    import numpy as np

    sizes = [item.queries for item in outcome.release.plan.study.workload.items]
    return [0, *np.cumsum(sizes).tolist()[:-1]]
