"""Who a participant is: a name and an Ed25519 key, in a file that only its owner can read.

The public half goes to the registrar, who puts it on the roster; the secret half signs the
participant's keys and requests and never leaves the file.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from dhdmm import formats
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.randomness import Randomness
from dhdmm.errors import DhdmmError, Refused
from dhdmm.formats import Format
from dhdmm.network.files import create_new, reading, replace_durably, require_private, writing

LARGEST_NAME = 100
FINGERPRINT_DIGITS = 32


def _printable(name: str) -> str:
    if not name.isprintable() or name != name.strip():
        raise ValueError("a name has visible characters only, and none but them at its ends")
    return name


Name = Annotated[str, Field(min_length=1, max_length=LARGEST_NAME), AfterValidator(_printable)]
KeyHex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
SignatureHex = Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]


class Document(BaseModel):
    """What is in a JSON file of ours: strict, and nothing in it that is not known."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, defer_build=True
    )


class PublicIdentity(Document):
    """What others know of a participant."""

    name: Name
    key: KeyHex

    @property
    def fingerprint(self) -> str:
        return fingerprint(bytes.fromhex(self.key))


class File(Document):
    """A JSON file, whose key `dhdmm` says what it is, and from the second format on its number."""

    FORMAT: ClassVar[Format]

    def to_bytes(
        self, number: int | None = None, indent: int = 2, without: Collection[str] = ()
    ) -> bytes:
        """In the format with this number, or in the newest; without some keys."""
        written = self.FORMAT.writes if number is None else number
        named = {"dhdmm": self.FORMAT.kind} | ({"format": written} if written > 1 else {})
        values = named | self.model_dump(exclude=set(without))
        return json.dumps(values, indent=indent, ensure_ascii=False).encode() + b"\n"

    def keep(self, path: Path) -> None:
        """Write it durably, for its owner alone, in place of the one that is there."""
        with writing(path):
            replace_durably(path, self.to_bytes())


class _PublicFile(PublicIdentity, File):
    FORMAT = formats.PUBLIC_IDENTITY


class _IdentityFile(File):
    FORMAT = formats.IDENTITY
    name: Name
    public: KeyHex
    secret: Annotated[KeyHex, Field(repr=False)]


@dataclass(frozen=True)
class NamedIdentity:
    """A participant's name and key pair; the secret is in no representation."""

    name: str
    identity: Identity = field(repr=False)

    @property
    def public(self) -> PublicIdentity:
        return PublicIdentity(name=self.name, key=self.identity.public.hex())


def fingerprint(key: bytes) -> str:
    """What two people read to each other to compare an identity key."""
    return sha256(b"dhdmm1 identity" + key).hexdigest()[:FINGERPRINT_DIGITS]


def create(path: Path, name: str, randomness: Randomness) -> NamedIdentity:
    """A fresh identity in a new file, readable by its owner only."""
    made = Identity.generate(randomness)
    try:
        content = _IdentityFile(name=name, public=made.public.hex(), secret=made.seed.hex())
    except ValidationError:
        what = f"1 to {LARGEST_NAME} visible characters, and no space at its ends"
        raise DhdmmError(f"this is no name: a name has {what}", where="the name") from None
    create_new(path, content.to_bytes(), private=True)
    return NamedIdentity(name, made)


def load(path: Path) -> NamedIdentity:
    """The identity in a file; refused if others can read it."""
    kept = read_document(_IdentityFile, path, hint="make one: dhdmm identity --name NAME")
    require_private(path)
    identity = Identity(bytes.fromhex(kept.secret))
    if identity.public.hex() != kept.public:
        raise Refused("its public key is not that of its secret key", where=str(path))
    return NamedIdentity(kept.name, identity)


def export_public(public: PublicIdentity, path: Path) -> None:
    """The half that others may see, for the registrar."""
    content = _PublicFile(name=public.name, key=public.key)
    create_new(path, content.to_bytes(), private=False)


def load_public(path: Path) -> PublicIdentity:
    kept = read_document(_PublicFile, path, hint="export one with dhdmm identity --public")
    return PublicIdentity(name=kept.name, key=kept.key)


Read = TypeVar("Read", bound=File)


def read_document(kind: type[Read], path: Path, hint: str | None = None) -> Read:
    with reading(path, f"the {kind.FORMAT.kind}", hint):
        content = path.read_bytes()
    return parse_document(kind, content, str(path))


def parse_document(kind: type[Read], content: bytes, where: str) -> Read:
    """The file with this content; what it is and its number are looked at first."""
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        raise DhdmmError("not a JSON document", where=where) from None
    if not isinstance(values, dict) or values.pop("dhdmm", None) != kind.FORMAT.kind:
        raise DhdmmError(f"this is not the file of a {kind.FORMAT.kind}", where=where)
    formats.readable(kind.FORMAT, values.pop("format", 1), partial(DhdmmError, where=where))
    try:
        return kind.model_validate_json(json.dumps(values))
    except ValidationError as error:
        raise unreadable(error, where) from None


def unreadable(error: ValidationError, where: str) -> DhdmmError:
    """What is wrong with a document, without what is in it."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"]))
    return DhdmmError(f"{place}: {first['msg']}" if place else first["msg"], where=where)
