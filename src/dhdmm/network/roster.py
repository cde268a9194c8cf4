"""The roster file: who takes part, and who vouches for it.

The registrar signs the digest of the roster, which is that of names and keys in their order, and
the roster's edition: a serial number, a date, and the study that it is for. A roster with a higher
serial number revokes keys; an older one is then refused. A roster without an edition has the serial
number 0. A participant believes a roster because it pins the registrar's key, or because it has
compared the fingerprint with the others; it never believes one because the coordinator sent it.

The digest is the root of a tree, so a participant need not have the roster: it is shown the root,
what the registrar signed, and its own place.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import NoneType
from typing import Annotated, Any
from weakref import WeakValueDictionary

from pydantic import Field, TypeAdapter

from dhdmm import formats
from dhdmm.aggregation.errors import LocalProtocolError
from dhdmm.aggregation.identity import KEY_BYTES, Identity, signature_holds
from dhdmm.aggregation.lists import Slots
from dhdmm.aggregation.roster import Roster
from dhdmm.errors import DhdmmError, PolicyReason, PolicyRefusal, Refused
from dhdmm.network.files import reading
from dhdmm.network.identity import (
    File,
    KeyHex,
    Name,
    PublicIdentity,
    SignatureHex,
    parse_document,
)

SIGNATURE_LABEL = b"dhdmm1 roster"
EDITION_LABEL = b"dhdmm2 roster"
LARGEST_SERIAL = 2**53 - 1
_NO_MEMBERS, _PART = b'"members": []', 1000
_MEMBERS = re.compile(rb'"members"\s*:\s*\[')
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_PART_OF_MEMBERS = re.compile(rb'(?:\s*+\{[^{}"]*+(?:' + _STRING + rb'[^{}"]*+)*+\}\s*+,){1,1000}+')
"""Members of a roster file that others follow; a quotation mark in a string has a backslash."""
Serial = Annotated[int, Field(ge=0, le=LARGEST_SERIAL)]


class _RosterFile(File):
    FORMAT = formats.ROSTER
    members: list[PublicIdentity]
    registrar: KeyHex | None
    signature: SignatureHex | None
    serial: Serial = 0
    date: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")] | None = None
    study: Name | None = None


@dataclass(frozen=True)
class Edition:
    """Which of a registrar's rosters it is; `study` is None if it is for any."""

    serial: int
    date: str
    study: str | None = None

    def to_bytes(self) -> bytes:
        return json.dumps([self.serial, self.date, self.study], separators=(",", ":")).encode()

    @classmethod
    def of(cls, values: Sequence[Any] | None) -> Edition | None:
        """The edition with these values, from somebody who need not be believed."""
        if values is None:
            return None
        kinds = [type(value) for value in values]
        fit = kinds in ([int, str, str], [int, str, NoneType])
        if not fit or not 0 < values[0] <= LARGEST_SERIAL:
            hint = "an edition is a serial number, a date and a study"
            raise DhdmmError("the coordinator's offer cannot be understood", hint=hint)
        return cls(*values)


@dataclass(frozen=True, kw_only=True)
class RosterCredentials(ABC):
    """A roster's digest, and the registrar's key and signature if there is a registrar."""

    registrar: bytes | None = None
    signature: bytes | None = field(default=None, repr=False)
    edition: Edition | None = None

    @property
    @abstractmethod
    def fingerprints(self) -> tuple[bytes, ...]:
        """The digests that name the roster; the first is the root of its tree."""

    @property
    def serial(self) -> int:
        return 0 if self.edition is None else self.edition.serial

    def require_study(self, name: str) -> None:
        """A roster that names another study is not for this one."""
        if self.edition is not None and self.edition.study not in (None, name):
            raise Refused(
                f"the roster is for the study '{self.edition.study}', not for '{name}'",
                hint="ask the registrar for a roster of this study",
            )

    def require_not_older(self, serial: int, digest: bytes) -> None:
        """Than the roster with this serial number and digest, of the same registrar and study."""
        if self.serial < serial:
            raise Refused(
                f"the roster has the serial number {self.serial}, and {serial} was seen before",
                hint="a key that was revoked since may be on it; ask for the newest roster",
            )
        if self.serial == serial > 0 and digest not in self.fingerprints:
            raise Refused(
                f"another roster with the serial number {serial} was seen before",
                hint="the registrar gives every roster a serial number of its own",
            )

    def is_signed_by(self, registrar: bytes) -> bool:
        """Whether this registrar signed this roster."""
        signature = self.signature
        if self.registrar != registrar or signature is None:
            return False
        statements = [_signed_bytes(digest, self.edition) for digest in self.fingerprints]
        return any(signature_holds(registrar, said, signature) for said in statements)


