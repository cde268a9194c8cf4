"""`dhdmm enroll`: the operator's tokens, one for each person who is to be enrolled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dhdmm.cli import coordinator, output

if TYPE_CHECKING:
    from rich.console import Console

DAY = 24 * 3600


def enroll(
    at: coordinator.Coordinator,
    operator: coordinator.Operator,
    count: Annotated[int, typer.Option(min=1, help="How many tokens.")] = 1,
    expires_seconds: Annotated[
        int, typer.Option(min=1, help="For how long a token can be used.")
    ] = 7 * DAY,
    round_id: coordinator.RoundOption = None,
    as_json: output.Json = False,
) -> None:
    """Make enrolment tokens. Each takes one seat, once; give every participant its own."""
    with operator.client(at) as client:
        status = at.round(client, round_id)
        tokens = client.tokens(bytes.fromhex(status.round), count, expires_seconds)
    document: dict[str, Any] = {"round": status.round, "tokens": tokens}
    output.emit(document, as_json, lambda screen: _draw(screen, tokens))


def _draw(screen: Console, tokens: list[str]) -> None:
    for token in tokens:
        screen.print(token, soft_wrap=True)
