"""What a data holder looks at before it says yes: `dhdmm review` prints it, its page shows it.

Every figure is computed here, from the study and the strategy that the coordinator sent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dhdmm.aggregation.roster import Roster
from dhdmm.client.http import CoordinatorClient, RequestRefused
from dhdmm.network.roster import RosterFile
from dhdmm.network.status import NamedKey, Status
from dhdmm.participant.policy import Policy, Review, helper_name, within_limits
from dhdmm.planning.calibrate import participants_allowed
from dhdmm.planning.draft import Draft
from dhdmm.planning.figures import (
    excess_words,
    item_figures,
    promise_words,
    rounded_up,
    validation_words,
)
from dhdmm.planning.plan import Promise
from dhdmm.privacy.excess import epsilon_promised
from dhdmm.privacy.ledger import Ledger
from dhdmm.release.wording import byte_size
from dhdmm.study.describe import describe
from dhdmm.study.spec import Study

SHOWN_NAMES = 12
SEEN_BY = (
    "your name and key by the other participants and the coordinator's operator; the round's"
    " progress by them and by those who are invited, or by everybody if the coordinator is public;"
    " the release by whomever they give it to"
)
"""Who sees that somebody takes part. The coordinator holds to it; nobody here can check that."""


@dataclass(frozen=True)
class Parties:
    """Who coordinates, and who else takes part, by the coordinator's word."""

    address: str
    coordinator: NamedKey | None = None
    roster: Roster | None = None
    """None while people enrol, or if the coordinator does not show it."""


def parties_of(client: CoordinatorClient, status: Status) -> Parties:
    """What there is to know of the others before anybody says yes."""
    coordinator, roster = None, None
    with suppress(RequestRefused):  # an older coordinator does not say
        coordinator = client.coordinator()
    with suppress(RequestRefused):
        encoded = client.roster(bytes.fromhex(status.round)) if status.roster_digest else None
        roster = encoded and RosterFile.from_bytes(encoded, "the coordinator's roster").roster
    return Parties(client.base, coordinator, roster or None)


def figures(
    reviewed: Review, policy: Policy, ledger: Ledger | None, status: Status, parties: Parties
) -> dict[str, Any]:
    """The study in words, the cost by our own arithmetic, the budget before and after."""
    plan = reviewed.plan
    epsilon = rounded_up(epsilon_promised([plan.noise], policy.max_delta))
    allowed = participants_allowed(plan.study.aggregation)
    with within_limits(plan, policy):
        expected = plan.expected_error()
        items = item_figures(plan.study, expected.standard_errors)
    budget = Fraction(repr(policy.total_rho)) if ledger is None else ledger.budget()
    left = budget if ledger is None else ledger.remaining()
    return {
        "round": status.round,
        "state": status.state,
        "coordinator": _coordinator(parties),
        "roster": _roster(parties.roster),
        "description": describe(plan.study) | {"privacy": None},  # said below, at our own δ
        "sql": sql_examples(plan.study),
        "privacy": promise_words(plan, Promise(epsilon, policy.max_delta)),
        "threat_model": plan.threat_model.value,
        "helper": helper_name(plan, policy),
        "participants": dict(zip(("minimum", "maximum"), allowed, strict=True)),
        "rows": plan.strategy.rows,
        "sensitivity": math.sqrt(plan.sensitivity_squared),
        "sigma_participant": math.sqrt(plan.participant_variance),
        "honest_floor": plan.honest_floor,
        "corrupt_fraction": plan.study.privacy.corrupt_fraction,
        "seen_by": SEEN_BY,
        "rho": float(plan.rho),
        "epsilon": epsilon,
        "delta": policy.max_delta,
        "largest_epsilon": policy.max_epsilon,
        "expected_rmse": expected.rmse,
        "items": items,
        "participant_bytes": plan.input_bytes,
        "liars": validation_words(plan, items),
        **({"excess": excess_words(plan)} if plan.removable else {}),
        "budget": float(budget),
        "spent": 0.0 if ledger is None else float(ledger.spent()),
        "reserved": 0.0 if ledger is None else float(ledger.reserved()),
        "left": float(left),
        "left_after": float(left - plan.rho),
        "more_rounds": max(int((left - plan.rho) / plan.rho), 0),
        "draft_digest": Draft.of(plan).digest.hex(),
        "study_digest": plan.study.digest.hex(),
        "warnings": [*reviewed.warnings, *_warnings(float(left - plan.rho))],
    }


def _coordinator(parties: Parties) -> dict[str, str | None]:
    known = parties.coordinator
    return {
        "name": (known.name or None) if known else None,
        "address": parties.address,
        "fingerprint": known.fingerprint if known else None,
    }


