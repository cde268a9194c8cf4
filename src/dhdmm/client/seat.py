"""A place in a round, before anything is said: what was consented to, by whom, under which roster.

Here a participant decides. Whatever the coordinator sent is either what this participant knows
from elsewhere and agreed to, or the reason for staying out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dhdmm.aggregation.roster import Roster
from dhdmm.client.home import Home
from dhdmm.client.http import CoordinatorClient
from dhdmm.errors import Refused
from dhdmm.network.identity import NamedIdentity
from dhdmm.network.roster import Pin, RosterFile
from dhdmm.participant.limits import Policy
from dhdmm.privacy.ledger import Ledger

if TYPE_CHECKING:
    from dhdmm.participant.policy import Review
    from dhdmm.planning.plan import Plan


@dataclass(frozen=True)
class Member:
    """Who joins, within which limits, and what it knows of the roster."""

    named: NamedIdentity
    policy: Policy
    ledger: Ledger = field(repr=False)
    home: Home
    pin: Pin

    @property
    def key(self) -> bytes:
        return self.named.identity.public


@dataclass(frozen=True)
class Seat:
    """A place in a round that this participant is willing to take."""

    round_id: bytes
    reviewed: Review
    given: RosterFile
    position: int

    @property
    def roster(self) -> Roster:
        return self.given.roster


def require_consent(draft: bytes, member: Member) -> Review:
    """The preview, if somebody here agreed to just this draft and it fits the policy."""
    from dhdmm.participant.policy import review_preview  # slow to import: after the first request
    from dhdmm.planning.draft import Draft

    reviewed = review_preview(draft, member.policy)
    plan = reviewed.plan
    if not member.home.consented(Draft.of(plan)):
        raise Refused(
            f"nobody here has consented to the study '{plan.study.name}' with this strategy and ρ",
            hint="look at it with dhdmm review, and consent",
        )
    return reviewed


def take_seat(
    client: CoordinatorClient, round_id: bytes, member: Member, preview: Review | None = None
) -> Seat:
    """Our place under a plan that keeps to the policy, for the draft that was consented to."""
    from dhdmm.participant.policy import review
    from dhdmm.planning.draft import Draft

    given = RosterFile.from_bytes(client.roster(round_id), where="the coordinator's roster")
    digest = given.roster.digest.hex()
    policy = member.policy
    member.pin.check(given)
    if member.pin.is_set:
        policy = policy.model_copy(update={"rosters": [*policy.rosters, digest]})
    reviewed = review(client.plan(round_id), policy, given.roster, preview=preview)
    if not member.home.consented(Draft.of(reviewed.plan)):
        raise Refused("the plan is not made from the draft that was consented to")
    if member.key not in given.roster.identities:
        raise Refused(
            f"the roster {digest} has no seat for this identity",
            hint="has the registrar, or the coordinator, this identity's public key?",
        )
    _require_newest(given, round_id, reviewed.plan, member)
    return Seat(round_id, reviewed, given, given.roster.identities.index(member.key))


def _require_newest(given: RosterFile, round_id: bytes, plan: Plan, member: Member) -> None:
    """No older roster than one of the same registrar and study that was accepted before.

    A round that this participant is in goes on under its own roster, which was accepted then: the
    ledger names the plan, and the plan the roster.
    """
    if member.pin.registrar is None:
        return
    given.require_study(plan.study.name)
    entered = member.ledger.state().latest.get(round_id.hex())
    if entered is None or entered.plan_digest != plan.digest.hex():
        member.home.accept_roster(given, plan.study.name)
