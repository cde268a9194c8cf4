"""The helper: it opens seeds, adds up their shares, and answers once.

What it must keep through a restart and may never give back from a backup is in its `Secrets`: the
key of the round, the sum, and whose reports are in it. What may be in a backup is in its journal:
the signed key and, in the end, the signed answer. The answer is journalled and the secrets are
erased before it leaves.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.group import Element
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import Journal
from dhdmm.aggregation.method import Secrets
from dhdmm.aggregation.randomness import Randomness
from dhdmm.aggregation.roster import Roster
from dhdmm.twoservers import messages as m
from dhdmm.twoservers import shares
from dhdmm.twoservers.reports import Reports, require_signed
from dhdmm.twoservers.round import TwoServersRound
from dhdmm.twoservers.sealing import SecretKey, number_of

LARGEST_BATCH = 1000
_KEY, _SUM, _BATCH = "key", "sum", "batch/"
_OPEN, _ANSWERED = b"open", b"answered"


class Helper:
    """One round, one key, one answer; if journal and secrets know the round, it goes on."""

    def __init__(
        self,
        round: TwoServersRound,
        roster: Roster,
        identity: Identity,
        randomness: Randomness,
        secrets: Secrets,
        journal: Journal,
    ) -> None:
        if round.roster_digest not in roster.fingerprints or len(roster) != round.participants:
            raise LocalProtocolError("not the roster of this round")
        if identity.public != round.helper:
            raise LocalProtocolError("the plan names another helper")
        self._round, self._roster, self._identity = round, roster, identity
        self._secrets, self._journal = secrets, journal
        self._answer: bytes | None = None
        self._key: SecretKey | None = None
        self._reports = Reports(round.participants)
        self._sum = round.group.zero()
        self._batches = self.refused = 0
        known = journal.read()
        if known is None:
            self._open(randomness)
        else:
            self._resume(*known)

    @property
    def accepted(self) -> int:
        """How many reports are in the sum."""
        return self._reports.count

    @property
    def answered(self) -> bool:
        return self._answer is not None

    def answer(self, request: bytes, refused: Collection[int] = ()) -> bytes:
        """To the leader, or `RemoteProtocolError`; a request again is answered the same.

        New reports of those who are `refused` are not accepted.
        """
        message = m.decode(request)
        if message.session != self._round.session:
            raise RemoteProtocolError(AbortReason.WRONG_SESSION, status_hint=409)
        match message:
            case m.KeyRequest():
                return self._key_message
            case m.Batch():
                return self._accept(message, refused)
            case m.Closing():
                return self._close(message)
        raise RemoteProtocolError(AbortReason.WRONG_PHASE, status_hint=409)

    # The key

    def _open(self, randomness: Randomness) -> None:
        """A key of its own; what is left of a key that the journal knows nothing of is erased."""
        self._secrets.erase()
        self._key = SecretKey.generate(self._round.sealing, randomness)
        self._secrets.save({_KEY: self._key.secret, _SUM: self._round.group.dump(self._sum)})
        said = shares.key_statement(
            self._round.session, number_of(self._round.sealing), self._key.public
        )
        message = m.HelperKey(self._round.session, 0, self._key.public, self._identity.sign(said))
        self._key_message = message.encode()
        self._journal.write(_OPEN, self._key_message)

    def _resume(self, state: bytes, kept: bytes) -> None:
        if state == _ANSWERED:
            self._secrets.erase()
            self._key_message, self._answer = b"", kept
            return
        self._key_message, secrets = kept, self._secrets.load()
        if _KEY not in secrets:
            return  # restored from a backup: the round is lost, and says so when it is asked
        key = SecretKey(self._round.sealing, secrets[_KEY])
        known = m.decode(kept)
        assert isinstance(known, m.HelperKey)
        if key.public != known.key:
            raise LocalProtocolError("the helper's secrets are of another key")
        self._key = key
        self._sum = self._round.group.load(secrets[_SUM])
        for name, record in secrets.items():
            if name.startswith(_BATCH):
                self._reports.recall(record)
                self._batches += 1

    # Reports

    def _accept(self, batch: m.Batch, refused: Collection[int]) -> bytes:
        self._require_open()
        if len(batch.reports) > LARGEST_BATCH:
            raise RemoteProtocolError(AbortReason.MALFORMED, "too many reports in a batch")
        size = self._round.sealed_bytes
        if len(batch.sealed) != size * len(batch.reports):
            raise RemoteProtocolError(AbortReason.MALFORMED, "not a sealed seed for each report")
        total, new, accepted = self._sum.copy(), list[tuple[int, bytes]](), []
        for index, reported in enumerate(batch.reports):
            sealed = batch.sealed[size * index : size * (index + 1)]
            may = reported.position not in refused or reported.position in self._reports
            accepted.append(may and self._takes(reported, sealed, total, new))
        if new:
            name = f"{_BATCH}{self._batches}"
            dumped = self._round.group.dump(total)
            self._secrets.save({name: self._reports.record(new), _SUM: dumped})
            self._batches += 1
            self._reports.add(new)
            self._sum = total
        self.refused += accepted.count(False)
        flags = Bitmap.from_array(np.array(accepted, np.bool_))
        return m.Accepted(self._round.session, 0, flags).encode()

    def _takes(
        self,
        reported: m.Reported,
        sealed: bytes,
        total: Element,
        new: list[tuple[int, bytes]],
    ) -> bool:
        """Whether this report is in the sum, as one that was added before or is now."""
        session, position = self._round.session, reported.position
        if not 0 <= position < self._round.participants:
            return False
        known = self._reports.hash_at(position)
        if known is not None:
            return known == shares.report_hash(session, reported, sealed)
        try:
            require_signed(session, reported, sealed, self._roster.identities[position])
            seed = self._opened(sealed, position)
        except RemoteProtocolError:
            return False
        shares.add_helper_share(self._round.group, total, session, position, seed, 1)
        new.append((position, shares.report_hash(session, reported, sealed)))
        return True

    def _opened(self, sealed: bytes, position: int) -> bytes:
        assert self._key is not None
        seed = self._key.open(sealed, shares.seal_info(self._round.session, position))
        if len(seed) != shares.SEED_BYTES:
            raise RemoteProtocolError(AbortReason.BAD_CIPHERTEXT, "a seed of another length")
        return seed

    def _require_open(self) -> None:
        if self._answer is not None:
            raise RemoteProtocolError(
                AbortReason.WRONG_PHASE, "the round is answered", status_hint=409
            )
        if self._key is None:
            raise RemoteProtocolError(AbortReason.LOST_KEY, status_hint=409)

    # The answer

    def _close(self, closing: m.Closing) -> bytes:
        if self._answer is not None:
            return self._same_answer(closing)
        self._require_open()
        if closing.members != self._reports.members:
            raise RemoteProtocolError(
                AbortReason.SECOND_BITMAP, "not those whose reports were accepted", status_hint=409
            )
        if len(closing.members) < self._round.minimum_survivors:
            raise RemoteProtocolError(AbortReason.TOO_FEW_PARTICIPANTS, status_hint=409)
        session, root = self._round.session, self._reports.root
        packed = self._round.group.pack(self._sum)
        said = shares.sum_statement(session, closing.commitment, root, packed)
        answer = m.HelperSum(session, 0, root, packed, self._identity.sign(said)).encode()
        self._journal.write(_ANSWERED, closing.commitment + closing.members.data + answer)
        self._secrets.erase()
        self._key = None
        self._answer = closing.commitment + closing.members.data + answer
        return answer

    def _same_answer(self, closing: m.Closing) -> bytes:
        """To the same question only."""
        assert self._answer is not None
        asked = closing.commitment + closing.members.data
        if closing.members.size != self._round.participants or not self._answer.startswith(asked):
            raise RemoteProtocolError(
                AbortReason.SECOND_BITMAP, "the round is answered", status_hint=409
            )
        return self._answer[len(asked) :]
