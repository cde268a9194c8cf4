"""A place in a round, before anything is said: what was consented to, by whom, under which roster.

Here a participant decides. Whatever the coordinator sent is either what this participant knows
from elsewhere and agreed to, or the reason for staying out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dhdmm.aggregation.errors import RemoteProtocolError
from dhdmm.aggregation.roster import Entry, KnownRoster, PartOfRoster
from dhdmm.client.home import Home
from dhdmm.client.http import CoordinatorClient
from dhdmm.errors import PlanError, PolicyReason, PolicyRefusal, Refused
from dhdmm.network.identity import NamedIdentity
from dhdmm.network.offer import Offer, Place
from dhdmm.network.roster import Edition, Pin, RosterCredentials, RosterFile, ShownRoster
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
    given: RosterCredentials
    roster: KnownRoster
    position: int


def require_consent(draft: bytes, member: Member) -> Review:
    """The preview, if somebody here agreed to just this draft and it fits the policy."""
    from dhdmm.participant.policy import review_preview  # slow to import: after the first request
    from dhdmm.planning.draft import Draft

    try:
        reviewed = review_preview(draft, member.policy, member.home.checked)
    except PolicyRefusal as refusal:
        if refusal.reason not in (PolicyReason.UNREADABLE, PolicyReason.NOT_CANONICAL):
            raise
        said = f"what the coordinator sends is no draft: {refusal.what}"
        raise PolicyRefusal(refusal.reason, said, refusal.hint) from None
    plan = reviewed.plan
    if not member.home.consented(Draft.of(plan)):
        raise Refused(
            f"nobody here has consented to the study '{plan.study.name}' with this strategy and ρ",
            hint="look at it with dhdmm review, and consent",
        )
    return reviewed


def take_seat(
    client: CoordinatorClient, round_id: bytes, member: Member, preview: Review, offer: Offer
) -> Seat:
    """Our place under a plan that keeps to the policy, for the draft that was consented to."""
    from dhdmm.participant.policy import review
    from dhdmm.planning.draft import Draft
    from dhdmm.planning.plan import roster_named_in, under_terms

    try:
        encoded = under_terms(preview.plan, offer.terms)
        size, digest = roster_named_in(offer.terms)
    except PlanError as error:
        said = f"the coordinator's offer has no terms of a plan: {error.what}"
        raise PolicyRefusal(PolicyReason.UNREADABLE, said) from None
    shown = _shown_place(PartOfRoster(size, digest), member, offer.place)
    place = shown or _found_place(client, round_id, member)
    policy = member.policy
    if member.pin.is_set:
        known = [fingerprint.hex() for fingerprint in place.given.fingerprints]
        policy = policy.model_copy(update={"rosters": [*policy.rosters, *known]})
    reviewed = review(encoded, policy, place.roster, preview=preview)
    if not member.home.consented(Draft.of(reviewed.plan)):
        raise Refused("the plan is not made from the draft that was consented to")
    _require_newest(place.given, round_id, reviewed.plan, member)
    return Seat(round_id, reviewed, place.given, place.roster, place.position)


class _OurPlace(NamedTuple):
    """Where we are, and what of the roster we have seen."""

    given: RosterCredentials
    roster: KnownRoster
    position: int


def _shown_place(part: PartOfRoster, member: Member, place: Place | None) -> _OurPlace | None:
    """As the coordinator shows it; None if that does not suffice to believe in the roster.

    Whoever pins a digest or a signature of dhdmm 0.1.0 has to see all of the roster.
    """
    if place is None:
        return None
    try:
        part.learn({place.position: Entry(place.name, member.key)}, place.path)
    except RemoteProtocolError:
        return None
    given = ShownRoster(
        part.digest,
        registrar=place.registrar,
        signature=place.signature,
        edition=Edition.of(place.edition),
    )
    listed = member.policy.rosters
    if listed and not member.pin.is_set and part.digest.hex() not in listed:
        return None
    try:
        member.pin.check(given)
    except PolicyRefusal:
        return None
    return _OurPlace(given, part, place.position)


def _found_place(client: CoordinatorClient, round_id: bytes, member: Member) -> _OurPlace:
    """In the whole roster; the review compares it with the one that the plan names."""
    given = RosterFile.from_bytes(client.roster(round_id), where="the coordinator's roster")
    member.pin.check(given)
    if member.key not in given.roster.identities:
        raise Refused(
            f"the roster {given.roster.digest.hex()} has no seat for this identity",
            hint="has the registrar, or the coordinator, this identity's public key?",
        )
    return _OurPlace(given, given.roster, given.roster.identities.index(member.key))


def _require_newest(given: RosterCredentials, round_id: bytes, plan: Plan, member: Member) -> None:
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
