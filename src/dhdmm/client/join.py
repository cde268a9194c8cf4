"""One participant's round over the network, from an address to a verified release.

    tabulate → consent → enrol → plan and roster → pins and policy → reserve → speak → verify

The table is counted before the coordinator hears of this participant, so that no message comes
earlier or later because of it. Killed at any moment, the same call again goes on from the journal,
or stays out. The coordinator is believed in nothing: what it sends is checked here, by the policy,
or by secure aggregation.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING

from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.method import ABORTED, ENROLMENT, Reply, input_phase
from dhdmm.client.counted import CountedTables
from dhdmm.client.http import Answered, CoordinatorClient
from dhdmm.client.joined import note
from dhdmm.client.journal import FileJournal
from dhdmm.client.seat import Member, Seat, require_consent, take_seat
from dhdmm.errors import Refused, RoundAborted, VerificationError
from dhdmm.network.status import Status
from dhdmm.privacy.chain import Kind, Purpose
from dhdmm.privacy.keystream import KeyStream
from dhdmm.privacy.protection import Protection
from dhdmm.release.transcript_format import hash_of
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study

if TYPE_CHECKING:
    from dhdmm.aggregation.bitmap import Bitmap
    from dhdmm.aggregation.randomness import Randomness
    from dhdmm.participant.policy import Review
    from dhdmm.planning.plan import Plan
    from dhdmm.release.verify import Verified
    from dhdmm.session.participant import ParticipantSession


class Ending(StrEnum):
    """How a round ended for this participant."""

    RELEASED = "released"  # its input is in a release that it has verified
    LEFT_BEHIND = "left-behind"  # it came too late; the round went on without it
    WITHDREW = "withdrew"  # it left by itself, because the coordinator broke the protocol
    ABORTED = "aborted"  # the coordinator ended the round without a release


@dataclass(frozen=True)
class Participation:
    """What a participant can say of a round when it is over."""

    ending: Ending
    reason: str | None
    paid: bool
    verified: Verified | None = None
    fingerprint: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass
class Course:
    """How the conversation went: whether it ended early and why, and what everybody was told."""

    ending: Ending | None = None
    reason: str | None = None
    root: bytes | None = None
    survivors: Bitmap | None = None
    heard: str = ""
    """The digest of the coordinator's last message, which tells it what we have."""


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
) -> Participation:
    """Take part in a round that was consented to, or go on with it after a restart.

    What `tabulate` gives for the studies consented to is asked for before the coordinator is.
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
        status = client.status(round_id)
        if our_part_is_over:
            outcome = _seen_again(client, round_id, member, status, preview)
            journal.erase()
            return outcome
        if resumed:
            watch("resumed from the journal")
        elif status.over:
            raise RoundAborted(f"the round is {status.state}", hint="join another one")
        histogram = counted(study)
        if token is not None and status.state == ENROLMENT.name:
            journal.remember(note(round_id, client, study))
            client.enrol(round_id, token, member.named.name)
            watch("enrolled")
        if status.state == ENROLMENT.name:
            status = _await_plan(client, round_id, watch)
        if status.state == ABORTED.name:
            paid = member.ledger.settle(round_id)
            journal.erase()
            return Participation(Ending.ABORTED, status.reason, paid is not None)
        seat = take_seat(client, round_id, member, preview)
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
        course = speak(client, round_id, session, watch)
        return _end(client, seat, member, journal, course, watch)


# Before anything is said


def _require_not_left(member: Member, round_id: bytes, journal: FileJournal) -> None:
    """A round that was given up, or that went on without us, is never entered again."""
    newest = member.ledger.state().latest.get(round_id.hex())
    if newest is not None and newest.kind == Kind.CANCEL:
        journal.erase()
        raise Refused("this participant has left the round for good", hint="join another one")


def _await_plan(client: CoordinatorClient, round_id: bytes, watch: Watch) -> Status:
    """The round once enrolment is over, one way or the other."""
    for status in client.statuses(round_id):
        if status.state != ENROLMENT.name:
            break
        watch(f"{status.enrolled} enrolled, at least {status.minimum} are needed")
    return status


def _require_budget(member: Member, round_id: bytes, plan: Plan) -> None:
    """The ledger would refuse; here is what that means for this round."""
    state = member.ledger.state()
    if round_id.hex() not in state.latest and plan.rho > state.remaining:
        raise Refused(
            f"the ledger refuses: the round asks for ρ = {float(plan.rho):.4g}, and"
            f" {float(state.remaining):.4g} of the budget of {float(state.budget):.4g} is left",
            hint="nothing was sent and nothing is spent; the others go on without this participant",
        )


# The conversation


def speak(
    client: CoordinatorClient, round_id: bytes, session: ParticipantSession, watch: Watch
) -> Course:
    """Deliver what the session says and hand it what it is told, until it has said all."""
    machine, course = session.machine, Course()
    outgoing: bytes | None = session.begin()
    while course.ending is None:
        if outgoing is not None:
            _deliver(client, round_id, session, outgoing, course)
        if course.ending or machine.over:
            break
        watch(machine.progress)
        try:
            message = client.message(round_id, course.heard)
        except Answered as refusal:  # the round is over, and we were not there
            _left_behind(session, course, refusal.reason)
            break
        outgoing = None
        if message is not None:
            course.heard = sha256(message).hexdigest()
            outgoing = _heard(session, message, course)
    return course


def _deliver(
    client: CoordinatorClient,
    round_id: bytes,
    session: ParticipantSession,
    outgoing: bytes,
    course: Course,
) -> None:
    """Send; whoever comes too late is not among the senders and will be told nothing more."""
    if session.machine.abort_reason is not None and course.ending is None:
        course.ending, course.reason = Ending.WITHDREW, str(session.machine.abort_reason)
    try:
        reply = client.send(round_id, outgoing)
    except Answered as refusal:
        if not session.machine.over:
            _left_behind(session, course, refusal.reason)
    else:
        if reply == Reply.EXCLUDED:
            _left_behind(session, course, reply)


def _heard(session: ParticipantSession, message: bytes, course: Course) -> bytes | None:
    """The answer. What is no message of this round is the coordinator's doing: we withdraw."""
    machine = session.machine
    try:
        answer = session.receive(message)
    except RemoteProtocolError as error:
        return machine.abort(error.reason)
    if machine.round_aborted is not None:
        course.ending, course.reason = Ending.ABORTED, str(machine.round_aborted)
    course.root, course.survivors = machine.root, machine.survivors
    return answer


