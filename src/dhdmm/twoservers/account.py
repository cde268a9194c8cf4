"""What a transcript says of the helper, and what anybody can check of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhdmm.aggregation import wire
from dhdmm.aggregation.errors import AbortReason, MalformedMessage, RemoteProtocolError
from dhdmm.aggregation.group import Element
from dhdmm.aggregation.identity import signature_holds
from dhdmm.aggregation.method import Checked, PublishedSum
from dhdmm.twoservers import messages as m
from dhdmm.twoservers import shares
from dhdmm.twoservers.round import TwoServersRound
from dhdmm.twoservers.sealing import number_of

_BLOB = wire.Blob()
HONEST_SERVERS = (
    "that neither server falsified its share of the sum: without validation of inputs nobody can"
    " see it"
)


@dataclass(frozen=True)
class Account:
    """The helper's signed key, the salt of the leader's commitment, the helper's signed sum."""

    key: bytes
    salt: bytes
    answer: bytes

    def encode(self) -> bytes:
        return b"".join(map(_BLOB.encode, (self.key, self.salt, self.answer)))

    @classmethod
    def decode(cls, encoded: bytes) -> Account:
        reader = wire.Reader(encoded)
        account = cls(*(_BLOB.decode(reader) for _ in range(3)))
        reader.finish()
        return account

    def read(self) -> tuple[m.HelperKey, m.HelperSum]:
        key, answer = m.decode(self.key), m.decode(self.answer)
        if not isinstance(key, m.HelperKey) or not isinstance(answer, m.HelperSum):
            raise MalformedMessage("not an account of two servers")
        return key, answer


def check_account(round: TwoServersRound, published: PublishedSum) -> Checked:
    """The helper signed its key, and its sum under the leader's commitment to the other sum."""
    account = Account.decode(published.account or b"")
    key, answer = account.read()
    group, session = round.group, round.session
    _require({key.session, answer.session} == {session}, "messages of another round")
    said = shares.key_statement(session, number_of(round.sealing), key.key)
    _require(signature_holds(round.helper, said, key.signature), "the key is not the helper's")
    residues = group.modulus.residues(np.array(published.measurement, np.int64))
    leader_sum = Element(residues, published.scalar)
    group.subtract(leader_sum, group.unpack(answer.vector))
    commitment = shares.leader_commitment(session, account.salt, group.pack(leader_sum))
    said = shares.sum_statement(session, commitment, answer.root, answer.vector)
    _require(
        signature_holds(round.helper, said, answer.signature),
        "the helper has not signed this sum",
    )
    holds = (
        f"the helper {round.helper.hex()[:16]}… signed its half of the sum over"
        f" {len(published.survivors):,} reports, when the leader was committed to the other"
    )
    return Checked([holds], [HONEST_SERVERS])


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RemoteProtocolError(AbortReason.SUM_MISMATCH, otherwise)
