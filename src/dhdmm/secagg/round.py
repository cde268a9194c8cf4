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
from dhdmm.aggregation.group import Group
from dhdmm.aggregation.method import ThreatModel
from dhdmm.aggregation.modulus import Modulus


@dataclass(frozen=True)
class RoundParameters:
    """One round of one plan. `degree` is k, `threshold` t, `minimum_survivors` u_min.

    That (k, t) are safe for n, the corrupt fraction and the dropout is checked with
    `dhdmm.secagg.parameters`; here only what no protocol run can do without.
    """

    plan_digest: bytes
    round_id: bytes
    threat_model: ThreatModel
    roster_digest: bytes
    participants: int
    degree: int
    threshold: int
    minimum_survivors: int
    modulus: Modulus
    length: int
    scalar_modulus: int = 1

    def __post_init__(self) -> None:
        sizes = len(self.plan_digest), len(self.round_id), len(self.roster_digest)
        if sizes != (32, 16, 32):
            raise LocalProtocolError(
                "a plan digest has 32 bytes, a round id 16, a roster digest 32"
            )
        if not 3 <= self.participants < 2**31 - 1 or self.length < 1:
            raise LocalProtocolError("a round needs three participants and one coordinate")
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

    @cached_property
    def group(self) -> Group:
        """In which inputs are added up."""
        return Group(self.modulus, self.length, self.scalar_modulus)

    @property
    def input_bytes(self) -> int:
        return self.group.packed_size

    @cached_property
    def session(self) -> bytes:
        return session_of(self.plan_digest, self.round_id, self.threat_model, self.roster_digest)


def session_under_root(session: bytes, root: bytes) -> bytes:
    """session' = H(session ‖ root): participants who were shown different roots share no keys."""
    return hashlib.sha256(b"dhdmm session under root 1" + session + root).digest()
