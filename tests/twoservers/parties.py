"""All parties of a small round with two servers, as machines, and their weakened variants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import MemoryJournal, MemorySecrets
from dhdmm.aggregation.modulus import Modulus, SumRange
from dhdmm.aggregation.roster import Roster
from dhdmm.twoservers import messages as m
from dhdmm.twoservers.helper import Helper
from dhdmm.twoservers.leader import Leader
from dhdmm.twoservers.participant import Participant
from dhdmm.twoservers.round import TwoServersRound
from dhdmm.twoservers.sealing import Sealing
from tests.vectors.make_secagg_primitives import Stream

COUNT, LENGTH, MODULUS = 6, 5, Modulus(2**20)
RANGES = SumRange(2, -100, 15), SumRange(2, 0, 16), SumRange(1, -(2**19), 20)
"""In which the sums of all inputs, or of fewer, lie."""


@dataclass
class Parties:
    """Six participants of whom five must remain, with inputs that are known to the tests."""

    seed: str = "parties"
    count: int = COUNT
    minimum: int = 5
    sealing: Sealing = Sealing.X25519
    make_helper: Callable[..., Helper] = Helper
    make_leader: Callable[..., Leader] = Leader
    make_participant: Callable[..., Participant] = Participant
    store: dict[str, bytes] = field(default_factory=dict)
    secrets: Any = field(default_factory=MemorySecrets)
    journal: Any = field(default_factory=MemoryJournal)
    ranges: tuple[SumRange, ...] = ()

    def __post_init__(self) -> None:
        self.random = Stream(self.seed)
        self.identities = [Identity.generate(self.random) for _ in range(self.count)]
        self.helper_identity = Identity.generate(self.random)
        names = tuple(f"p{i}" for i in range(self.count))
        self.roster = Roster(names, tuple(one.public for one in self.identities))
        self.round = TwoServersRound(
            plan_digest=sha256(self.seed.encode()).digest(),
            round_id=bytes(16),
            roster_digest=self.roster.digest,
            participants=self.count,
            minimum_survivors=self.minimum,
            modulus=MODULUS,
            length=LENGTH,
            sum_ranges=self.ranges,
            helper=self.helper_identity.public,
            sealing=self.sealing,
        )
        self.inputs = [np.arange(LENGTH) * (i + 1) + pow(7, i, 1000) for i in range(self.count)]
        self.helper, self.leader = self.restarted_helper(), self.restarted_leader()

    def restarted_helper(self, **changes: Any) -> Helper:
        given = {"secrets": self.secrets, "journal": self.journal} | changes
        return self.make_helper(
            self.round, self.roster, self.helper_identity, self.random, *given.values()
        )

    def restarted_leader(self) -> Leader:
        return self.make_leader(self.round, self.roster, self.random, self.store)

    def key(self, position: int) -> bytes:
        """What a participant is told at first."""
        self.consult(until=lambda: self.leader.message_for(position) is not None)
        message = self.leader.message_for(position)
        assert message is not None
        return message

    def participant(self, position: int, journal: MemoryJournal | None = None) -> Participant:
        return self.make_participant(
            self.round,
            self.identities[position],
            position,
            self.random,
            journal or MemoryJournal(),
        )

    def report(self, position: int) -> bytes:
        machine = self.participant(position)
        assert machine.begin() is None
        assert machine.receive(self.key(position)) is None
        return machine.give_input(self.inputs[position])

    def take(self, *positions: int) -> None:
        for position in positions:
            self.leader.receive(position, self.report(position))

    def consult(self, until: Callable[[], bool] = lambda: False) -> None:
        while not until() and (request := self.leader.to_helper()) is not None:
            self.leader.from_helper(request, self.helper.answer(request))

    def finish(self) -> None:
        self.leader.close_phase()
        self.consult()
        self.leader.close_phase()

    def total(self, positions: list[int]) -> list[int]:
        return (sum(self.inputs[i] for i in positions) % MODULUS.value).tolist()

    def batch(self, *reports: bytes) -> bytes:
        """A leader that lies says this to the helper."""
        read = [m.decode(report) for report in reports]
        listed = [m.Reported(r.position, sha256(r.vector).digest(), r.signature) for r in read]
        sealed = b"".join(r.sealed for r in read)
        return m.Batch(self.round.session, 0, listed, sealed).encode()

    def closing(self, positions: list[int]) -> bytes:
        members = Bitmap.of(self.count, positions)
        return m.Closing(self.round.session, 0, members, bytes(32)).encode()

    def accepted(self, batch: bytes) -> tuple[int, ...]:
        answer = m.decode(self.helper.answer(batch))
        assert isinstance(answer, m.Accepted)
        return answer.accepted.members()

    def of_another_round(self, **changes: Any) -> Parties:
        """The same people in a round that differs in something."""
        other = Parties(
            self.seed, self.count, self.minimum, self.sealing, self.make_helper, self.make_leader
        )
        other.round = replace(self.round, **changes)
        other.store, other.secrets, other.journal = {}, MemorySecrets(), MemoryJournal()
        other.helper, other.leader = other.restarted_helper(), other.restarted_leader()
        return other
