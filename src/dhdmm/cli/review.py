"""`dhdmm review`: what a coordinator asks for, in words, before anybody says yes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dhdmm.cli import coordinator, extras, options, output
from dhdmm.errors import ExitCode

if TYPE_CHECKING:
    from rich.console import Console

    from dhdmm.client.home import Home
    from dhdmm.participant.policy import Review


def review(
    at: coordinator.Coordinator,
    who: coordinator.Participant,
    data: Annotated[
        str | None, "Your table: checked here against the study; nothing of it leaves."
    ] = None,
    reading: options.Tables = options.Tables(),  # noqa: B008 - frozen
    as_json: output.Json = False,
) -> None:
    """Show what a round would measure, what it would cost you, and ask for consent.

    Every number is computed here, from the study and the strategy that the coordinator sent.
    """
    extras.require("join")
    from dhdmm.client.consent import figures, parties_of
    from dhdmm.participant.policy import review_preview
    from dhdmm.planning.draft import Draft

    home = who.home
    limits = home.policy(who.policy)
    with at.connect(who.known(), token=who.token) as client:
        status = at.round(client, who.round_id)
        draft = client.preview(bytes.fromhex(status.round))
        parties = parties_of(client, status)
    reviewed = review_preview(draft, limits, home.checked)
    if data is not None:
        _check_table(reviewed, data, reading)
    document = figures(reviewed, limits, who.existing_ledger(data), status, parties)
    document["consented"] = home.consented(Draft.of(reviewed.plan))
    if not as_json:
        draw(output.console(), _printable(document))
    if not document["consented"] and document["left_after"] >= 0:
        ask = not (who.yes or as_json)
        document["consented"] = _consent(home, reviewed, ask=ask, given=who.yes)
    output.emit(document, as_json, lambda screen: _draw_consent(screen, document["consented"]))
    if not document["consented"] and (who.yes or not as_json):
        raise typer.Exit(ExitCode.REFUSED)


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

    from dhdmm.cli import plan, study
    from dhdmm.client.consent import words

    study.draw(screen, document["description"])
    screen.print("\n[bold]The first query of every table[/bold]")
    for name, sql in document["sql"].items():
        screen.print(f"{escape(name)}: {escape(sql)}")
    screen.print()
    plan.draw_items(screen, document)
    said = [*words(document), ("draft", document["draft_digest"])]
    screen.print(output.by_topic(said), "")
    for warning in document["warnings"]:
        screen.print(f"[bold]Warning:[/bold] {escape(warning)}")


def _draw_consent(screen: Console, consented: bool) -> None:
    said = "You have consented: dhdmm join will take part." if consented else "No consent given."
    screen.print(said)
