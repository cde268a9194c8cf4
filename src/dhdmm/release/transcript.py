"""A round's transcript: everything public about it, hash-chained and signed by the coordinator.

The *account* is what the coordinator states: the plan, the roster, whose message counted in each
phase and the SHA-256 of each such message, the Merkle root, and the measurement M̂. A full
transcript adds the *recording*, the messages themselves, from which anyone recomputes the sum. The
chain and the signature are over the account alone, which commits to the recording: leaving the
recording out makes a short transcript of a full one, under the same signature. The entries of the
chain have digests of what is long, and the root of a tree over everybody's messages: with these
alone a participant sees that its own messages count (`dhdmm.release.receipt`).

Letters: n participants; G, A1, A2 are the sets of docs/secure-aggregation.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm import formats
from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AggregationError
from dhdmm.aggregation.identity import Identity, signature_holds
from dhdmm.aggregation.lists import Slots
from dhdmm.aggregation.merkle import Computed, MerkleTree
from dhdmm.aggregation.roster import Roster
from dhdmm.errors import TranscriptError, VerificationError
from dhdmm.release import transcript_format as form
from dhdmm.release.made import FIRST, Made

DIGEST_BYTES = 32
EVIDENCE = "mac"
"""How participants tell each other what they have seen; there is no other way."""


@dataclass(frozen=True)
class PhaseRecord:
    """Whose messages counted in a phase, and the SHA-256 of each, in the order of the roster."""

    state: str
    senders: Bitmap
    digests: Sequence[bytes]

    @cached_property
    def _places(self) -> NDArray[np.int32]:
        """Of every participant's digest among all; −1 where there is none."""
        counts = self.senders.array()
        return np.where(counts, np.cumsum(counts, dtype=np.int32) - 1, np.int32(-1))

    def digest_of(self, position: int) -> bytes | None:
        place = int(self._places[position])
        return None if place < 0 else self.digests[place]

    def stated(self, version: int) -> dict[str, Any]:
        """What an entry says of it beside its name."""
        if version == 1:
            return {"senders": self.senders.data, "digests": b"".join(self.digests)}
        return {"count": len(self.senders), "senders": sha256(self.senders.data).digest()}


