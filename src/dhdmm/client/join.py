"""One participant's round over the network, from an address to a verified release.

    count → consent → enrol → plan and roster → pins and policy → reserve → exchange → verify

The table is counted before the coordinator hears of this participant, so that no message comes
earlier or later because of it. Killed at any moment, the same call again goes on from the journal,
or stays out. The coordinator is believed in nothing: what it sends is checked here, by the policy,
or by secure aggregation.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING

from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.method import ABORTED, FINISHED, Reply
from dhdmm.client.counted import CountedTables
from dhdmm.client.ending import Ending, Exchange, Participation, ended, note_message
from dhdmm.client.http import CoordinatorClient, RequestRefused
from dhdmm.client.joined import note
from dhdmm.client.journal import FileJournal
from dhdmm.client.seat import Member, Seat, require_consent, take_seat
from dhdmm.errors import Refused, RoundAborted, TranscriptError, VerificationError
from dhdmm.network.offer import Offer
from dhdmm.network.problems import Reason
from dhdmm.privacy.chain import Kind, Purpose
from dhdmm.privacy.keystream import KeyStream
from dhdmm.privacy.protection import Protection
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study

if TYPE_CHECKING:
    from dhdmm.aggregation.randomness import Randomness
    from dhdmm.participant.policy import Review
    from dhdmm.planning.plan import Plan
    from dhdmm.session.participant import ParticipantSession


Watch = Callable[[str], None]
"""Told in a few words what happens; nothing secret."""


def join(
    client: CoordinatorClient,
    round_id: bytes,
    member: Member,
    tabulate: Callable[[Study], Histogram],
    *,
    token: str | None = None,
    randomness: Randomness = os.urandom,
    noise: Callable[[], KeyStream] = KeyStream.fresh,
    watch: Watch = lambda _words: None,
    whole: bool = False,
) -> Participation:
    """Take part in a round that was consented to, or go on with it after a restart.

    What `tabulate` gives for the studies consented to is asked for before the coordinator is. In
    the end the coordinator's receipt is checked; with `whole`, also everything that it is of: the
    transcript is fetched, and the release derived from it.
    """
    from dhdmm.session.participant import ParticipantSession

    counted = CountedTables(tabulate)
    with member.home.journal(round_id, member.key) as journal:
        _require_not_left(member, round_id, journal)
        resumed = journal.read() is not None
        our_part_is_over = not resumed and member.ledger.paid_for(round_id) is not None
        if not our_part_is_over:
            counted.prepare(member.home.studies())
        preview = require_consent(client.preview(round_id), member)
        study = preview.plan.study
        if our_part_is_over:
            outcome = _after_our_part(client, round_id, member, preview, whole)
            journal.erase()
            return outcome
        if resumed:
            watch("resumed from the journal")
        histogram = counted(study)

        def enrol() -> None:
            if token is not None:
                journal.remember(note(round_id, client, study))
                client.enrol(round_id, token, member.named.name)
                watch("enrolled")

        offer = _await_offer(client, round_id, enrol, watch)
        if offer.state == ABORTED.name:
            paid = member.ledger.settle(round_id)
            journal.erase()
            return Participation(Ending.ABORTED, offer.reason, paid is not None)
        if offer.state == FINISHED.name and not resumed:
            raise RoundAborted("the round is finished", hint="join another one")
        seat = take_seat(client, round_id, member, preview, offer)
        plan = seat.reviewed.plan
        _require_budget(member, round_id, plan)
        journal.remember(note(round_id, client, plan.study))
        purpose = Purpose(plan.study.name, plan.participants)
        protection = Protection.of(plan.study)
        member.ledger.reserve(plan.digest, round_id, plan.rho, protection, purpose)
        watch(f"seat {seat.position + 1} of {plan.participants:,}")
        session = ParticipantSession(
            seat.reviewed,
            round_id,
            seat.roster,
            seat.position,
            member.named.identity,
            histogram,
            pay=lambda digest: member.ledger.debit(round_id, digest),
            randomness=randomness,
            noise=noise,
            journal=journal,
        )
        exchange = exchange_messages(client, round_id, session, watch)
        return _end(client, seat, member, journal, exchange, watch, whole)


# Before anything is said


def _require_not_left(member: Member, round_id: bytes, journal: FileJournal) -> None:
    """A round that was given up, or that went on without us, is never entered again."""
    newest = member.ledger.state().latest.get(round_id.hex())
    if newest is not None and newest.kind == Kind.CANCEL:
        journal.erase()
        raise Refused("this participant has left the round for good", hint="join another one")


def _await_offer(
    client: CoordinatorClient, round_id: bytes, enrol: Callable[[], None], watch: Watch
) -> Offer:
    """The terms, once enrolment is over; whoever finds it open enrols."""
    waiting = False
    while True:
        try:
            return client.offer(round_id, wait=waiting)
        except RequestRefused as refusal:
            if refusal.reason != Reason.NOT_YET:
                raise
            watch(refusal.what)
        if not waiting:
            enrol()
            waiting = True


def _require_budget(member: Member, round_id: bytes, plan: Plan) -> None:
    """The ledger would refuse; here is what that means for this round."""
    state = member.ledger.state()
    if round_id.hex() not in state.latest and plan.rho > state.remaining:
        raise Refused(
            f"the ledger refuses: the round asks for ρ = {float(plan.rho):.4g}, and"
            f" {float(state.remaining):.4g} of the budget of {float(state.budget):.4g} is left",
            hint="nothing was sent and nothing is spent; the others go on without this participant",
        )


# The exchange


def exchange_messages(
    client: CoordinatorClient, round_id: bytes, session: ParticipantSession, watch: Watch
) -> Exchange:
    """Pass messages between the session and the coordinator, until the session has sent its last.

    A message is answered with the coordinator's next one, so a phase is one request.
    """
    machine, exchange = session.machine, Exchange()
    outgoing: bytes | None = session.begin()
    while exchange.ending is None:
        if not machine.over:
            watch(machine.progress)
        try:
            if outgoing is None:
                message = client.message(round_id, exchange.last_digest)
            else:
                message = _delivered(client, round_id, session, outgoing, exchange)
        except RequestRefused as refusal:  # too late, or the round is over
            if not machine.over:
                _left_behind(session, exchange, refusal.reason)
            break
        note_message(message, exchange)
        if exchange.receipt is not None and not machine.over:
            _left_behind(session, exchange, Reason.OVER)
        if exchange.ending or machine.over:
            break
        outgoing = None if message is None else _answer_to(session, message, exchange)
    return exchange


def _delivered(
    client: CoordinatorClient,
    round_id: bytes,
    session: ParticipantSession,
    outgoing: bytes,
    exchange: Exchange,
) -> bytes | None:
    """What follows, if it comes soon; whoever is not among the senders is told nothing more."""
    if session.machine.abort_reason is not None and exchange.ending is None:
        exchange.ending, exchange.reason = (
            Ending.WITHDREW,
            str(session.machine.abort_reason),
        )
    word, following = client.send(
        round_id, outgoing, None if exchange.ending else exchange.last_digest
    )
    if word == Reply.EXCLUDED:
        _left_behind(session, exchange, word)
    elif exchange.ending is None:
        exchange.sent.append(sha256(outgoing).digest())
    return following


def _answer_to(session: ParticipantSession, message: bytes, exchange: Exchange) -> bytes | None:
    """The answer. What is no message of this round is the coordinator's doing: we withdraw."""
    machine = session.machine
    try:
        answer = session.receive(message)
    except RemoteProtocolError as error:
        return machine.abort(error.reason)
    if machine.round_aborted is not None:
        exchange.ending, exchange.reason = Ending.ABORTED, str(machine.round_aborted)
    exchange.root, exchange.survivors = machine.root, machine.survivors
    return answer


