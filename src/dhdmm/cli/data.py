"""`dhdmm data`: name a data set once, with the budget of all rounds that will ever count it."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from dhdmm.cli import coordinator, output
from dhdmm.cli.options import command_group, for_typer
from dhdmm.participant.data_sets import DataSet, DataSets
from dhdmm.privacy.budgets import Budget, epsilon_within
from dhdmm.privacy.chain import Kind
from dhdmm.release.wording import printable

app = command_group("Name your data sets, each with one budget.")


@app.command()
@for_typer
def add(
    name: Annotated[str, typer.Argument(help="What you call the data.")],
    table: Annotated[
        str,
        "A file, a folder of files, or a table's address in a warehouse.",
    ],
    budget: Annotated[
        str,
        'For all rounds together: "epsilon=3,delta=1e-6", or "rho=0.5".',
    ],
    state: coordinator.StateOption = None,
    as_json: output.Json = False,
) -> None:
    """Name a table and fix what all rounds together may cost it. The budget cannot be changed.

    From then on every round that counts the table is debited: by run, by join and from Python,
    whichever study asks.
    """
    made = DataSets(state).add(name, table, Budget.parse(budget))
    document = figures(made)
    output.emit(document, as_json, lambda screen: screen.print(_words(document), soft_wrap=True))


@app.command("list")
@for_typer
def list_(state: coordinator.StateOption = None, as_json: output.Json = False) -> None:
    """List your data sets and what is left of each budget."""
    document = {"data_sets": [figures(one) for one in DataSets(state).all()]}
    output.emit(document, as_json, lambda screen: _draw(screen, document["data_sets"]))


def figures(one: DataSet) -> dict[str, Any]:
    """What is known of a data set, as plain values; ρ as exact fractions, in text."""
    ledger = one.ledger().state()
    return {
        "name": one.name,
        "table": one.table,
        "delta": one.delta,
        "budget": str(ledger.budget),
        "budget_epsilon": epsilon_within(ledger.budget, one.delta),
        "remaining": str(ledger.remaining),
        "used": float(1 - ledger.remaining / ledger.budget),
        "rounds": len(ledger.amounts(Kind.DEBIT)),
        "ledger": str(one.folder / "ledger"),
    }


def _words(one: dict[str, Any]) -> str:
    return (
        f"All rounds that count {one['name']} together cost at most ε = {one['budget_epsilon']:.4g}"
        f" at δ = {one['delta']:g}."
    )


def _draw(screen: Console, listed: list[dict[str, Any]]) -> None:
    if not listed:
        screen.print("no data set is named yet: dhdmm data add")
        return
    table = output.table("data set", "table", numbers=("budget ε", "at δ", "used", "rounds"))
    for one in listed:
        table.add_row(
            one["name"],
            Text(printable(one["table"])),
            f"{one['budget_epsilon']:.4g}",
            f"{one['delta']:g}",
            f"{100 * one['used']:.0f} %",
            f"{one['rounds']:,}",
        )
    screen.print(table)
