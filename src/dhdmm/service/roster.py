"""The roster file: who takes part, and who vouches for it.

The registrar signs the digest of the roster, not the file: names and keys in their order. A
participant believes a roster because it pins the registrar's key, or because it has compared the
fingerprint with the others; it never believes one because the coordinator sent it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dhdmm.errors import DhdmmError, Refused
from dhdmm.participant.limits import PolicyRefusal, Reason
from dhdmm.secagg.errors import LocalProtocolError
from dhdmm.secagg.keys import Identity, signature_holds
from dhdmm.secagg.round import Roster
from dhdmm.service.identity import (
    Document,
    KeyHex,
    PublicIdentity,
    SignatureHex,
    parse_document,
)

SIGNATURE_LABEL = b"dhdmm1 roster"


class _RosterFile(Document):
    dhdmm: Literal["roster"] = "roster"
    members: list[PublicIdentity]
    registrar: KeyHex | None
    signature: SignatureHex | None


@dataclass(frozen=True)
class RosterFile:
    """A roster, and the registrar's key and signature if there is a registrar."""

    roster: Roster
    registrar: bytes | None = None
    signature: bytes | None = field(default=None, repr=False)

    @classmethod
    def signed(cls, roster: Roster, registrar: Identity) -> RosterFile:
        return cls(roster, registrar.public, registrar.sign(SIGNATURE_LABEL + roster.digest))

    def vouched_for_by(self, registrar: bytes) -> bool:
        """Whether this registrar signed this roster."""
        if self.registrar != registrar or self.signature is None:
            return False
        return signature_holds(registrar, SIGNATURE_LABEL + self.roster.digest, self.signature)

    def to_bytes(self) -> bytes:
        pairs = zip(self.roster.names, self.roster.identities, strict=True)
        document = _RosterFile(
            members=[PublicIdentity(name=name, key=key.hex()) for name, key in pairs],
            registrar=self.registrar.hex() if self.registrar else None,
            signature=self.signature.hex() if self.signature else None,
        )
        return document.model_dump_json(indent=1).encode() + b"\n"

    @classmethod
    def load(cls, path: Path) -> RosterFile:
        try:
            return cls.from_bytes(path.read_bytes(), str(path))
        except OSError as error:
            raise DhdmmError(error.strerror or str(error), where=str(path)) from None

    @classmethod
    def from_bytes(cls, content: bytes, where: str = "roster") -> RosterFile:
        """The roster with this encoding; a signature that does not hold is refused at once."""
        document = parse_document(_RosterFile, content, where)
        made = cls(
            roster_of(document.members, where),
            bytes.fromhex(document.registrar) if document.registrar else None,
            bytes.fromhex(document.signature) if document.signature else None,
        )
        if (made.registrar is None) != (made.signature is None):
            raise DhdmmError("a registrar without a signature, or the reverse", where=where)
        if made.registrar is not None and not made.vouched_for_by(made.registrar):
            raise Refused("the registrar's signature does not hold", where=where)
        return made


def roster_of(members: Sequence[PublicIdentity], where: str = "roster") -> Roster:
    """One identity, one seat; one name, one seat."""
    names = tuple(member.name for member in members)
    keys = tuple(bytes.fromhex(member.key) for member in members)
    seen: set[str | bytes] = set()
    for name, key in zip(names, keys, strict=True):
        if name in seen or key in seen:
            what = "name" if name in seen else "identity key"
            raise Refused(f"the {what} of '{name}' is on the roster already", where=where)
        seen |= {name, key}
    try:
        return Roster(names, keys)
    except LocalProtocolError as error:
        raise DhdmmError(str(error), where=where) from None


@dataclass(frozen=True)
class Pin:
    """What a participant knows of the roster from elsewhere than the coordinator."""

    registrar: bytes | None = None
    fingerprint: bytes | None = None

    def require(self, given: RosterFile) -> bool:
        """Whether the roster is pinned; one that contradicts the pin is refused."""
        digest = given.roster.digest
        if self.fingerprint is not None and digest != self.fingerprint:
            raise PolicyRefusal(
                Reason.UNPINNED_ROSTER,
                f"the coordinator's roster is {digest.hex()}, not the one that was agreed on",
                "compare its fingerprint with the other participants, not with the coordinator",
            )
        if self.registrar is not None and not given.vouched_for_by(self.registrar):
            raise PolicyRefusal(
                Reason.UNPINNED_ROSTER,
                "the coordinator's roster is not signed by the pinned registrar",
                "ask the registrar for the roster's fingerprint",
            )
        return self.fingerprint is not None or self.registrar is not None
