"""`dhdmm rounds`: the rounds that you have begun and not ended, and a way out of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dhdmm.cli import coordinator, extras, output

if TYPE_CHECKING:
    from rich.console import Console

    from dhdmm.client.home import Home
    from dhdmm.client.joined import Joined
    from dhdmm.privacy.ledger import Ledger


def rounds(
    give_up: Annotated[
        str | None,
        typer.Option(
            metavar="ROUND",
            help="Leave it: erase its secrets; its ρ comes back unless the input has left.",
        ),
    ] = None,
    ledger: coordinator.LedgerOption = None,
    state: coordinator.StateOption = None,
    as_json: output.Json = False,
) -> None:
    """List the rounds that you are in: where, what is reserved or spent, and what is kept.

    `dhdmm join URL --round ROUND` goes on with one of them.
    """
    extras.require("join")
    from dhdmm.client import joined

    home = coordinator.home(state)
    kept = _ledgers(home, ledger)
    if give_up is not None:
        paid = joined.give_up(home, kept, coordinator.parse_round(give_up))
        document: dict[str, Any] = {"round": give_up, "given_up": True, "paid": paid}
        output.emit(document, as_json, lambda screen: screen.print(_given_up(paid)))
        return
    document = {"rounds": [_figures(one) for one in joined.open_rounds(home, kept)]}
    output.emit(document, as_json, lambda screen: _draw(screen, document["rounds"]))


def _ledgers(home: Home, given: str | None) -> list[Ledger]:
    """The one that was named, or all of this participant's."""
    from dhdmm.participant.data_sets import DataSets, ledgers_for

    if given is not None:
        return ledgers_for([], given, home.root)
    own = home.existing_ledger(None)
    return [*([own] if own else []), *(one.ledger() for one in DataSets(home.root).all())]


def _figures(one: Joined) -> dict[str, Any]:
    return {
        "round": one.round_id.hex(),
        "study": one.note.study if one.note else None,
        "coordinator": one.note.coordinator if one.note else None,
        "begun": one.note.begun if one.note else None,
        "rho": None if one.rho is None else str(one.rho),
        "paid": one.paid,
        "secrets": one.secrets,
    }


def _given_up(paid: bool) -> str:
    cost = "the input had left, so its cost stays" if paid else "nothing is spent"
    return f"the round is given up: {cost}, its secrets are erased"


def _draw(screen: Console, listed: list[dict[str, Any]]) -> None:
    from fractions import Fraction

    from rich.markup import escape

    from dhdmm.release.wording import printable

    if not listed:
        screen.print("you are in no round")
    for one in listed:
        screen.print(f"[bold]{one['round']}[/bold]", soft_wrap=True)
        if one["study"]:
            where = f"{printable(one['study'])} at {printable(one['coordinator'])}"
            screen.print(f"  {escape(where)}, since {one['begun'][:10]}", soft_wrap=True)
        rho = "nothing reserved"
        if one["rho"]:
            held = "spent: the input has left" if one["paid"] else "reserved"
            rho = f"ρ = {float(Fraction(one['rho'])):.6g} {held}"
        screen.print(f"  {rho}; {'secrets are kept' if one['secrets'] else 'no secrets are kept'}")
