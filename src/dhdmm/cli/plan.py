"""`dhdmm plan`: what a study's answers will be worth and what they will cost, before any data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from dhdmm.cli import options, output
from dhdmm.cli.figures import SECONDS, STEPS, figures
from dhdmm.errors import StudyError
from dhdmm.planning.targets import Targets
from dhdmm.privacy.budgets import DEFAULT_DELTA
from dhdmm.release.wording import byte_size, figure, large
from dhdmm.study.spec import Study

MOST_NAMED = 20
"""Tables in a sentence."""


def plan(
    study: options.StudyFile,
    participants: Annotated[
        int | None,
        typer.Option(min=2, help="How many take part; by default the most the study allows."),
    ] = None,
    compare: Annotated[bool, "Set the strategy beside others for these queries."] = False,
    epsilon: Annotated[float | None, "Another ε than the study's."] = None,
    delta: Annotated[float | None, "Another δ than the study's."] = None,
    rho: Annotated[float | None, "ρ instead of ε and δ."] = None,
    objective: Annotated[
        str | None,
        "What is minimised: the total of squared errors (total), the same with every"
        " table counted alike (per-table), or the largest error of any answer (max).",
    ] = None,
    target: Annotated[
        list[str],
        'The largest standard error that answers of a table may have: "wards: 5"; repeat it.',
    ] = [],  # noqa: B006 - typer copies it
    target_rmse: Annotated[
        float | None, typer.Option(min=1e-9, help="The error that all queries may have.")
    ] = None,
    total: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="A public guess of how many records there are: shows errors relative to that.",
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0, help="About how long to search for a strategy.")
    ] = SECONDS,
    as_json: output.Json = False,
) -> None:
    """Show the expected error of every table, the privacy, and what a participant sends.

    Touches no data. A study without privacy and aggregation sections shows its strategy alone.
    With targets, shows the smallest ε that meets them all, with the best strategy for that.
    """
    asked = _with_privacy(Study.load(study), epsilon, delta, rho)
    if objective is not None:
        if target:
            raise StudyError("give --objective or --target, not both")
        asked = asked.with_objective(objective)
    targets = Targets.parse(target, target_rmse) if target or target_rmse else None
    with output.progress("planning", STEPS) as advance:
        document = figures(asked, participants, compare, advance, targets, total, seconds)
    output.emit(document, as_json, lambda screen: draw(screen, document))


def _with_privacy(
    study: Study, epsilon: float | None, delta: float | None, rho: float | None
) -> Study:
    """The study at what the command line says instead."""
    if rho is not None:
        if epsilon is not None:
            raise StudyError("give --epsilon or --rho, not both")
        return study.with_privacy(rho=rho, epsilon=None, delta=delta)
    if epsilon is not None:
        stated = delta or study.privacy.delta or DEFAULT_DELTA
        return study.with_privacy(epsilon=epsilon, delta=stated, rho=None)
    return study if delta is None else study.with_privacy(delta=delta)


def draw(screen: Console, document: dict[str, Any]) -> None:
    """The same for a person, in 80 columns."""

    queries = output.count_of(document["queries"], "query", "queries")
    sums = output.count_of(document["rows"], "measured sum")
    screen.print(
        f"[bold]{escape(document['study'])}[/bold]: {queries} over"
        f" {large(document['cells'])} cells, answered from {sums}."
    )
    weighted = " (by the workload's weights)" if document["weighted"] else ""
    screen.print(
        f"The {document['objective_words']}{weighted} is at most"
        f" {100 * (document['ratio'] - 1):.2f} % above the smallest that any choice of sums can"
        " have.\n"
    )
    draw_items(screen, document)
    if _untargeted(document):
        screen.print(f"{escape(_untargeted(document))}\n")
    if "privacy_needed" in document:
        needed = document["privacy_needed"]
        screen.print(
            f"The targets take ε = {needed['epsilon']:.4g} at δ = {needed['delta']:g}:"
            f" {_advice(document)}.\n"
        )
    if "rho" in document:
        _draw_plan(screen, document)
    else:
        screen.print(
            "The study has no privacy and aggregation sections. These errors are for"
            " sensitivity 1 and noise 1: a budget of ρ multiplies them by 1/√(2ρ) or more.\n"
        )
    if "compare" in document:
        _draw_comparison(screen, document)


def draw_items(screen: Console, document: dict[str, Any]) -> None:

    relative = ["of mean"] if "total" in document else []
    wanted = ["target"] if any("target" in item for item in document["items"]) else []
    numbers = ("queries", "median", "largest", *wanted, *relative)
    table = output.table("table", numbers=numbers)
    for item in document["items"]:
        errors = item["standard_error_median"], item["standard_error_max"]
        share = item.get("relative_median")
        shares = [f"{100 * share:.2g} %" if share is not None else "–" for _ in relative]
        targets = [figure(item.get("target")) for _ in wanted]
        named = item["name"] + (" (sums)" if item["errors_of"] == "sums" else "")
        table.add_row(
            escape(named), f"{item['queries']:,}", *map(figure, errors), *targets, *shares
        )
    screen.print("[bold]Expected standard error of an answer[/bold]", table, "")
    if relative:
        screen.print(
            f"Of mean: the median error beside the mean answer, if {document['total']:,.0f} records"
            " fall on all cells alike.\n"
        )


def _untargeted(document: dict[str, Any]) -> str:
    """The tables that a study with targets has forgotten; empty if there are none."""
    items = document["items"]
    others = [item for item in items if "target" not in item]
    if len(others) == len(items) or not others:
        return ""
    listed = [
        f"{item['name']} (up to {figure(item['standard_error_max'])})"
        for item in others[:MOST_NAMED]
    ]
    more = [f"{len(others) - MOST_NAMED} more"] if len(others) > MOST_NAMED else []
    return (
        "Tables without a target get next to nothing of the budget, as their standard errors show:"
        f" {', '.join([*listed, *more])}. Give each that will be used a target, if a generous one."
    )


def _typical(document: dict[str, Any]) -> str:
    """What the root mean square error is of."""
    kinds = {item["errors_of"] for item in document["items"]}
    return "queries" if len(kinds) == 1 else "counts"


def _draw_plan(screen: Console, document: dict[str, Any]) -> None:

    screen.print(output.by_topic(_plan_words(document)), "")


def _plan_words(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "privacy", document["privacy"]
    yield (
        "budget",
        f"ρ = {document['rho']:.6g} of each data holder's budget",
    )
    yield (
        "round",
        f"{document['participants']:,} participants, {document['threat_model']};"
        f" {document['minimum_survivors']:,} must finish, noise of {document['honest_floor']:,}"
        " suffices for the promise",
    )
    yield (
        "error",
        f"{_largest(document)}root mean square {figure(document['expected_rmse'])} over all"
        f" {_typical(document)} if everybody finishes; each adds"
        f" σ = {figure(document['sigma_participant'])} to every sum",
    )
    proofs = "" if document["validation"] == "none" else " and what proves them"
    yield (
        "message",
        f"{byte_size(document['participant_bytes'])} of masked sums{proofs} from each participant,"
        f" {document['modulus_bits']} bits a sum",
    )
    if document["excess_noise"] == "remove":
        yield "excess", document["excess"]
    yield "liars", document["liars"]
    if "degree" in document:  # two servers need no graph of participants
        yield (
            "graph",
            f"keys shared with {document['degree']:,} others,"
            f" {document['threshold']:,} of them recover one that is lost",
        )
    yield (
        "plan",
        f"{byte_size(document['plan_bytes'])}, found in {document['optimise_seconds']:.1f} s,"
        f" checked in {document['plan_check_ms']:.0f} ms; draft {document['draft_digest'][:16]}",
    )


def _largest(document: dict[str, Any]) -> str:
    """The largest error, where that is what was minimised."""
    is_judged = document["objective"] == "max"
    return f"largest {figure(document['expected_max'])}, " if is_judged else ""


def _advice(document: dict[str, Any]) -> str:
    """What to do about the budget that targets take."""
    needed, shown = document["privacy_needed"]["epsilon"], document["epsilon"]
    if needed < 0.999 * shown:
        return "the study spends more"
    missed = "" if needed <= 1.001 * shown else "the study spends less; "
    has_tables = any("target" in item for item in document["items"])
    targets = ", and each target beside its table" if has_tables else ""
    return f"{missed}write that into the study's privacy section{targets}"


def _draw_comparison(screen: Console, document: dict[str, Any]) -> None:

    table = output.table("strategy", numbers=("rows", "error", "times best", "message"))
    for one in document["compare"]:
        table.add_row(
            escape(one["name"]),
            large(one["rows"]),
            figure(one["rmse_unit"]),
            figure(one["ratio"]),
            byte_size(one["participant_bytes"]),
        )
    screen.print("[bold]Other strategies for the same queries[/bold]", table)
    for one in document["compare"]:
        if one["note"]:
            screen.print(f"{escape(one['name'])}: not computed, {escape(one['note'])}")
    screen.print(
        "Error: root mean square per query, all by L2 sensitivity 1 and Gaussian noise 1, which is"
        " what this mechanism uses; HDMM-style is optimised for L1. All at the same bits a sum."
    )
