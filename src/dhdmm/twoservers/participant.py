"""A participant of a round with two servers: it is told one key, and says one thing."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from numpy.typing import NDArray

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.identity import Identity, signature_holds
from dhdmm.aggregation.journal import Journal
from dhdmm.aggregation.randomness import Randomness
from dhdmm.twoservers import messages as m
from dhdmm.twoservers import shares
from dhdmm.twoservers.round import TwoServersRound
from dhdmm.twoservers.sealing import PublicKey, number_of

_MEMORY = b"dhdmm participant 1 two-servers"


class Participant:
    """One participant, one round, once. Nothing secret is kept: what is sent cannot be taken back
    and need not be understood again."""

    def __init__(
        self,
        round: TwoServersRound,
        identity: Identity | None,
        position: int,
        randomness: Randomness,
        journal: Journal,
    ) -> None:
        if identity is None:
            raise LocalProtocolError("reports are signed: a participant needs an identity")
        self._round, self._identity, self._position = round, identity, position
        self._randomness, self._journal = randomness, journal
        self._key: PublicKey | None = None
        self.outgoing: bytes | None = None
        self.round_aborted: AbortReason | None = None
        self.root: bytes | None = None
        self.survivors: Bitmap | None = None
        self._resume()

    def _resume(self) -> None:
        kept = self._journal.read()
        if kept is None:
            return
        if kept[0] != self._memory:
            raise LocalProtocolError("the journal is not of this round and participant")
        self.outgoing = kept[1]

    @property
    def _memory(self) -> bytes:
        return _MEMORY + self._round.session + self._position.to_bytes(4, "big")

    @property
    def ready_for_input(self) -> bool:
        return self._key is not None and self.outgoing is None

    @property
    def input_is_outgoing(self) -> bool:
        return self.outgoing is not None and m.type_of(self.outgoing) is m.Report

    @property
    def over(self) -> bool:
        return self.outgoing is not None

    @property
    def abort_reason(self) -> AbortReason | None:
        message = None if self.outgoing is None else m.decode(self.outgoing)
        return message.reason if isinstance(message, m.Aborted) else None

    @property
    def progress(self) -> str:
        if self.over:
            return "Reports: ours is sent, with noise; we have said all there is to say"
        return "Reports: waiting for the helper's key"

    def begin(self) -> None:
        """It waits to be told the helper's key."""

    def receive(self, data: bytes) -> bytes | None:
        message = m.decode(data)
        if message.session != self._round.session or message.position != self._position:
            raise RemoteProtocolError(AbortReason.WRONG_SESSION, status_hint=409)
        match message:
            case m.Aborted():
                self.round_aborted = message.reason
                return self.outgoing if self.over else self.abort(message.reason)
            case m.HelperKey() if self.outgoing is None:
                self._key = self._verified(message)
                return None
            case m.HelperKey():
                return self.outgoing
        raise RemoteProtocolError(AbortReason.WRONG_PHASE, status_hint=409)

    def give_input(self, vector: NDArray[Any], scalar: int = 0) -> bytes:
        """y = share_L + share_H: the former, and the sealed seed of the latter. It must be paid for
        before it leaves."""
        round, session, i = self._round, self._round.session, self._position
        if self._key is None or self.outgoing is not None:
            raise LocalProtocolError("the helper's key is not known, or the report is sent")
        share, seed = round.group.element(vector, scalar), self._randomness(shares.SEED_BYTES)
        shares.add_helper_share(round.group, share, session, i, seed, -1)
        packed = round.group.pack(share)
        sealed = self._key.seal(seed, shares.seal_info(session, i))
        said = shares.report_statement(session, i, sealed, sha256(packed).digest())
        return self._send(m.Report(session, i, sealed, packed, self._identity.sign(said)))

    def abort(self, reason: AbortReason) -> bytes:
        """Leave for good; what was said before stays said."""
        return self._send(m.Aborted(self._round.session, self._position, reason))

    def agree_also(self, said: bytes) -> None:
        """Nobody is told of survivors: both servers check them."""

    def computed(self) -> bytes:
        return b""

    def reuse(self, computed: bytes) -> None:
        """There is nothing to compute again."""

    def _verified(self, message: m.HelperKey) -> PublicKey:
        sealing = self._round.sealing
        said = shares.key_statement(self._round.session, number_of(sealing), message.key)
        if not signature_holds(self._round.helper, said, message.signature):
            raise RemoteProtocolError(AbortReason.BAD_SIGNATURE, "of the helper's key")
        return PublicKey(sealing, message.key)

    def _send(self, message: m.Message) -> bytes:
        data = message.encode()
        self._journal.write(self._memory, data)
        self.outgoing = data
        return data
