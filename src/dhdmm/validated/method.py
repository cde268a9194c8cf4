"""Sums of committed inputs as a way to add up (`dhdmm.aggregation.method`), over another one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

from dhdmm.aggregation.errors import AbortReason, LocalProtocolError
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import Journal
from dhdmm.aggregation.method import (
    Checked,
    CountedRound,
    Lookup,
    PublishedSum,
    RoundTerms,
    Secrets,
    Store,
)
from dhdmm.aggregation.randomness import Randomness
from dhdmm.aggregation.roster import KnownRoster, Roster
from dhdmm.aggregation.wrapping import MethodOver, attach, detach
from dhdmm.validated.account import Account, check_account
from dhdmm.validated.coordinator import ValidatedCoordinator
from dhdmm.validated.counted import CountedAttachments
from dhdmm.validated.helper import ValidatedHelper, decode_question
from dhdmm.validated.participant import ValidatedParticipant
from dhdmm.validated.round import ValidatedRound
from dhdmm.validated.workers import faults_of

NOTHING_PROVED = (
    "that inputs are short, and that no survivor helped the coordinator to another sum: nothing is"
    " proved of single inputs with 'validation: sum'"
)
PROOFS_BELIEVED = (
    "that inputs are short: the coordinator says that it verified the proofs, which are only in a"
    " full transcript"
)


@dataclass(frozen=True)
class ValidatedSum(MethodOver):
    """Inputs are committed to and the sum is checked; `bounded`, inputs are proved to be short.

    Everything that is not about inputs is left to the way to add up `below`.
    """

    bounded: bool

    def round(self, parameters: Any, terms: RoundTerms) -> ValidatedRound:
        return ValidatedRound.over(self.below, parameters, terms, self.bounded)

    def participant(
        self,
        round: ValidatedRound,
        roster: KnownRoster,
        identity: Identity | None,
        position: int,
        randomness: Randomness,
        journal: Journal,
    ) -> ValidatedParticipant:
        below = partial(self.below.participant, round.below, roster, identity, position, randomness)
        return ValidatedParticipant(round, identity, position, randomness, journal, below)

    def coordinator(
        self,
        round: ValidatedRound,
        roster: Roster,
        randomness: Randomness,
        store: Store,
        shard: str = "only",
    ) -> ValidatedCoordinator:
        below = self.below.coordinator(round.below, roster, randomness, store, shard)
        faults = partial(faults_of, round.statement, os.urandom)
        return ValidatedCoordinator(round, roster, store, below, self.below, faults)

    def helper(
        self,
        round: ValidatedRound,
        roster: Roster,
        identity: Identity,
        randomness: Randomness,
        secrets: Secrets,
        journal: Journal,
    ) -> ValidatedHelper:
        below = self.below.helper(round.below, roster, identity, randomness, secrets, journal)
        faults = partial(faults_of, round.statement, os.urandom)
        return ValidatedHelper(round, roster, below, self.below.asked_about, faults)

    def recorded_helper(
        self, round: ValidatedRound, account: bytes | None
    ) -> Callable[[bytes], bytes]:
        said = Account.decode(account or b"").below
        below = self.below.recorded_helper(round.below, said)
        return lambda request: below(decode_question(request)[1])

    def asked_about(self, request: bytes) -> Sequence[int]:
        return self.below.asked_about(decode_question(request)[1])

    def largest_message(self, round: ValidatedRound) -> int:
        attached = round.input_bytes - round.below.input_bytes
        return attached + self.below.largest_message(round.below)

    def was_received(self, record: Lookup, data: bytes, position: int) -> bool:
        return self.below.was_received(record, detach(data)[1], position)

    def abort_message(self, round: ValidatedRound, position: int, reason: AbortReason) -> bytes:
        return attach(b"", self.below.abort_message(round.below, position, reason))

    def counted(self, round: ValidatedRound) -> CountedRound:
        return CountedAttachments(self.below.counted(round.below), self.phases, round)

    def simplified_participant(self, *_: object) -> NoReturn:
        raise LocalProtocolError("a coordinator that verifies inputs needs real participants")

    def check_account(
        self, round: ValidatedRound, roster: Roster, published: PublishedSum
    ) -> Checked:
        found = check_account(round, roster, published)
        if round.helped:
            said = Account.decode(published.account or b"")
            below = replace(published, account=said.below, scalar=said.blinding)
            helped = self.below.check_account(round.below, roster, below)
            found = replace(found, holds=[*found.holds, *helped.holds])
        if round.statement is None:
            return replace(found, open=[*found.open, NOTHING_PROVED])
        if not published.replayed:
            return replace(found, open=[*found.open, PROOFS_BELIEVED])
        bound = f"an input no longer than {round.statement.bound:,}"
        proved = f"{len(published.survivors):,} survivors proved to have {bound}"
        return replace(found, holds=[*found.holds, proved])
