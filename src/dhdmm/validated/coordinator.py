"""A coordinator that adds up only inputs with a valid proof, and gives only a sum that was
committed to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from functools import cached_property
from hashlib import sha256

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.method import (
    ABORTED,
    PENDING,
    STATE,
    Aggregate,
    CoordinatorMachine,
    Method,
    Reply,
    Store,
    input_phase,
)
from dhdmm.aggregation.roster import Roster
from dhdmm.aggregation.wrapping import CoordinatorOver, attach, detach
from dhdmm.validated.account import Account
from dhdmm.validated.attachments import (
    SignedCommitment,
    agreement_holds,
    read_input,
    root_of,
)
from dhdmm.validated.helper import claim_of, decode_question, encode_question
from dhdmm.validated.round import ValidatedRound
from dhdmm.validation.commitment import sum_is_committed
from dhdmm.validation.group import decode_point
from dhdmm.validation.verification import Claim

CLAIM, AGREED, REFUSED = "claim/", "agreed/", "refused/"
"""Names in the store, before a position: of signed commitments, of signatures of their root, and
of why an input was refused."""

_WAITING, _HASH_BYTES = f"{PENDING}claim/", 32
"""Of what was attached to an input that the helper has yet to accept, behind the input's hash."""

Faults = Callable[[list[Claim]], dict[int, str]]