@dataclass(frozen=True)
class ShownRoster(RosterCredentials):
    """What a participant is shown of a roster that it does not have."""

    digest: bytes

    @property
    def fingerprints(self) -> tuple[bytes, ...]:
        return (self.digest,)


@dataclass(frozen=True)
class RosterFile(RosterCredentials):
    """The roster itself."""

    roster: Roster

    @classmethod
    def signed(
        cls, roster: Roster, registrar: Identity, edition: Edition | None = None
    ) -> RosterFile:
        signature = registrar.sign(_signed_bytes(roster.digest, edition))
        return cls(roster, registrar=registrar.public, signature=signature, edition=edition)

    @property
    def fingerprints(self) -> tuple[bytes, ...]:
        return self.roster.fingerprints

    def to_bytes(self, number: int | None = None) -> bytes:
        """The file, in the format with this number or in the newest."""
        document = _RosterFile(
            members=[],
            registrar=self.registrar.hex() if self.registrar else None,
            signature=self.signature.hex() if self.signature else None,
            **({} if self.edition is None else asdict(self.edition)),
        )
        bare = () if self.edition else tuple(Edition.__dataclass_fields__)
        before, _, after = document.to_bytes(number, indent=1, without=bare).partition(_NO_MEMBERS)
        return b"".join([before, b'"members": [', b",".join(_written(self.roster)), b"\n ]", after])

    @classmethod
    def load(cls, path: Path) -> RosterFile:
        with reading(path, "the roster", "make one: dhdmm roster"):
            return cls.from_bytes(path.read_bytes(), str(path))

    @classmethod
    def from_bytes(cls, content: bytes, where: str = "roster") -> RosterFile:
        """The roster with this encoding; a signature that does not hold is refused at once.

        While somebody has it, it is the same object: of a million people it is large, and several
        parts of a server have it.
        """
        digest = sha256(content).digest()
        made = _IN_USE.get(digest)
        if made is None:
            made = _IN_USE[digest] = cls._read(content, where)
        return made

    @classmethod
    def _read(cls, content: bytes, where: str) -> RosterFile:
        names, keys, document = _read_in_parts(content, where) or _read(content, where)
        made = cls(
            _roster(names, keys, where),
            registrar=bytes.fromhex(document.registrar) if document.registrar else None,
            signature=bytes.fromhex(document.signature) if document.signature else None,
            edition=_edition(document, where),
        )
        if (made.registrar is None) != (made.signature is None):
            raise DhdmmError("a registrar without a signature, or the reverse", where=where)
        if made.registrar is not None and not made.is_signed_by(made.registrar):
            raise Refused("the registrar's signature does not hold", where=where)
        return made


_IN_USE = WeakValueDictionary[bytes, RosterFile]()


def _written(roster: Roster) -> Iterator[bytes]:
    """The members as a file has them, a thousand at a time: as objects, a million take 1 GB."""
    for start in range(0, len(roster), _PART):
        some = range(start, min(start + _PART, len(roster)))
        entries = [roster.entry(i) for i in some]
        members = [PublicIdentity(name=one.name, key=one.identity.hex()) for one in entries]
        listed = [member.model_dump() for member in members]
        text = json.dumps(listed, indent=1, ensure_ascii=False)
        yield text[1:-2].replace("\n", "\n ").encode()


