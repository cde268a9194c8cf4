"""What participants are sent before the first phase and after the last, as the service makes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from dhdmm import formats
from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.merkle import NODE_BYTES
from dhdmm.aggregation.roster import Roster
from dhdmm.network.compressed import compress
from dhdmm.network.offer import Offer, Place
from dhdmm.network.roster import RosterFile
from dhdmm.planning.calibrate import participants_allowed
from dhdmm.planning.draft import Draft
from dhdmm.planning.plan import Plan, terms_of
from dhdmm.release.made import Made
from dhdmm.release.receipt import Receipt
from dhdmm.release.release import Release
from dhdmm.release.transcript import Account, PhaseRecord, Transcript
from dhdmm.simulation.population import name_of

SOME_DATE = "2000-01-01T00:00:00Z"
"""A simulated round has no date, and a real one has: all are as long."""


def draft_bytes(plan: Plan) -> int:
    """Of the draft that everybody reviews, compressed."""
    fewest, _ = participants_allowed(plan.study.aggregation)
    return len(compress(Draft.of(plan).plan(fewest).to_bytes()))


def joining_bytes(plan: Plan, roster: Roster) -> list[int]:
    """Of the draft, and of each participant's offer; the roster has no registrar."""
    draft, terms, file = draft_bytes(plan), terms_of(plan), RosterFile(roster)
    first = plan.method.phases[0].name
    offers = (Offer(first, None, terms, Place.on(file, i)) for i in range(len(roster)))
    return [draft + len(offer.to_bytes()) for offer in offers]


def drawn_joining_bytes(plan: Plan) -> int:
    """The same for the last of participants that nobody has made."""
    n, first = plan.participants, plan.method.phases[0].name
    place = Place(n - 1, name_of(n), bytes(NODE_BYTES * _depth(n)), None, None, None)
    return draft_bytes(plan) + len(Offer(first, None, terms_of(plan), place).to_bytes())


def drawn_receipt_bytes(plan: Plan, round_id: bytes) -> int:
    """Of a receipt of two who took part, with a longer path."""
    two, digest = Bitmap.of(2, [0, 1]), bytes(32)
    unchecked = plan.study.aggregation.validation == "none"
    account = Account(
        version=formats.TRANSCRIPT.writes,
        made=Made.here(plan, SOME_DATE),
        protocol=plan.method.version,
        round_id=round_id,
        session=plan.round(round_id).session,
        coins_digest=digest,
        plan=plan.to_bytes(),
        roster=Roster(("one", "other"), (bytes(32), bytes([1]) * 32)),
        phases=tuple(PhaseRecord(phase.name, two, (digest,) * 2) for phase in plan.method.phases),
        root=digest if plan.method.announces_root else None,
        inputs=None if unchecked and not plan.method.has_helper else digest,
        measurement=np.zeros(plan.strategy.rows, np.int64),
    )
    sealed = Transcript.seal(account, Identity(digest))
    further = NODE_BYTES * (_depth(plan.participants) - 1)
    return len(Receipt.of(sealed, 0).to_bytes()) + further


def _depth(participants: int) -> int:
    return (participants - 1).bit_length()


def receipt_bytes(release: Release, positions: Iterable[int]) -> list[int]:
    """Of each one's receipt, as of a round with a date."""
    assert release.transcript is not None
    account = release.transcript.account
    dated = replace(account, made=replace(account.made, date=SOME_DATE))
    sealed = Transcript.seal(dated, Identity(bytes(32)))
    return [len(Receipt.of(sealed, int(i)).to_bytes()) for i in positions]
