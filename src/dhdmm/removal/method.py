"""Sums without excess noise as a way to add up (`dhdmm.aggregation.method`), over another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

import numpy as np

from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import Journal
from dhdmm.aggregation.method import (
    Checked,
    CountedRound,
    Lookup,
    PublishedSum,
    RoundTerms,
    Store,
    WithoutHelper,
)
from dhdmm.aggregation.randomness import Randomness
from dhdmm.aggregation.roster import KnownRoster, Roster
from dhdmm.aggregation.wrapping import MethodOver, attach, detach
from dhdmm.privacy.removable import SEED_BYTES, RemovableNoise
from dhdmm.removal.account import Account
from dhdmm.removal.coordinator import REMOVED, RemovingCoordinator
from dhdmm.removal.counted import CountedRemoval
from dhdmm.removal.participant import RemovingParticipant
from dhdmm.removal.round import RemovingRound

BELIEVED = (
    "that this noise was removed: the coordinator says who sent seeds for it, and only a full"
    " transcript has what they sent"
)


@dataclass(frozen=True)
class RemovedExcess(WithoutHelper, MethodOver):
    """Noise is added for the fewest survivors, and removed again as far as there are more.

    Everything that is not about noise is left to the way to add up `below`.
    """

    def round(self, parameters: Any, terms: RoundTerms) -> RemovingRound:
        floor, fewest = parameters.honest_floor, parameters.minimum_survivors
        noise = RemovableNoise(terms.noise_variance, terms.participants, fewest, floor)
        return RemovingRound(self.below.round(parameters, terms), noise)

    def participant(
        self,
        round: RemovingRound,
        roster: KnownRoster,
        identity: Identity | None,
        position: int,
        randomness: Randomness,
        journal: Journal,
    ) -> RemovingParticipant:
        below = partial(self.below.participant, round.below, roster, identity, position, randomness)
        return RemovingParticipant(round, randomness, journal, below)

    def coordinator(
        self,
        round: RemovingRound,
        roster: Roster,
        randomness: Randomness,
        store: Store,
        shard: str = "only",
    ) -> RemovingCoordinator:
        below = self.below.coordinator(round.below, roster, randomness, store, shard)
        return RemovingCoordinator(round, self.phases[-1], store, below)

    def largest_message(self, round: RemovingRound) -> int:
        seeds = attach(bytes(SEED_BYTES * round.noise.parts), b"")
        return len(seeds) + self.below.largest_message(round.below)

    def was_received(self, record: Lookup, data: bytes, position: int) -> bool:
        seeds, message = detach(data)
        same = not seeds or record(REMOVED + str(position)) == seeds
        return same and self.below.was_received(record, message, position)

    def abort_message(self, round: RemovingRound, position: int, reason: AbortReason) -> bytes:
        return self.below.abort_message(round.below, position, reason)

    def counted(self, round: RemovingRound) -> CountedRound:
        return CountedRemoval(self.below.counted(round.below), self.phases, round)

    def simplified_participant(self, *_: object) -> NoReturn:
        raise LocalProtocolError("simplified participants have no noise that could be removed")

    def check_account(
        self, round: RemovingRound, roster: Roster, published: PublishedSum
    ) -> Checked:
        """The sum with the removed noise put back is what the way below knows of."""
        account, survivors = Account.decode(published.account or b""), published.survivors
        parts, members = round.removed(len(survivors)), account.removed.members()
        _require(account.removed.size == round.participants, "a bitmap of another roster")
        _require(parts != () or not members, "noise was removed where none was in excess")
        _require(set(members) <= set(survivors.members()), "somebody who is not in the sum")
        whole = published.measurement
        if account.below is not None:
            whole = _put_back(round, parts, account, whole)
        below = replace(published, measurement=whole, account=account.below)
        found = self.below.check_account(round.below, roster, below)
        said = (
            f"{len(members):,} of {len(survivors):,} survivors removed excess noise"
            if parts
            else "no noise was in excess with so few survivors"
        )
        return Checked(
            [*found.holds, said],
            [*found.open, *([BELIEVED] if members and not published.replayed else [])],
            tuple(i for i in survivors.members() if parts and i not in account.removed),
        )


def _put_back(
    round: RemovingRound, parts: tuple[int, ...], account: Account, measurement: Sequence[int]
) -> list[int]:
    modulus, each = round.modulus, SEED_BYTES * len(parts)
    count, seeds = len(account.removed), account.seeds
    _require(len(seeds) == count * each, "not the seeds of everybody who removed noise")
    total = modulus.residues(np.array(measurement, np.int64))
    for at in range(0, len(seeds), each or 1):
        modulus.add(total, round.expanded(parts, seeds[at : at + each]))
    whole: list[int] = modulus.signed(total).tolist()
    return whole


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RemoteProtocolError(AbortReason.MALFORMED, otherwise)