@dataclass(frozen=True)
class Recording:
    """What the coordinator drew for the graph, and what it was sent, phase by phase."""

    coins: bytes = field(repr=False)
    messages: tuple[tuple[bytes, ...], ...] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Account:
    """What the coordinator states about a round. `coins_digest` is of the recording's coins.

    An account of version 1 says neither when nor in which formats, and its entries have in them
    what those of version 2 have digests of.
    """

    version: int
    made: Made
    protocol: int
    round_id: bytes
    session: bytes
    coins_digest: bytes
    plan: bytes
    roster: Roster
    phases: tuple[PhaseRecord, ...]
    root: bytes | None
    inputs: bytes | None
    """What the way to add up says of the inputs, for whoever checks the sum."""
    measurement: NDArray[np.int64]

    def contents(self) -> Iterator[dict[str, Any]]:
        """One map per entry, in the order of the round; the root follows the keys it is over."""
        opening = {
            "kind": "round",
            "dhdmm": self.made.dhdmm,
            "protocol": self.protocol,
            "round": self.round_id,
            "session": self.session,
            "evidence": EVIDENCE,
            "coins": self.coins_digest,
        }
        measurement = self.measurement.astype("<i8").tobytes()
        if self.version == 1:
            long = self.content()
            yield opening
            yield {"kind": "plan", "plan": self.plan}
            yield {"kind": "roster", "names": long["names"], "identities": long["identities"]}
        else:
            yield opening | {"date": self.made.date, "formats": dict(self.made.formats)}
            yield {"kind": "plan", "digest": sha256(self.plan).digest()}
            yield {"kind": "roster", "digest": self.roster.digest}
        for number, phase in enumerate(self.phases):
            yield {"kind": "phase", "phase": phase.state} | phase.stated(self.version)
            if number == 0 and self.root is not None:
                yield {"kind": "root", "root": self.root}
        if self.version == 1:
            yield {"kind": "result", "measurement": measurement}
        else:
            yield {"kind": "messages", "root": self.message_tree.root}
            if self.inputs is not None:
                yield {"kind": "inputs", "digest": sha256(self.inputs).digest()}
            yield {"kind": "result", "digest": sha256(measurement).digest()}

    def content(self) -> dict[str, Any]:
        """What the entries of version 2 commit to by digests."""
        inputs = {} if self.inputs is None else {"inputs": self.inputs}
        return inputs | {
            "plan": self.plan,
            "names": list(self.roster.names),
            "identities": list(self.roster.identities),
            "senders": [phase.senders.data for phase in self.phases],
            "digests": [b"".join(phase.digests) for phase in self.phases],
            "measurement": self.measurement.astype("<i8").tobytes(),
        }

    def said(self, position: int) -> tuple[bytes | None, ...]:
        """The digest of this participant's message in each phase, None where none counted."""
        return tuple(phase.digest_of(position) for phase in self.phases)

    @cached_property
    def message_tree(self) -> MerkleTree:
        """Over what each participant said, in the order of the roster."""
        said = Computed(len(self.roster), lambda i: form.message_leaf(self.said(i)))
        return MerkleTree(said)

    def senders(self, phase: str) -> PhaseRecord:
        """Of this phase; there is one, or `verify` has refused the account."""
        return next(found for found in self.phases if found.state == phase)

    @classmethod
    def from_contents(
        cls, contents: list[dict[str, Any]], long: Mapping[str, Any], version: int
    ) -> Account:
        """The account with these entries; there is no other order or number of them.

        `long` is what the entries of version 2 commit to.
        """
        by_kind: dict[str, list[dict[str, Any]]] = {kind: [] for kind in form.ENTRIES[version]}
        for content in contents:
            by_kind[content["kind"]].append(content)
        once = {kind: found[0] for kind, found in by_kind.items() if len(found) == 1}
        try:
            opening, root = once["round"], once.get("root")
            phases = by_kind["phase"]
            if version == 1:
                joined = {
                    name: [phase[name] for phase in phases] for name in ("senders", "digests")
                }
                long = once["plan"] | once["roster"] | once["result"] | joined
            names, identities = long["names"], long["identities"]
            said = zip(phases, long["senders"], long["digests"], strict=True)
            for kind in form.ENTRIES[version].keys() - {"phase", "root", "inputs"}:
                _ = once[kind]
            account = cls(
                version=version,
                made=Made(opening["dhdmm"], opening.get("date"), opening.get("formats", FIRST)),
                protocol=opening["protocol"],
                round_id=opening["round"],
                session=opening["session"],
                coins_digest=opening["coins"],
                plan=long["plan"],
                roster=Roster(tuple(names), tuple(identities)),
                phases=tuple(_phase(len(names), of["phase"], who, what) for of, who, what in said),
                root=root["root"] if root else None,
                inputs=long.get("inputs"),
                measurement=np.frombuffer(long["measurement"], "<i8").astype(np.int64),
            )
            account.require(contents)
        except KeyError as missing:
            raise TranscriptError(f"not one entry of kind {missing}", where="transcript") from None
        except (AggregationError, ValueError) as error:
            raise TranscriptError(str(error), where="transcript") from None
        return account

    def require(self, contents: list[dict[str, Any]]) -> None:
        """These are the entries of this account."""
        stated = list(self.contents())
        if [one["kind"] for one in stated] != [one["kind"] for one in contents]:
            raise TranscriptError("the entries are not in their order", where="transcript")
        for mine, theirs in zip(stated, contents, strict=True):
            if mine != theirs:
                raise VerificationError(
                    "an entry commits to something else than what is there: one of the two was"
                    " changed",
                    where=f"transcript ({mine['kind']})",
                )


def _phase(participants: int, state: str, senders: bytes, joined: bytes) -> PhaseRecord:
    digests = Slots(joined, DIGEST_BYTES)
    record = PhaseRecord(state, Bitmap(participants, senders), digests)
    if len(joined) != DIGEST_BYTES * len(record.senders):
        raise ValueError(f"{state}: not one digest per sender")
    return record


