"""`dhdmm status`: what a coordinator's rounds are doing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dhdmm.cli import coordinator, extras, output

if TYPE_CHECKING:
    from rich.console import Console


def status(
    at: coordinator.Coordinator,
    who: coordinator.Person,
    operator: coordinator.Operator,
    running: Annotated[bool, "Leave out the rounds that are over."] = False,
    last: Annotated[int, typer.Option(min=1, help="How many at most, the newest first.")] = 50,
    as_json: output.Json = False,
) -> None:
    """Show your newest rounds of a coordinator: their phase, and how many take part.

    They are those in which your identity has a seat or to which your token invites you; to the
    operator, all.
    """
    extras.require("join")
    with at.connect(who.known(), token=who.token, operator=operator.token()) as client:
        found = client.rounds(running=running, most=last + 1)
    rounds, more = [entry.model_dump() for entry in found[:last]], len(found) > last
    document: dict[str, Any] = {"rounds": rounds, "more": more}
    output.emit(document, as_json, lambda screen: _draw(screen, rounds, more))


def _draw(screen: Console, rounds: list[dict[str, Any]], more: bool) -> None:
    from dhdmm.release.wording import printable

    if not rounds:
        screen.print("no rounds")
        return
    table = output.table("study", "state", "enrolled", "alive", "closes in", "round")
    for entry in rounds:
        state = printable(entry["state"]).removeprefix("collecting-")
        left = entry["remaining_s"]
        table.add_row(
            printable(entry["study"]),
            f"{state} ({printable(entry['reason'])})" if entry["reason"] else state,
            f"{entry['enrolled']} of {entry['minimum']} to {entry['maximum']}",
            str(entry["alive"]),
            "" if left is None else f"{left:.0f} s",
            printable(entry["round"]),
        )
    screen.print(table)
    if more:
        screen.print("there are older ones: --last shows more")