def _roster(roster: Roster | None) -> dict[str, Any] | None:
    if roster is None:
        return None
    return {"names": list(roster.names), "fingerprint": roster.digest.hex()}


# ---- in words -----------------------------------------------------------------------------------


def words(document: dict[str, Any]) -> list[tuple[str, str]]:
    """What the figures mean, by topic: the same in the terminal and on the page."""
    least, most = document["participants"].values()
    people = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return [
        ("coordinator", _coordinator_words(**document["coordinator"])),
        ("who else", _roster_words(document["roster"], people)),
        ("promise", document["privacy"]),
        *_helper_words(document),
        ("conspiracy", _conspiracy_words(document, people)),
        ("liars", document["liars"]),
        *([("excess noise", document["excess"])] if "excess" in document else []),
        (
            "cost",
            f"this round costs ε = {document['epsilon']:g} at your δ = {document['delta']:g}, where"
            f" your policy allows {document['largest_epsilon']:g};"
            f" ρ = {document['rho']:.6g} of your budget",
        ),
        ("budget", _budget_words(document)),
        (
            "sums",
            f"{document['rows']:,} sums are measured; one unit changes them by at most"
            f" {document['sensitivity']:.6g} in all, you add noise of"
            f" σ = {document['sigma_participant']:.4g} to each",
        ),
        (
            "message",
            f"{byte_size(document['participant_bytes'])} of masked sums leave your machine",
        ),
        ("seen by", document["seen_by"]),
    ]


def _coordinator_words(name: str | None, address: str, fingerprint: str | None) -> str:
    who = f"{name or 'somebody who gives no name'}, at {address}"
    if fingerprint is None:
        return f"{who}; this coordinator does not say which key it signs with"
    return (
        f"{who}, with the key {grouped_digits(fingerprint)}; compare it with what its operator"
        " told you by another way"
    )


def _roster_words(roster: dict[str, Any] | None, people: str) -> str:
    if roster is None:
        return f"{people} participants; who they are is settled when enrolment closes"
    names = roster["names"]
    shown = ", ".join(names[:SHOWN_NAMES])
    more = f" and {len(names) - SHOWN_NAMES:,} more" if len(names) > SHOWN_NAMES else ""
    return (
        f"{len(names):,} participants: {shown}{more}; the roster's fingerprint is"
        f" {grouped_digits(roster['fingerprint'])}"
    )


def _helper_words(document: dict[str, Any]) -> list[tuple[str, str]]:
    if document["helper"] is None:
        return []
    coordinator = document["coordinator"]["name"] or "the coordinator"
    return [
        (
            "two servers",
            f"safe while one of {coordinator} and {document['helper']} is honest: each gets half of"
            " what you send, and neither half says anything. If both conspire, they read what you"
            " send, which has only your own noise in it",
        )
    ]


def _conspiracy_words(document: dict[str, Any], people: str) -> str:
    """What the share that may be corrupt means."""
    share, honest = document["corrupt_fraction"], document["honest_floor"]
    others = f"the noise of {honest:,} honest participant{'s' if honest != 1 else ''}"
    if not share:
        said = f"no other participant may conspire with the coordinator: you rely on {others}"
    else:
        said = (
            f"up to {100 * share:.3g} % of the {people} participants may conspire with the"
            f" coordinator, tell each other all they know and take their own noise off; {others}"
            " still keeps the promise"
        )
    return (
        f"{said}. If more conspire, what you send is still masked and has your own noise in it, but"
        " less noise than promised protects the result"
    )


def _budget_words(document: dict[str, Any]) -> str:
    budget, more = document["budget"], document["more_rounds"]
    said = (
        f"{document['left']:.6g} of ρ = {budget:.6g} is left ({document['spent']:.6g} spent,"
        f" {document['reserved']:.6g} reserved)"
    )
    if document["left_after"] < 0:
        return f"{said}: not enough for this round"
    rounds = f"{more:,} more round{'s' if more != 1 else ''} like this one" if more else "no other"
    share = 100 * document["left_after"] / budget
    return f"{said}; afterwards {document['left_after']:.6g}, {share:.3g} %: enough for {rounds}"


def grouped_digits(digest: str) -> str:
    """In groups, as people compare them.

    >>> grouped_digits("0123456789ab")
    '0123 4567 89ab'
    """
    return " ".join(digest[i : i + 4] for i in range(0, len(digest), 4))


def sql_examples(study: Study) -> dict[str, str]:
    """The first query of every table, as SQL over the table `data`."""
    examples, number = {}, 0
    for item in study.workload.items:
        examples[item.name] = study.workload.query(number).sql
        number += item.queries
    return examples


def _warnings(left_after: float) -> Iterator[str]:
    if left_after < 0:
        yield "the budget that is left does not suffice: a round would be refused"
