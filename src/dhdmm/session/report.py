"""All that a participant of a round with two servers does, as one function."""

from __future__ import annotations

import os

from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import Journal, MemoryJournal
from dhdmm.aggregation.method import ParticipantMachine
from dhdmm.aggregation.roster import PartOfRoster
from dhdmm.errors import Refused
from dhdmm.participant.measure import measure
from dhdmm.planning.plan import Plan
from dhdmm.privacy.keystream import KeyStream
from dhdmm.study.histogram import Histogram


def report(
    plan: Plan,
    histogram: Histogram,
    identity: Identity,
    *,
    round_id: bytes,
    position: int,
    key: bytes,
    journal: Journal | None = None,
) -> bytes:
    """The one message of a participant in a round with two servers: its sums, with noise, sealed.

    The plan must have been reviewed, and the report must be paid for before it is sent: this
    function does neither. Never send two reports of one round: keep what this returns, or give a
    durable journal, which gives the same report again.

    Args:
        plan: The plan, for a study with `threat_model: two-servers`.
        histogram: The participant's records, from `dhdmm.tabulate`.
        identity: Its identity, which is on the roster.
        round_id: The round's 16 bytes.
        position: Its position on the roster, from 0.
        key: The message with the helper's key, as the coordinator gives it.
        journal: Keeps the report before it is returned.

    Returns:
        The report, as docs/protocol.md describes it.

    Raises:
        Refused: The plan's study has another threat model.
        RemoteProtocolError: The key is not the helper's of this round.

    Example:
        >>> table = dhdmm.tabulate("own.csv", plan.study.schema)  # doctest: +SKIP
        >>> report(  # doctest: +SKIP
        ...     plan, table.histogram, identity, round_id=round_id, position=7, key=key
        ... )
    """
    if not plan.method.has_helper:
        raise Refused(
            f"a report is for rounds with two servers, the plan is {plan.threat_model}",
            hint="write 'threat_model: two-servers' into the study",
        )
    round, roster = plan.round(round_id), PartOfRoster(plan.participants, plan.roster_digest)
    machine: ParticipantMachine = plan.method.participant(
        round, roster, identity, position, os.urandom, journal or MemoryJournal()
    )
    if machine.outgoing is not None:
        return machine.outgoing
    machine.receive(key)
    return machine.give_input(measure(plan, histogram, KeyStream.fresh()))