def _left_behind(session: ParticipantSession, exchange: Exchange, reason: str) -> None:
    """The round went on without us: erase the secrets before anybody could ask for them."""
    exchange.ending, exchange.reason = Ending.LEFT_BEHIND, reason
    session.machine.abort(AbortReason.WRONG_PHASE)


# Afterwards


def _end(
    client: CoordinatorClient,
    seat: Seat,
    member: Member,
    journal: FileJournal,
    exchange: Exchange,
    watch: Watch,
    whole: bool,
) -> Participation:
    """Settle the budget, look at what was published, and forget the rest."""
    paid = member.ledger.settle(seat.round_id)
    if paid is not None and exchange.ending in (None, Ending.LEFT_BEHIND):
        watch("all is said; waiting for the release")
        try:
            outcome = ended(client, seat, paid, exchange, whole)
        except (VerificationError, TranscriptError):
            journal.erase()  # all is said: no reason to keep the round's secrets
            raise
    else:
        assert exchange.ending is not None  # whoever has said all has paid
        outcome = Participation(exchange.ending, exchange.reason, paid is not None)
    journal.erase()
    return outcome


def _after_our_part(
    client: CoordinatorClient, round_id: bytes, member: Member, preview: Review, whole: bool
) -> Participation:
    """Our part ended earlier and its journal is erased: only the release is left to be checked."""
    paid = member.ledger.paid_for(round_id)
    offer = client.offer(round_id)
    if offer.state != FINISHED.name or paid is None:
        raise RoundAborted(
            f"this participant's part in the round is over; the round is {offer.state}"
        )
    seat = take_seat(client, round_id, member, preview, offer)
    return ended(client, seat, paid, Exchange(Ending.LEFT_BEHIND, "an earlier run ended"), whole)
