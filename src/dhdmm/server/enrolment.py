"""Before a round: tokens, seats, and the plan when enrolment closes.

A token is 32 random bytes; the store knows its hash. It is good for one seat of one key, and the
same key may present it again. It expires by the coordinator's calendar, which decides nothing else
here.
"""

from __future__ import annotations

import secrets
import time
from hashlib import sha256

from sqlalchemy import insert, select, update

from dhdmm.aggregation.errors import AbortReason
from dhdmm.aggregation.method import ENROLMENT
from dhdmm.aggregation.roster import Roster
from dhdmm.errors import PrivacyError
from dhdmm.network.problems import Problem, Reason
from dhdmm.network.roster import RosterFile
from dhdmm.planning.draft import Draft
from dhdmm.planning.plan import Plan
from dhdmm.server.requests import Enrol, EnrolledSeat
from dhdmm.server.store import StoredStudy, Turn
from dhdmm.server.tables import agreements, enrolments, tokens


def make_tokens(turn: Turn, count: int, expires_s: int) -> list[str]:
    """So many fresh tokens, for people who are to be enrolled in this round."""
    made = [secrets.token_urlsafe(32) for _ in range(count)]
    expires = int(time.time()) + expires_s
    rows = [{"digest": _digest(token), "round": turn.row.id, "expires": expires} for token in made]
    turn.connection.execute(insert(tokens), rows)
    return made


def enrol(turn: Turn, asked: Enrol, study: StoredStudy) -> EnrolledSeat:
    """A seat for this key; the same one again if it comes again with the same token."""
    mine = (tokens.c.digest == _digest(asked.token)) & (tokens.c.round == turn.row.id)
    token = turn.connection.execute(
        select(tokens.c.expires, tokens.c.key).where(mine)
    ).one_or_none()
    if token is None or token.key not in (None, asked.key):
        raise Problem(401, Reason.BAD_TOKEN, "the token is unknown, or somebody has used it")
    if token.key is not None:
        return _seat(turn, asked.key)
    if token.expires < time.time():
        raise Problem(401, Reason.BAD_TOKEN, "the token has expired", hint="ask for another one")
    if turn.row.state != ENROLMENT.name or turn.row.enrolled >= study.maximum:
        raise Problem(409, Reason.CLOSED, "enrolment is over")
    same = (enrolments.c.name == asked.name) | (enrolments.c.key == asked.key)
    here = enrolments.c.round == turn.row.id
    if turn.connection.execute(select(enrolments.c.position).where(here & same)).first():
        raise Problem(409, Reason.TAKEN, "the name or the key has a seat already")
    seat = {"round": turn.row.id, "position": turn.row.enrolled}
    turn.connection.execute(insert(enrolments).values(name=asked.name, key=asked.key, **seat))
    turn.connection.execute(update(tokens).where(mine).values(key=asked.key))
    turn.row.enrolled += 1
    return EnrolledSeat(asked.name, asked.key, fresh=True)


def close_enrolment(turn: Turn, study: StoredStudy) -> None:
    """The plan for those who have come; the round is aborted if they are too few."""
    found = (
        select(enrolments.c.name, enrolments.c.key)
        .where(enrolments.c.round == turn.row.id)
        .order_by(enrolments.c.position)
    )
    pairs = turn.connection.execute(found).all()
    if len(pairs) < study.minimum:
        turn.row.abort(AbortReason.TOO_FEW_PARTICIPANTS)
        return
    roster = Roster(tuple(name for name, _ in pairs), tuple(key for _, key in pairs))
    agree(turn, study, RosterFile(roster))


def agree(turn: Turn, study: StoredStudy, file: RosterFile) -> None:
    """Fix the roster and with it the plan; the round is aborted if no plan is safe for so many."""
    draft = Draft.of(Plan.from_bytes(study.preview))
    try:
        plan = draft.plan_for(file.roster)
    except PrivacyError:
        turn.row.abort(AbortReason.REFUSED_PARAMETERS)
        return
    # where the draft is of dhdmm 0.1.0, so may be the participants: they are sent what it reads
    roster = file.to_bytes(1 if plan.format == 1 else None)
    made = {"round": turn.row.id, "plan": plan.to_bytes(), "roster": roster}
    turn.connection.execute(insert(agreements).values(made))
    row = turn.row
    row.state = plan.method.phases[0].name
    row.enrolled = row.invited = row.alive = len(file.roster)
    row.plan_digest, row.roster_digest = plan.digest.hex(), plan.roster_digest.hex()


def _seat(turn: Turn, key: bytes) -> EnrolledSeat:
    mine = (enrolments.c.round == turn.row.id) & (enrolments.c.key == key)
    name = turn.connection.execute(select(enrolments.c.name).where(mine)).scalar_one()
    return EnrolledSeat(name, key, fresh=False)


def _digest(token: str | bytes) -> bytes:
    return sha256(token.encode() if isinstance(token, str) else token).digest()
