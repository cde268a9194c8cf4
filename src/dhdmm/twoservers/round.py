"""The numbers of a round with two servers: no graph, no degree, no threshold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dhdmm.aggregation.derivation import session_of
from dhdmm.aggregation.errors import LocalProtocolError
from dhdmm.aggregation.method import AgreedTerms, ParameterError, ThreatModel
from dhdmm.aggregation.turnout import counts
from dhdmm.twoservers.sealing import Sealing, sealed_bytes
from dhdmm.twoservers.shares import SEED_BYTES

FIELDS = ("minimum_survivors", "corrupt")


@dataclass(frozen=True)
class TwoServersParameters:
    """u_min and c of docs/parameters.md."""

    minimum_survivors: int
    corrupt: int

    @property
    def honest_floor(self) -> int:
        """h = u_min − c: every survivor has signed, so there are no phantoms."""
        return self.minimum_survivors - self.corrupt

    def fields(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in FIELDS}


def choose(participants: int, corrupt_fraction: float, max_dropout: float) -> TwoServersParameters:
    """The only ones that follow from the fractions."""
    corrupt, survivors = counts(participants, corrupt_fraction, max_dropout)
    chosen = TwoServersParameters(survivors, corrupt)
    if chosen.honest_floor < 2:
        raise ParameterError(
            f"of {survivors} survivors among {participants} participants {corrupt} may be corrupt:"
            " no two honest ones are certain to remain; lower 'max_dropout' or 'corrupt_fraction',"
            " or ask more participants"
        )
    return chosen


@dataclass(frozen=True, kw_only=True)
class TwoServersRound(AgreedTerms):
    """One round of one plan; `helper` is the helper's Ed25519 identity."""

    minimum_survivors: int
    helper: bytes
    sealing: Sealing

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.helper) != 32:
            raise LocalProtocolError("a helper's key has 32 bytes")
        if not 2 <= self.minimum_survivors <= self.participants:
            raise LocalProtocolError("a sum over fewer than two survivors is not a sum")

    @cached_property
    def session(self) -> bytes:
        model = ThreatModel.TWO_SERVERS
        return session_of(self.plan_digest, self.round_id, model, self.roster_digest)

    @property
    def sealed_bytes(self) -> int:
        return sealed_bytes(self.sealing, SEED_BYTES)

    @property
    def input_bytes(self) -> int:
        return self.group.packed_size + self.sealed_bytes
