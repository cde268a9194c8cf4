"""`dhdmm ledger`: what a participant has promised and spent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from dhdmm.cli import coordinator, output
from dhdmm.errors import Refused
from dhdmm.participant.data_sets import DataSets, now, state_folder
from dhdmm.privacy.budgets import DEFAULT_DELTA, buys, epsilon_within
from dhdmm.privacy.chain import Entry, Kind, State
from dhdmm.privacy.ledger import Ledger
from dhdmm.privacy.protection import Exposure, bounds
from dhdmm.release.wording import printable

SHOWN_DIGITS = 16
"""Of round identifiers and digests on a screen; --json has all of them."""

NOT_RECORDED = "not recorded"
ENDINGS = {Kind.RESERVE: "reserved", Kind.DEBIT: "spent", Kind.CANCEL: "given back"}
SUBJECTS = {
    "record": "a record, as counted",
    "person": "a person",
    "participant": "all records here",
}

BUDGET_MEANING = (
    "The budget limits the plain sum of ρ. Whatever studies are chosen in view of earlier releases,"
    " all rounds within it tell of one record, removed, at most the ε in the first line. Each ε is"
    " what the ρ beside it comes to by itself, whatever the rounds are; a round's own promise, from"
    " its noise, is a little less."
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
    name: Annotated[
        str | None,
        typer.Argument(help="A data set's name, or a ledger file; by default the one in --state."),
    ] = None,
    delta: Annotated[
        float | None, "The δ at which ε is shown; by default the data set's, or 1e-6."
    ] = None,
    state: coordinator.StateOption = None,
    as_json: output.Json = False,
) -> None:
    """Show a privacy budget: what is spent, reserved and left, what it buys, and for whom.

    The chain of entries is verified first; one that was altered, or replaced by an
    older copy, is refused.
    """

    opened, stated = _opened(name, state)
    document = _document(opened.state(), delta or stated)
    output.emit(document, as_json, lambda screen: _draw(screen, document))


def _opened(name: str | None, state: Path | None) -> tuple[Ledger, float]:
    """The ledger, and the δ that its owner stated."""
    sets = DataSets(state)
    is_data_set = name is not None and any(one.name == name for one in sets.all())
    if name is not None and is_data_set and not Path(name).is_file():
        found = sets.named(name)
        return found.ledger(), found.delta
    path = (state or state_folder()) / "ledger" if name is None else Path(name)
    if not path.exists():
        raise Refused(
            "there is no ledger",
            where=str(path),
            hint="dhdmm data add makes a data set's, a round that it pays for makes any other",
        )
    return Ledger(path, now), DEFAULT_DELTA


def _document(state: State, delta: float) -> dict[str, Any]:
    """Amounts of ρ as exact fractions, in text."""
    amounts = {
        "budget": state.budget,
        "spent": state.total(Kind.DEBIT),
        "reserved": state.total(Kind.RESERVE),
        "remaining": state.remaining,
    }
    return {
        "format": state.entries[-1].format,
        **{name: str(rho) for name, rho in amounts.items()},
        "delta": delta,
        "epsilon": {name: epsilon_within(rho, delta) for name, rho in amounts.items()},
        "buys": _buys(state),
        "rounds": [_round(entry, delta) for entry in state.latest.values()],
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
        "checkpoint": state.checkpoint._asdict(),
        "entries": [_entry(entry) for entry in state.entries],
    }


def _buys(state: State) -> str | None:
    """What is left, in rounds like the last one."""
    spent = [entry for entry in state.latest.values() if entry.kind == Kind.DEBIT]
    if not spent:
        return None
    last = max(spent, key=lambda entry: entry.sequence)
    named = f" ({last.purpose.study})" if last.purpose.study else ""
    return buys(state.remaining, Fraction(last.rho)).replace("this one", f"the last{named}")


def _round(entry: Entry, delta: float) -> dict[str, Any]:
    return {
        "round": entry.round_id,
        "what": ENDINGS[Kind(entry.kind)],
        "study": entry.purpose.study or None,
        "participants": entry.purpose.participants or None,
        "when": entry.time,
        "rho": entry.rho,
        "epsilon": epsilon_within(Fraction(entry.rho), delta),
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

    amounts = output.table("", "ε", "ρ")
    for name in ("budget", "spent", "reserved", "remaining"):
        amounts.add_row(name, f"{document['epsilon'][name]:.4g}", _decimal(document[name]))
    screen.print(f"At δ = {document['delta']:g}:", amounts, "", sep="\n")
    if document["buys"]:
        screen.print(f"Left: {escape(printable(document['buys']))}.\n")
    screen.print(BUDGET_MEANING, "", sep="\n")
    if document["rounds"]:
        _draw_rounds(screen, document["rounds"])
        _draw_accounts(screen, document)


def _draw_rounds(screen: Console, rounds: list[dict[str, Any]]) -> None:
    drawn = output.table("study", "when", "what", numbers=("participants", "ε", "ρ"))
    for one in rounds:
        drawn.add_row(
            Text(printable(one["study"] or f"round {one['round'][:SHOWN_DIGITS]}", 30)),
            one["when"][:10],
            one["what"],
            f"{one['participants']:,}" if one["participants"] else "–",
            f"{one['epsilon']:.4g}",
            _decimal(one["rho"]),
        )
    screen.print(drawn, "")


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