@dataclass(frozen=True, eq=False)
class Transcript:
    """A signed account of a round. Reading one checks its form, chain and signature.

    `verify` checks the rest. `release.transcript` is one if the round was recorded.

    Attributes:
        entries: The entries, each with the hash of the one before.
        key: The coordinator's public key.
        signature: Of the last entry's hash, with that key.
        recording: The participants' messages; None in a short transcript.
        version: The number of the format.
        content: What the entries of version 2 commit to by digests; those of version 1 have it in
            them.
    """

    entries: tuple[bytes, ...] = field(repr=False)
    key: bytes
    signature: bytes = field(repr=False)
    recording: Recording | None = None
    version: int = formats.TRANSCRIPT.writes
    content: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def seal(
        cls, account: Account, identity: Identity, recording: Recording | None = None
    ) -> Transcript:
        """Sign an account with the coordinator's Ed25519 key."""
        entries = form.chain(account.contents())
        signature = identity.sign(form.signed_statement(entries))
        content = {} if account.version == 1 else account.content()
        sealed = cls(entries, identity.public, signature, recording, account.version, content)
        vars(sealed)["account"] = account  # need not be read from the entries
        return sealed

    @property
    def full(self) -> bool:
        """Whether it has the messages, so that the sum can be recomputed."""
        return self.recording is not None

    def short(self) -> Transcript:
        """The transcript without the messages, under the same signature.

        Returns:
            A short transcript.
        """
        return replace(self, recording=None)

    @cached_property
    def account(self) -> Account:
        contents = form.unchain(self.entries, self.version)
        return Account.from_contents(contents, self.content, self.version)

    def to_bytes(self) -> bytes:
        """Encode the transcript.

        Returns:
            Canonical CBOR, see docs/transcripts.md.
        """
        recording = self.recording
        return form.encode(
            {
                "format": form.FORMAT,
                "version": self.version,
                "entries": list(self.entries),
                "key": self.key,
                "signature": self.signature,
                "coins": recording.coins if recording else None,
                "messages": [list(phase) for phase in recording.messages] if recording else None,
                **self.content,
            }
        )

    @classmethod
    def from_bytes(cls, encoded: bytes) -> Transcript:
        """Read a transcript and check its form, chain and signature.

        Args:
            encoded: What `to_bytes` returned.

        Returns:
            The transcript.

        Raises:
            TranscriptError: The bytes are not a transcript.
            VerificationError: The chain or the signature does not hold.
        """
        fields = form.decode_file(encoded)
        coins, said = fields["coins"], fields["messages"]
        if (coins is None) != (said is None):
            raise TranscriptError("half a recording", where="transcript")
        recording = None if coins is None else Recording(coins, tuple(map(tuple, said)))
        entries, key = tuple(fields["entries"]), fields["key"]
        known = () if fields["version"] == 1 else (*form.CONTENT, *form.VALIDATED)
        content = {name: fields[name] for name in known if name in fields}
        version, signature = fields["version"], fields["signature"]
        transcript = cls(entries, key, signature, recording, version, content)
        transcript.check()
        return transcript

    def check(self) -> None:
        """The chain is whole, the signature holds, and the messages are those committed to."""
        account = self.account
        if not signature_holds(self.key, form.signed_statement(self.entries), self.signature):
            raise VerificationError("the coordinator's signature does not hold", where="transcript")
        if self.recording is not None:
            _check_recording(account, self.recording)


def _check_recording(account: Account, recording: Recording) -> None:
    """The messages are those that the account commits to."""
    if sha256(recording.coins).digest() != account.coins_digest:
        raise VerificationError("the coins of the graph are not those of the account")
    if len(recording.messages) != len(account.phases):
        raise VerificationError("not the messages of all phases")
    for phase, said in zip(account.phases, recording.messages, strict=True):
        if tuple(sha256(message).digest() for message in said) != phase.digests:
            raise VerificationError("the messages are not those of the account", where=phase.state)