class ValidatedCoordinator(CoordinatorOver):
    """The coordinator of one round, around the machine of the way to add up below."""

    def __init__(
        self,
        round: ValidatedRound,
        roster: Roster,
        store: Store,
        below: CoordinatorMachine,
        method: Method,
        faults: Faults,
    ) -> None:
        self._round, self._roster, self._store, self.below = round, roster, store, below
        self._carries_input, self._input_phase = method.carries_input, input_phase(method).name
        self._faults, self._asked_about = faults, method.asked_about
        self._verdicts: dict[tuple[int, bytes], str | None] = {}
        self._refused = set(self._noted(REFUSED))
        self._mismatch = False

    @property
    def state(self) -> str:
        return ABORTED.name if self._mismatch else self.below.state

    @property
    def awaited(self) -> Set[int]:
        """Nobody waits for those whose inputs were refused, though they may send others."""
        awaited = self.below.awaited
        if self._refused and self.state == self._input_phase:
            return awaited - self._refused
        return awaited

    @property
    def abort_reason(self) -> AbortReason | None:
        return AbortReason.SUM_MISMATCH if self._mismatch else self.below.abort_reason

    @property
    def result(self) -> Aggregate | None:
        found = None if self._mismatch else self.below.result
        return found and Aggregate(found.survivors, found.total)

    def follow(self, records: Iterable[tuple[str, bytes]]) -> None:
        new = list(records)
        self.below.follow(new)
        self._refused |= {int(name[len(REFUSED) :]) for name, _ in new if name.startswith(REFUSED)}

    # With attachments

    def message_for(self, position: int) -> bytes | None:
        message = self.below.message_for(position)
        if message is None:
            return None
        told = self.survivors is not None and self.abort_reason is None
        return attach(self._root if told and self._round.list_is_agreed else b"", message)

    def prepare(self, messages: Iterable[tuple[int, bytes]]) -> None:
        """Verify the proofs of all inputs among these together."""
        places, claims = list[tuple[int, bytes]](), list[Claim]()
        for position, data in messages:
            place = position, sha256(data).digest()
            try:
                attachment, message = detach(data)
                if self._is_due(position) and self._carries_input(message):
                    claims.append(self._claim(position, attachment, message))
                    places.append(place)
            except RemoteProtocolError:
                continue  # `receive` will say so
        found = self._faults(claims) if claims else {}
        self._verdicts |= {place: found.get(i) for i, place in enumerate(places)}

    def receive(self, position: int, data: bytes) -> Reply:
        attachment, message = detach(data)
        if self._carries_input(message):
            return self._receive_input(position, data, attachment, message)
        if attachment:
            self._require_agreement(position, attachment)
        reply = self.below.receive(position, message)
        if attachment and reply is Reply.ACCEPTED:
            self._store[AGREED + str(position)] = attachment
        return reply

    def close_phase(self) -> frozenset[int]:
        """The sum that the last phase gives must be the one that was committed to."""
        invited = self.below.close_phase()
        result = self.below.result
        if result is not None and not self._is_committed(result):
            self._mismatch = True
            self._store["reason"] = AbortReason.SUM_MISMATCH.encode()
            self._store[STATE] = ABORTED.name.encode()
            return frozenset(range(self._round.participants))
        return invited

    @property
    def account(self) -> bytes | None:
        """What the transcript says of the inputs."""
        result = self.below.result
        if result is None or self._mismatch:
            return None
        counted = set(result.survivors.members())
        refused = {i: why.decode() for i, why in self._noted(REFUSED).items() if i not in counted}
        signed = tuple(one for _, one in self._signed(result.survivors))
        agreed, below = self._noted(AGREED), self.below.account or b""
        return Account(signed, agreed, result.scalar, refused, below).encode()

    # Inputs

    def _receive_input(
        self, position: int, data: bytes, attachment: bytes, message: bytes
    ) -> Reply:
        signed, _ = read_input(attachment, message)
        name = CLAIM + str(position)
        known = self._store.get(name)
        if known is not None and known != signed.encode():
            raise RemoteProtocolError(AbortReason.CONFLICTING_MESSAGE, status_hint=409)
        if known is None and self._is_due(position):  # otherwise it is refused below
            self._require_valid(position, data)
        reply = self.below.receive(position, message)
        if reply in (Reply.ACCEPTED, Reply.WAITING):
            self._store[name] = signed.encode()
        if reply is Reply.WAITING:
            self._store[_WAITING + str(position)] = sha256(message).digest() + attachment
        return reply

    def _require_valid(self, position: int, data: bytes) -> None:
        place = position, sha256(data).digest()
        claim = self._claim(position, *detach(data))
        if place not in self._verdicts:
            self._verdicts[place] = self._faults([claim]).get(0)
        why = self._verdicts.pop(place)
        if why is not None:
            self._store[REFUSED + str(position)] = why.encode()
            self._refused.add(position)
            raise RemoteProtocolError(AbortReason.BAD_INPUT, why)

    def _is_due(self, position: int) -> bool:
        return self.state == self._input_phase and position in self.invited

    def _claim(self, position: int, attachment: bytes, message: bytes) -> Claim:
        signed, proof = read_input(attachment, message)
        return claim_of(self._round, self._roster, position, signed, proof)

    # The helper, which verifies inputs, too

    def to_helper(self) -> bytes | None:
        request = self.below.to_helper()
        if request is None:
            return None
        kept = [self._store[_WAITING + str(i)] for i in self._asked_about(request)]
        return encode_question([(one[_HASH_BYTES:], one[:_HASH_BYTES]) for one in kept], request)

    def from_helper(self, request: bytes, answer: bytes) -> Mapping[int, bytes]:
        """The messages that count, as they came."""
        _, asked = decode_question(request)
        counted = self.below.from_helper(asked, answer)
        whole = {i: attach(self._attached(i), message) for i, message in counted.items()}
        for i in self._asked_about(asked):
            self._store.pop(_WAITING + str(i), None)
        return whole

    def _attached(self, position: int) -> bytes:
        return self._store[_WAITING + str(position)][_HASH_BYTES:]

    # What was agreed on

    @cached_property
    def _root(self) -> bytes:
        """Once the survivors are fixed."""
        assert self.survivors is not None
        return root_of(self._round.session, self._signed(self.survivors))

    def _signed(self, survivors: Bitmap) -> list[tuple[int, SignedCommitment]]:
        records = [(i, self._store[CLAIM + str(i)]) for i in survivors.members()]
        return [(i, SignedCommitment.decode(record)) for i, record in records]

    def _require_agreement(self, position: int, signature: bytes) -> None:
        session, public = self._round.session, self._roster.identities[position]
        if not self._round.list_is_agreed:
            raise RemoteProtocolError(AbortReason.MALFORMED, "nothing is agreed on at this level")
        if self.survivors is None or not agreement_holds(public, session, self._root, signature):
            raise RemoteProtocolError(AbortReason.BAD_SIGNATURE, "of the list of inputs")

    def _is_committed(self, result: Aggregate) -> bool:
        points = [decode_point(one.commitment) for _, one in self._signed(result.survivors)]
        entries = self._round.modulus.signed(result.total).tolist()
        return sum_is_committed(points, entries, result.scalar)

    def _noted(self, name: str) -> dict[int, bytes]:
        positions = range(self._round.participants)
        return {i: self._store[name + str(i)] for i in positions if name + str(i) in self._store}
