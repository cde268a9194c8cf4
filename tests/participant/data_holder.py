"""One data holder as a driver would run it: what it is sent, what it pays, what leaves it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.aggregation.roster import Roster
from dhdmm.participant.policy import Policy, Review, review
from dhdmm.privacy.keystream import KeyStream
from dhdmm.privacy.ledger import Ledger
from dhdmm.privacy.protection import Protection
from dhdmm.session.participant import ParticipantSession
from tests.planning.studies import records
from tests.protocol.network import Stream, identity, roster_of

ROUND_ID = b"a round of tests"
ROSTER = roster_of(12)
POLICY = Policy(
    rosters=[ROSTER.digest.hex()], person_columns=["patient"], min_person_participants=2
)


@dataclass
class DataHolder:
    """Participant 0. It reviews the plan, reserves its price, and speaks."""

    ledger: Ledger
    policy: Policy = POLICY
    roster: Roster = ROSTER
    sent: list[bytes] = field(default_factory=list)
    journal: MemoryJournal = field(default_factory=MemoryJournal)

    @classmethod
    def with_budget(cls, path: Path) -> DataHolder:
        clock = lambda: datetime(2030, 1, 1, tzinfo=UTC)  # noqa: E731 - a fixed clock
        return cls(Ledger.create(path, Fraction(1), clock))

    def take_part(self, encoded: bytes, expected_digest: bytes | None = None) -> Review:
        reviewed = review(encoded, self.policy, self.roster, expected_digest=expected_digest)
        plan = reviewed.plan
        self.ledger.reserve(plan.digest, ROUND_ID, plan.rho, Protection.of(plan.study))
        session = ParticipantSession(
            reviewed,
            ROUND_ID,
            self.roster,
            0,
            identity(0),
            records(1),
            pay=lambda digest: self.ledger.debit(ROUND_ID, digest),
            randomness=Stream("data holder"),
            noise=lambda: KeyStream.from_key_for_tests(bytes(32)),
            journal=self.journal,
        )
        self.sent.append(session.begin())
        return reviewed

    @property
    def untouched(self) -> bool:
        """Nothing reserved, nothing debited, nothing said."""
        return [entry.kind for entry in self.ledger.entries()] == ["open"] and not self.sent
