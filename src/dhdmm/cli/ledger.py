"""`dhdmm ledger`: what a participant has promised and spent."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dhdmm.cli import output

if TYPE_CHECKING:
    from rich.console import Console

    from dhdmm.privacy.chain import State

SHOWN_DIGITS = 16
"""Of round identifiers and digests on a screen; --json has all of them."""


def ledger(
    path: Annotated[Path, typer.Argument(help="The ledger file, such as study.ledger.")],
    as_json: output.Json = False,
) -> None:
    """Show a participant's privacy budget: what is spent, reserved and left, entry by entry.

    The chain of entries is verified first; a ledger that was altered or turned back is refused.
    """
    from datetime import UTC, datetime

    from dhdmm.privacy.chain import replay
    from dhdmm.privacy.ledger import Ledger

    opened = Ledger(path, clock=lambda: datetime.now(UTC))
    document = _document(replay(opened.entries()))
    output.emit(document, as_json, lambda screen: _draw(screen, document))


def _document(state: State) -> dict[str, Any]:
    """Amounts of ρ as exact fractions, in text."""
    from dhdmm.privacy.chain import Kind

    return {
        "budget": str(state.budget),
        "spent": str(state.total(Kind.DEBIT)),
        "reserved": str(state.total(Kind.RESERVE)),
        "remaining": str(state.remaining),
        "checkpoint": asdict(state.checkpoint),
        "entries": [asdict(entry) for entry in state.entries],
    }


def _draw(screen: Console, document: dict[str, Any]) -> None:
    from rich.table import Table

    amounts = Table("", "ρ", box=None, pad_edge=False)
    for name in ("budget", "spent", "reserved", "remaining"):
        amounts.add_row(name, _decimal(document[name]))
    screen.print(amounts, "")
    entries = Table("entry", "what", "ρ", "when", "round", "plan", box=None, pad_edge=False)
    for entry in document["entries"]:
        entries.add_row(
            str(entry["sequence"]),
            entry["kind"],
            _decimal(entry["rho"]),
            entry["time"][:19],
            entry["round_id"][:SHOWN_DIGITS],
            entry["plan_digest"][:SHOWN_DIGITS],
        )
    screen.print(entries)


def _decimal(rho: str) -> str:
    from fractions import Fraction

    return f"{float(Fraction(rho)):.6g}"
