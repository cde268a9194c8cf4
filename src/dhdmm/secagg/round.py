"""What everybody agrees on before a round: who takes part, and the numbers of the plan.

The session id is SHA-256 of the label, plan digest, round id, threat model and roster digest; it is
bound into every key derivation, ciphertext, MAC, signature and message.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from dhdmm.aggregation.derivation import session_of
from dhdmm.aggregation.errors import LocalProtocolError
from dhdmm.aggregation.method import AgreedTerms, ThreatModel


@dataclass(frozen=True, kw_only=True)
class RoundParameters(AgreedTerms):
    """One round of one plan. `degree` is k, `threshold` t, `minimum_survivors` u_min.

    That (k, t) are safe for n, the corrupt fraction and the dropout is checked with
    `dhdmm.secagg.parameters`; here only what no protocol run can do without.
    """

    threat_model: ThreatModel
    degree: int
    threshold: int
    minimum_survivors: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 3 <= self.participants < 2**31 - 1:
            raise LocalProtocolError("a round needs three participants")
        if not 1 <= self.threshold <= self.degree < self.participants:
            raise LocalProtocolError("1 ≤ threshold ≤ degree < participants does not hold")
        if not 2 <= self.minimum_survivors <= self.participants:
            raise LocalProtocolError("a sum over fewer than two survivors is not a sum")
        if self.malicious and 2 * self.threshold <= self.degree:
            # two disjoint sets of t holders could give out both secrets of one participant
            raise LocalProtocolError("the malicious model needs 2·threshold > degree")

    @property
    def malicious(self) -> bool:
        return self.threat_model is ThreatModel.MALICIOUS

    @property
    def input_bytes(self) -> int:
        return self.group.packed_size

    @cached_property
    def session(self) -> bytes:
        return session_of(self.plan_digest, self.round_id, self.threat_model, self.roster_digest)


def session_under_root(session: bytes, root: bytes) -> bytes:
    """session' = H(session ‖ root): participants who were shown different roots share no keys."""
    return hashlib.sha256(b"dhdmm session under root 1" + session + root).digest()