def _left_behind(session: ParticipantSession, course: Course, reason: str) -> None:
    """For good: the secrets are erased before anybody could ask for them."""
    course.ending, course.reason = Ending.LEFT_BEHIND, reason
    session.machine.abort(AbortReason.WRONG_PHASE)


# Afterwards


def _end(
    client: CoordinatorClient,
    seat: Seat,
    member: Member,
    journal: FileJournal,
    course: Course,
    watch: Watch,
) -> Participation:
    """Settle the budget, look at what was published, and forget the rest."""
    paid = member.ledger.settle(seat.round_id)
    if paid is not None and course.ending in (None, Ending.LEFT_BEHIND):
        watch("all is said; waiting for the release")
        status = _await_end(client, seat.round_id, course.heard)
        if status.state == ABORTED.name:
            outcome = Participation(Ending.ABORTED, status.reason, True)
        else:
            outcome = _verified(client, seat, paid, course, journal)
    else:
        assert course.ending is not None  # whoever has said all has paid
        outcome = Participation(course.ending, course.reason, paid is not None)
    journal.erase()
    return outcome


def _await_end(client: CoordinatorClient, round_id: bytes, heard: str) -> Status:
    """Messages are waited for rather than a status, which changes with everybody's message."""
    with suppress(Answered):  # there will be none any more
        while True:
            message = client.message(round_id, heard)
            heard = heard if message is None else sha256(message).hexdigest()
    return next(status for status in client.statuses(round_id) if status.over)


def _verified(
    client: CoordinatorClient, seat: Seat, paid: bytes, course: Course, journal: FileJournal
) -> Participation:
    """All is said: a release that does not hold is no reason to keep the round's secrets."""
    try:
        return _published(client, seat, paid, course)
    except VerificationError:
        journal.erase()
        raise


def _published(client: CoordinatorClient, seat: Seat, paid: bytes, course: Course) -> Participation:
    """The release, derived anew; the input that left here must be in it, or we know why not."""
    from dhdmm.release.transcript import Transcript
    from dhdmm.release.verify import verify

    transcript = Transcript.from_bytes(client.transcript(seat.round_id))
    account = transcript.account
    verified = verify(transcript)
    inputs = account.senders(input_phase(seat.reviewed.plan.method).name)
    counted = dict(zip(inputs.senders.members(), inputs.digests, strict=True))
    if course.ending is Ending.LEFT_BEHIND and seat.position not in counted:
        return Participation(Ending.LEFT_BEHIND, course.reason, True)
    claims = {
        "it is of another plan": account.plan == seat.reviewed.plan.to_bytes(),
        "it is of another round": account.round_id == seat.round_id,
        "it has another roster": account.roster == seat.roster,
        "the input that left here is not in it": counted.get(seat.position) == paid,
        "it has other keys than we were told": course.root in (None, account.root),
        "it has other survivors than we were told": course.survivors in (None, inputs.senders),
    }
    for complaint, holds in claims.items():
        if not holds:
            raise VerificationError(f"the release is not of this round: {complaint}")
    warnings = []
    if transcript.key == seat.given.registrar:
        warnings.append("the coordinator's key is the registrar's: it vouches for its own roster")
    fingerprint = hash_of(transcript.entries[-1]).hex()
    return Participation(Ending.RELEASED, None, True, verified, fingerprint, tuple(warnings))


def _seen_again(
    client: CoordinatorClient, round_id: bytes, member: Member, status: Status, preview: Review
) -> Participation:
    """Our part ended earlier and its journal is gone: there is only the release to look at."""
    paid = member.ledger.paid_for(round_id)
    if not status.finished or paid is None:
        raise RoundAborted(
            f"this participant's part in the round is over; the round is {status.state}"
        )
    seat = take_seat(client, round_id, member, preview)
    return _published(client, seat, paid, Course(Ending.LEFT_BEHIND, "an earlier run ended"))
