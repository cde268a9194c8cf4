"""`dhdmm budget`: what several releases cost together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from dhdmm.cli import output
from dhdmm.release.release import Release
from dhdmm.release.spending import Spent, accounts, different_rounds
from dhdmm.release.wording import printable

MEANING = (
    "Together: the cost to a unit that was in every round, no matter who asked. ε holds if the"
    " number of rounds and their noise were settled before the first release.{chosen} What one"
    " data set has spent, and the ε of its whole budget, its ledger says: dhdmm ledger."
)
CHOSEN = (
    " If rounds were chosen in view of earlier releases, ε = {epsilon_adaptive:.4g} holds for all"
    " together, provided that a total of this ρ was fixed beforehand."
)


def budget(
    directories: Annotated[list[Path], typer.Argument(help="The release directories.")],
    as_json: output.Json = False,
) -> None:
    """Add up the privacy budget of several releases, study by study and in all.

    Several releases of one round count once.
    """

    releases = [Release.load(directory) for directory in directories]
    document: dict[str, Any] = {
        "releases": len(releases),
        "rounds": len(different_rounds(releases)),
        "accounts": [
            {
                "unit": account.unit,
                "relation": account.relation,
                "studies": {name: _figures(cost) for name, cost in account.by_study.items()},
                "together": _figures(account.together),
            }
            for account in accounts(releases)
        ],
    }
    output.emit(document, as_json, lambda screen: _draw(screen, document))


def _figures(cost: Spent) -> dict[str, Any]:
    return {
        "rounds": cost.rounds,
        "rho": float(cost.rho),
        "rho_exact": str(cost.rho),
        "epsilon": cost.epsilon,
        "epsilon_adaptive": cost.epsilon_adaptive,
        "delta": cost.delta,
    }


def _draw(screen: Console, document: dict[str, Any]) -> None:

    for account in document["accounts"]:
        screen.print(Text(printable(f"unit: {account['unit']}, {account['relation']}"), "bold"))
        table = output.table("study", numbers=("rounds", "ρ", "ε", "at δ"))
        for name, cost in [*account["studies"].items(), ("together", account["together"])]:
            numbers = [f"{cost[key]:.4g}" for key in ("rho", "epsilon")]
            table.add_row(
                Text(printable(name, 32)), f"{cost['rounds']:,}", *numbers, f"{cost['delta']:.2g}"
            )
        screen.print(table, "")
    if document["rounds"] < document["releases"]:
        copies = document["releases"] - document["rounds"]
        screen.print(f"{copies} of the releases are of a round that is counted already.")
    several = [one["together"] for one in document["accounts"] if one["together"]["rounds"] > 1]
    chosen = "".join(CHOSEN.format_map(one) for one in several[:1]) if len(several) == 1 else ""
    screen.print(MEANING.format(chosen=chosen))
