"""Two servers as a way to add up (`dhdmm.aggregation.method`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, MalformedMessage
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import Journal
from dhdmm.aggregation.messages import HEADER_BYTES, VERSION
from dhdmm.aggregation.method import (
    Checked,
    Lookup,
    ParameterError,
    Phase,
    PublishedSum,
    RoundTerms,
)
from dhdmm.aggregation.randomness import Randomness
from dhdmm.aggregation.roster import KnownRoster, Roster
from dhdmm.twoservers import messages as m
from dhdmm.twoservers import round as numbers
from dhdmm.twoservers.account import Account, check_account
from dhdmm.twoservers.counted import CountedReports
from dhdmm.twoservers.leader import REPORTS, SETTLING, Leader, was_received
from dhdmm.twoservers.round import FIELDS, TwoServersParameters, TwoServersRound
from dhdmm.twoservers.sealing import Sealing

if TYPE_CHECKING:
    from dhdmm.twoservers.helper import Helper
    from dhdmm.twoservers.participant import Participant


@dataclass(frozen=True)
class TwoServers:
    """One message a participant; safe while one of leader and helper is honest."""

    sealing: Sealing = Sealing.HYBRID

    version = VERSION
    phases: tuple[Phase, ...] = (REPORTS, SETTLING)
    needs_pinned_roster = True
    has_helper = True
    announces_root = False
    parameter_names = FIELDS
    coordinator = Leader
    counted = CountedReports

    def choose(
        self, participants: int, corrupt_fraction: float, max_dropout: float
    ) -> TwoServersParameters:
        return numbers.choose(participants, corrupt_fraction, max_dropout)

    def check(
        self,
        parameters: TwoServersParameters,
        participants: int,
        corrupt_fraction: float,
        max_dropout: float,
    ) -> None:
        if parameters != self.choose(participants, corrupt_fraction, max_dropout):
            raise ParameterError("not the parameters that follow from the fractions")

    def parameters_of(self, fields: Mapping[str, int], participants: int) -> TwoServersParameters:
        return TwoServersParameters(**{name: fields[name] for name in FIELDS})

    def round(self, parameters: TwoServersParameters, terms: RoundTerms) -> TwoServersRound:
        return TwoServersRound(
            **terms.agreed(),
            minimum_survivors=parameters.minimum_survivors,
            helper=terms.helper,
            sealing=self.sealing,
        )

    def fewest_senders(self, round: TwoServersRound, phase: Phase) -> int:
        return round.minimum_survivors if phase.carries_input else 0

    def participant(
        self,
        round: TwoServersRound,
        roster: KnownRoster,
        identity: Identity | None,
        position: int,
        randomness: Randomness,
        journal: Journal,
    ) -> Participant:
        from dhdmm.twoservers.participant import Participant

        return Participant(round, identity, position, randomness, journal)

    @property
    def helper(self) -> type[Helper]:
        from dhdmm.twoservers.helper import Helper

        return Helper

    def recorded_helper(
        self, round: TwoServersRound, account: bytes | None
    ) -> Callable[[bytes], bytes]:
        recorded = Account.decode(account or b"")

        def answer(request: bytes) -> bytes:
            match asked := m.decode(request):
                case m.KeyRequest():
                    return recorded.key
                case m.Batch():
                    everybody = Bitmap.of(len(asked.reports), range(len(asked.reports)))
                    return m.Accepted(round.session, 0, everybody).encode()
                case m.Closing():
                    return recorded.answer
            raise MalformedMessage("not a question to a helper")

        return answer

    def asked_about(self, request: bytes) -> Sequence[int]:
        asked = m.decode(request)
        return [one.position for one in asked.reports] if isinstance(asked, m.Batch) else []

    def largest_message(self, round: TwoServersRound) -> int:
        return HEADER_BYTES + 8 + round.input_bytes + 64

    def carries_input(self, data: bytes) -> bool:
        return m.type_of(data) is m.Report

    def was_received(self, record: Lookup, data: bytes, position: int) -> bool:
        message = m.decode(data)
        if not isinstance(message, m.Report) or message.position != position:
            return False
        return was_received(record, message, data)

    def abort_message(self, round: TwoServersRound, position: int, reason: AbortReason) -> bytes:
        return m.Aborted(round.session, position, reason).encode()

    def simplified_participant(self, *_: object) -> NoReturn:
        raise LocalProtocolError("participants of two servers have no simplified ones")

    def check_account(
        self, round: TwoServersRound, roster: Roster, published: PublishedSum
    ) -> Checked:
        return check_account(round, published)
