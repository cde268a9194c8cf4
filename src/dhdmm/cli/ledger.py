"""`dhdmm ledger`: what a participant has promised and spent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from dhdmm.cli import output
from dhdmm.planning.plan import REPORTED_DELTA
from dhdmm.privacy.chain import Entry, Kind, State
from dhdmm.privacy.ledger import Ledger
from dhdmm.privacy.protection import Exposure, bounds
from dhdmm.release.spending import epsilon_within
from dhdmm.release.wording import printable

SHOWN_DIGITS = 16
"""Of round identifiers and digests on a screen; --json has all of them."""

NOT_RECORDED = "not recorded"
SUBJECTS = {
    "record": "a record, as counted",
    "person": "a person",
    "participant": "all records here",
}

BUDGET_MEANING = (
    "The budget limits the plain sum of ρ, which bounds what all rounds together tell of one"
    " record. Whatever studies are chosen in view of earlier releases, within this budget:"
    " ε ≤ {epsilon:.4g} at δ = {delta:.2g} for the removal of one record."
)
BOUND_MEANING = (
    "Removed: as if it were not there; replaced: as if it were different. k: how many of the"
    " person's records, or of all records here, one round counted. A promise for a unit counts once"
    " for each part of it; a promise for less counts k² times, and bounds nothing if k has no"
    " bound. For a person this holds if she is at no more participants than each study allows and,"
    " where rounds protect the participant, all her records are here."
)
OLD_MEANING = (
    "Not recorded: rounds of a ledger of format 1, which does not say whom their ρ protects. They"
    " are counted as if for a record under zero-out, the least that a study can promise. These"
    " figures cannot tell whether persons were protected in them."
)


def ledger(
    path: Annotated[Path, typer.Argument(help="The ledger file, such as study.ledger.")],
    delta: Annotated[
        float | None, typer.Option(help="The δ at which the budget's ε is shown; 1e-6 by default.")
    ] = None,
    as_json: output.Json = False,
) -> None:
    """Show a participant's privacy budget: what is spent, reserved and left, and for whom.

    The chain of entries is verified first; a ledger that was altered or turned back is refused.
    """

    state = Ledger(path, clock=lambda: datetime.now(UTC)).state()
    document = _document(state, REPORTED_DELTA if delta is None else delta)
    output.emit(document, as_json, lambda screen: _draw(screen, document))


def _document(state: State, delta: float) -> dict[str, Any]:
    """Amounts of ρ as exact fractions, in text."""

    return {
        "format": state.entries[-1].format,
        "budget": str(state.budget),
        "spent": str(state.total(Kind.DEBIT)),
        "reserved": str(state.total(Kind.RESERVE)),
        "remaining": str(state.remaining),
        "budget_epsilon": {"epsilon": epsilon_within(state.budget, delta), "delta": delta},
        "accounts": [*_accounts(state)],
        "bounds": [
            {
                "unit": bound.subject.unit,
                "identifier": bound.subject.identifier or None,
                "removed": _exposure(bound.removed),
                "replaced": _exposure(bound.replaced),
            }
            for bound in bounds(state.amounts(Kind.DEBIT))
        ],
        "checkpoint": asdict(state.checkpoint),
        "entries": [_entry(entry) for entry in state.entries],
    }


def _accounts(state: State) -> Iterator[dict[str, Any]]:
    """One a unit, identifier and relation: ρ of different ones is not one quantity."""

    spent, reserved = state.amounts(Kind.DEBIT), state.amounts(Kind.RESERVE)
    promises = {(whom.subject, whom.relation) for whom, _ in (*spent, *reserved)}
    for subject, relation in sorted(promises):
        debited, held = (
            [rho for whom, rho in amounts if (whom.subject, whom.relation) == (subject, relation)]
            for amounts in (spent, reserved)
        )
        yield {
            "unit": subject.unit or None,
            "identifier": subject.identifier or None,
            "relation": relation or None,
            "rounds": len(debited),
            "spent": str(sum(debited, Fraction(0))),
            "reserved": str(sum(held, Fraction(0))),
        }


def _exposure(exposure: Exposure) -> dict[str, str]:
    return {"rho": str(exposure.fixed), "rho_times_k_squared": str(exposure.squared)}


def _entry(entry: Entry) -> dict[str, Any]:
    recorded = asdict(entry)
    if not entry.protection.unit:
        recorded["protection"] = None
    return recorded


def _draw(screen: Console, document: dict[str, Any]) -> None:

    amounts = output.table("", "ρ")
    for name in ("budget", "spent", "reserved", "remaining"):
        amounts.add_row(name, _decimal(document[name]))
    screen.print(amounts, "", BUDGET_MEANING.format_map(document["budget_epsilon"]), "", sep="\n")
    if document["accounts"]:
        _draw_accounts(screen, document)
    entries = output.table("entry", "what", "ρ", "when", "round", "plan")
    for entry in document["entries"]:
        entries.add_row(
            str(entry["sequence"]),
            entry["kind"],
            _decimal(entry["rho"]),
            entry["time"][:16],
            entry["round_id"][:SHOWN_DIGITS],
            entry["plan_digest"][:SHOWN_DIGITS],
        )
    screen.print(entries)


def _draw_accounts(screen: Console, document: dict[str, Any]) -> None:

    counted = ("rounds", "ρ spent", "ρ reserved")
    accounts = output.table("protected", "relation", numbers=counted)
    for account in document["accounts"]:
        accounts.add_row(
            Text(_named(account, account["unit"] or NOT_RECORDED)),
            account["relation"] or NOT_RECORDED,
            f"{account['rounds']:,}",
            _decimal(account["spent"]),
            _decimal(account["reserved"]),
        )
    bounds = output.table("ρ spent, in all, for", "removed", "replaced")
    for bound in document["bounds"]:
        bounds.add_row(
            Text(_named(bound, SUBJECTS[bound["unit"]])),
            *(_sum(bound[change]) for change in ("removed", "replaced")),
        )
    screen.print(accounts, "", bounds, "", BOUND_MEANING, "", sep="\n")
    if any(account["unit"] is None for account in document["accounts"]):
        screen.print(OLD_MEANING, "", sep="\n")


def _named(owner: dict[str, Any], words: str) -> str:

    return words + (f" ({printable(owner['identifier'], 20)})" if owner["identifier"] else "")


def _sum(exposure: dict[str, str]) -> str:
    fixed, squared = exposure["rho"], exposure["rho_times_k_squared"]
    terms = [_decimal(fixed)] if fixed != "0" or squared == "0" else []
    return " + ".join(terms + ([f"{_decimal(squared)} k²"] if squared != "0" else []))


def _decimal(rho: str) -> str:

    return f"{float(Fraction(rho)):.6g}"
