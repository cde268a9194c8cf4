"""`dhdmm review`: what a coordinator asks for, in words, before anybody says yes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dhdmm.cli import coordinator, extras, options, output
from dhdmm.cli.options import grouped

if TYPE_CHECKING:
    from rich.console import Console

    from dhdmm.client.home import Home
    from dhdmm.participant.policy import Review


@grouped
def review(
    at: coordinator.Coordinator,
    who: coordinator.Participant,
    data: Annotated[
        str | None,
        typer.Option(help="Your table: checked here against the study; nothing of it leaves."),
    ] = None,
    reading: options.Tables = options.Tables(),  # noqa: B008 - frozen
    as_json: output.Json = False,
) -> None:
    """Show what a round would measure, what it would cost you, and ask for consent.

    Every number is computed here, from the study and the strategy that the coordinator sent.
    """
    extras.require("join")
    from dhdmm.client.consent import figures
    from dhdmm.participant.policy import review_preview
    from dhdmm.planning.draft import Draft

    home = who.home
    limits = home.policy(who.policy)
    with at.connect(who.known(), token=who.token) as client:
        status = at.round(client, who.round_id)
        draft = client.preview(bytes.fromhex(status.round))
    reviewed = review_preview(draft, limits)
    if data is not None:
        _check_table(reviewed, data, reading)
    document = figures(reviewed, limits, home.existing_ledger(who.ledger), status)
    document["consented"] = home.consented(Draft.of(reviewed.plan))
    if not as_json:
        draw(output.console(), _printable(document))
    if not document["consented"] and document["left_after"] >= 0:
        ask = not (who.yes or as_json)
        document["consented"] = _consent(home, reviewed, ask=ask, given=who.yes)
    output.emit(document, as_json, lambda screen: _draw_consent(screen, document["consented"]))


def _check_table(reviewed: Review, data: str, reading: options.Tables) -> None:
    """Counts the table as `join` would, for its warnings and errors alone."""
    from dhdmm.cli.join import counted_for
    from dhdmm.cli.places import tables_given

    for table in tables_given(data):
        counted_for(reviewed.plan.study, table, reading)


def _consent(home: Home, reviewed: Review, *, ask: bool, given: bool) -> bool:
    from dhdmm.planning.draft import Draft

    if ask:
        print("Take part in rounds of this study, at this cost? [y/N] ", end="", flush=True)
        given = sys.stdin.readline().strip().lower() in ("y", "yes")
    if given:
        home.consent_to(Draft.of(reviewed.plan))
    return given


def _printable(value: Any) -> Any:
    """The coordinator chose these words: none of them may steer the terminal."""
    from dhdmm.release.wording import printable

    if isinstance(value, dict):
        return {printable(str(key)): _printable(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_printable(entry) for entry in value]
    return printable(value) if isinstance(value, str) else value


def draw(screen: Console, document: dict[str, Any]) -> None:
    """The same for a person, in 80 columns."""
    from rich.markup import escape
    from rich.table import Table

    from dhdmm.cli import plan, study

    study.draw(screen, document["description"])
    screen.print("\n[bold]The first query of every table[/bold]")
    for name, sql in document["sql"].items():
        screen.print(f"{escape(name)}: {escape(sql)}")
    screen.print()
    plan.draw_items(screen, document)
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for title, words in _words(document):
        table.add_row(title, escape(words))
    screen.print(table, "")
    for warning in document["warnings"]:
        screen.print(f"[bold]Warning:[/bold] {escape(warning)}")


def _words(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    least, most = document["participants"].values()
    people = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    yield "promise", document["privacy"]
    yield (
        "cost",
        f"ρ = {document['rho']:.6g} of your budget; ε = {document['epsilon']:.4g} at"
        f" δ = {document['delta']:g}, your policy allows {document['largest_epsilon']:g}",
    )
    yield (
        "sums",
        f"{document['rows']:,} sums are measured; one unit changes them by at most"
        f" {document['sensitivity']:.6g} in all, you add noise of"
        f" σ = {document['sigma_participant']:.4g} to each",
    )
    yield (
        "company",
        f"{people} participants, {document['threat_model']} model; your privacy leans on"
        f" {document['honest_floor']:,} honest ones",
    )
    yield "seen by", document["seen_by"]
    yield (
        "budget",
        f"{document['left']:.6g} of {document['budget']:.6g} is left"
        f" ({document['spent']:.6g} spent, {document['reserved']:.6g} reserved);"
        f" afterwards {document['left_after']:.6g}",
    )
    yield "draft", document["draft_digest"]


def _draw_consent(screen: Console, consented: bool) -> None:
    said = "You have consented: dhdmm join will take part." if consented else "No consent given."
    screen.print(said)