def _signed_bytes(digest: bytes, edition: Edition | None) -> bytes:
    """The digest has a fixed length: what stands before it is the edition."""
    if edition is None:
        return SIGNATURE_LABEL + digest
    return EDITION_LABEL + edition.to_bytes() + digest


def _edition(document: _RosterFile, where: str) -> Edition | None:
    if document.serial == 0 and document.date is None and document.study is None:
        return None
    if document.serial == 0 or document.date is None or document.registrar is None:
        raise DhdmmError("an edition has a serial number, a date and a registrar", where=where)
    return Edition(document.serial, document.date, document.study)


Read = tuple[list[str], bytearray, _RosterFile]
"""Names, keys one after the other, and the file, which has some or all of the members."""


def _read(content: bytes, where: str) -> Read:
    document = parse_document(_RosterFile, content, where)
    return *_members(document.members), document


def _read_in_parts(content: bytes, where: str) -> Read | None:
    """The same, a thousand members at a time: as objects a million of them take a gigabyte.

    None for a file with something unusual or wrong in it, for which `_read` has the words.
    """
    beginnings = list(_MEMBERS.finditer(content))
    if len(beginnings) != 1:
        return None
    names, keys, at = list[str](), bytearray(), beginnings[0].end()
    try:
        while some := _PART_OF_MEMBERS.match(content, at):
            listed = json.loads(b"[%b]" % some[0].rstrip()[:-1])
            more = _members(_adapter().validate_json(json.dumps(listed)))
            names += more[0]
            keys += more[1]
            at = some.end()
        document = parse_document(_RosterFile, content[: beginnings[0].end()] + content[at:], where)
    except (ValueError, DhdmmError):
        return None
    last = _members(document.members)
    names += last[0]
    keys += last[1]
    return (names, keys, document) if document.members else None


def _members(members: Iterable[PublicIdentity]) -> tuple[list[str], bytearray]:
    listed = list(members)
    return [one.name for one in listed], bytearray.fromhex("".join(one.key for one in listed))


@cache
def _adapter() -> TypeAdapter[list[PublicIdentity]]:
    return TypeAdapter(list[PublicIdentity])


def roster_of(members: Iterable[PublicIdentity]) -> Roster:
    """One identity, one seat; one name, one seat."""
    return _roster(*_members(members), where="roster")


def _roster(names: list[str], keys: bytearray, where: str) -> Roster:
    listed = Slots(bytes(keys), KEY_BYTES)
    try:
        return Roster(tuple(names), listed)
    except LocalProtocolError as error:
        seen: set[str | bytes] = set()
        for name, key in zip(names, listed, strict=True):
            if name in seen or key in seen:
                what = "name" if name in seen else "identity key"
                raise Refused(
                    f"the {what} of '{name}' is on the roster already", where=where
                ) from None
            seen |= {name, key}
        raise DhdmmError(str(error), where=where) from None


@dataclass(frozen=True)
class Pin:
    """What a participant knows of the roster from elsewhere than the coordinator."""

    registrar: bytes | None = None
    fingerprint: bytes | None = None

    @property
    def is_set(self) -> bool:
        return self.fingerprint is not None or self.registrar is not None

    def check(self, given: RosterCredentials) -> None:
        """Refuse a roster that contradicts the pin."""
        if self.fingerprint is not None and self.fingerprint not in given.fingerprints:
            name = given.fingerprints[0].hex()
            raise PolicyRefusal(
                PolicyReason.UNPINNED_ROSTER,
                f"the coordinator's roster is {name}, not the one that was agreed on",
                "compare its fingerprint with the other participants, not with the coordinator",
            )
        if self.registrar is not None and not given.is_signed_by(self.registrar):
            raise PolicyRefusal(
                PolicyReason.UNPINNED_ROSTER,
                "the coordinator's roster is not signed by the pinned registrar",
                "ask the registrar for the roster's fingerprint",
            )
