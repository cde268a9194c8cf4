"""What a participant is given when its round is over: the signed entries of the transcript, and a
proof that its own messages are in it as it sent them.

It is as long as log n. Whoever wants to see more takes the whole transcript, whose entries are
these: one of another content would need another signature.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from dhdmm.aggregation.errors import RemoteProtocolError
from dhdmm.aggregation.identity import signature_holds
from dhdmm.aggregation.merkle import verify_multiproof
from dhdmm.aggregation.method import input_phase
from dhdmm.errors import VerificationError
from dhdmm.release import transcript_format as form

if TYPE_CHECKING:
    from dhdmm.aggregation.bitmap import Bitmap
    from dhdmm.planning.plan import Plan
    from dhdmm.release.transcript import Transcript

MAGIC = b"dhdmm receipt 1\n"
VERSION = 2
"""Of the transcripts that there are receipts of."""
WHERE = "the coordinator's receipt"
_FIELDS: form.Fields = {
    "entries": form.listed(form.blob),
    "key": form.sized(32),
    "signature": form.sized(64),
    "said": form.listed(form.optional(form.sized(32))),
    "proof": form.blob,
}


@dataclass(frozen=True)
class Receipt:
    """The entries and the signature of a transcript, and one participant's leaf of its tree."""

    entries: tuple[bytes, ...] = field(repr=False)
    key: bytes
    signature: bytes = field(repr=False)
    said: tuple[bytes | None, ...]
    """The digest of its message in each phase; None where none counted."""
    proof: bytes = field(repr=False)

    @classmethod
    def of(cls, transcript: Transcript, position: int) -> Receipt:
        account = transcript.account
        proof = account.message_tree.multiproof([position])
        said = account.said(position)
        return cls(transcript.entries, transcript.key, transcript.signature, said, proof)

    def to_bytes(self) -> bytes:
        values = {name: getattr(self, name) for name in _FIELDS}
        return MAGIC + form.encode(
            values | {name: list(values[name]) for name in ("entries", "said")}
        )

    @classmethod
    def from_bytes(cls, encoded: bytes) -> Receipt:
        """Only its form is checked, and the chain of its entries."""
        body = encoded.removeprefix(MAGIC)
        values = form.decode(body, WHERE)
        form.check_fields(values, _FIELDS, body, WHERE)
        made = cls(**values | {name: tuple(values[name]) for name in ("entries", "said")})
        _ = made.contents
        return made

    @cached_property
    def contents(self) -> list[dict[str, Any]]:
        """What the entries say."""
        return form.unchain(self.entries, VERSION)

    @property
    def fingerprint(self) -> str:
        """Of the transcript: the same for everybody who took part."""
        return form.hash_of(self.entries[-1]).hex() if self.entries else ""

    def phase(self, name: str) -> Mapping[str, Any]:
        """What the entry of this phase says; nothing if there is none."""
        found = (one for one in self.contents if one.get("phase") == name)
        return next(found, {})

    def input(self, plan: Plan) -> bytes | None:
        """The digest of the input that counted, if one did."""
        at = plan.method.phases.index(input_phase(plan.method))
        return self.said[at] if at < len(self.said) else None

    def check(
        self,
        plan: Plan,
        round_id: bytes,
        position: int,
        sent: Iterable[bytes],
        root: bytes | None,
        survivors: Bitmap | None,
    ) -> tuple[str, ...]:
        """What holds, in words; `VerificationError` says what does not.

        Args:
            plan: The plan that was agreed on.
            round_id: The round's id.
            position: The participant's place on the roster.
            sent: The digests of the messages that it sent and that were taken.
            root: What it was told that everybody's keys are committed to by, if anything.
            survivors: Whom it was told the sum is over, if it was.
        """
        if not self.entries or not signature_holds(
            self.key, form.signed_statement(self.entries), self.signature
        ):
            raise VerificationError("the coordinator's signature does not hold", where=WHERE)
        said, expected = self._by_kind(), plan.round(round_id)
        inputs = self.phase(input_phase(plan.method).name)
        claims = {
            "it is of another plan": said("plan", "digest") == sha256(plan.to_bytes()).digest(),
            "it is of another round": (said("round", "round"), said("round", "session"))
            == (round_id, expected.session),
            "it has other phases": len(self.said) == len(plan.method.phases),
            "what left here is not in it": set(sent) <= set(self.said),
            "it has other keys than we were told": root in (None, said("root", "root")),
            "it has other survivors than we were told": survivors is None
            or inputs.get("senders") == sha256(survivors.data).digest(),
            "too few survived": inputs.get("count", 0) >= expected.minimum_survivors,
        }
        for complaint, holds in claims.items():
            if not holds:
                raise VerificationError(f"the release is not of this round: {complaint}")
        leaf, tree = form.message_leaf(self.said), said("messages", "root")
        try:
            verify_multiproof(tree or b"", plan.participants, {position: leaf}, self.proof)
        except RemoteProtocolError as error:
            raise VerificationError(f"what left here is not in it: {error}", where=WHERE) from None
        count = sum(digest is not None for digest in self.said)
        return (
            f"{len(self.entries)} entries linked by hash and signed",
            "the plan, the session and the roster are those that were agreed on",
            f"{inputs['count']:,} survivors, at least {expected.minimum_survivors:,} needed",
            f"{count} messages of yours are in the transcript, as they left here",
        )

    def _by_kind(self) -> Any:
        found = {one["kind"]: one for one in self.contents}
        return lambda kind, field: found.get(kind, {}).get(field)
