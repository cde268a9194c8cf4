"""The bytes of a transcript: canonical CBOR, each entry with the hash of the one before.

An entry is a map with its `kind`, the fields of that kind and `previous`. There is one encoding of
every value: what does not encode to the very bytes it was read from is refused. docs/transcripts.md
lists the kinds and their fields. In version 2 the first entry also says when, and in which formats,
and the entries have digests of what is long: plan, roster, messages and measurement stand beside
them, so that the entries alone can be shown to somebody who took part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import cbor2

from dhdmm import formats
from dhdmm.errors import TranscriptError, VerificationError
from dhdmm.release.made import are_formats, is_date

FORMAT = "dhdmm transcript"
LARGEST_TRANSCRIPT_BYTES = 2**32
CHAIN_LABEL = b"dhdmm transcript entry 1"
MESSAGES_LABEL = b"dhdmm transcript messages 1"
SIGNATURE_LABEL = b"dhdmm transcript signature 1"
BEGINNING = bytes(32)
"""What the first entry carries as the hash of the one before."""

Fields = Mapping[str, Callable[[Any], bool]]


def natural(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def text(value: Any) -> bool:
    return type(value) is str


def blob(value: Any) -> bool:
    return type(value) is bytes


def sized(size: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is bytes and len(value) == size


def listed(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: type(value) is list and all(map(fits, value))


def optional(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


_FILE: Fields = {
    "format": text,
    "version": natural,
    "entries": listed(blob),
    "key": sized(32),
    "signature": sized(64),
    "coins": optional(blob),
    "messages": optional(listed(listed(blob))),
}
CONTENT: Fields = {
    "plan": blob,
    "names": listed(text),
    "identities": listed(sized(32)),
    "senders": listed(blob),
    "digests": listed(blob),
    "measurement": blob,
}
"""What the entries of version 2 commit to by digests."""
VALIDATED: Fields = {"inputs": blob}
"""And of a round with validated inputs."""
FILES: Mapping[int, Fields] = {1: _FILE, 2: {**_FILE, **CONTENT}}
"""By version."""
_ROUND: Fields = {
    "dhdmm": formats.is_maker,
    "protocol": natural,
    "round": sized(16),
    "session": sized(32),
    "evidence": text,
    "coins": sized(32),
}
_DIGEST: Fields = {"digest": sized(32)}
_ROOT: Fields = {"root": sized(32)}
ENTRIES: Mapping[int, Mapping[str, Fields]] = {
    1: {
        "round": _ROUND,
        "plan": {"plan": blob},
        "roster": {"names": listed(text), "identities": listed(sized(32))},
        "phase": {"phase": text, "senders": blob, "digests": blob},
        "root": _ROOT,
        "result": {"measurement": blob},
    },
    2: {
        "round": {**_ROUND, "date": is_date, "formats": are_formats},
        "plan": _DIGEST,
        "roster": _DIGEST,
        "phase": {"phase": text, "count": natural, "senders": sized(32)},
        "root": _ROOT,
        "messages": _ROOT,
        "inputs": _DIGEST,
        "result": _DIGEST,
    },
}
"""By version."""


def encode(value: Any) -> bytes:
    return bytes(cbor2.dumps(value, canonical=True))


def decode(encoded: bytes, where: str) -> dict[str, Any]:
    """The map with these bytes as its one encoding."""
    try:
        value = cbor2.loads(encoded)
    except (cbor2.CBORDecodeError, ValueError, RecursionError, OverflowError, MemoryError):
        raise TranscriptError("not a CBOR value", where=where) from None
    if type(value) is not dict or not all(map(text, value)):
        raise TranscriptError("not a map of named fields", where=where)
    return value


def check_fields(value: Mapping[str, Any], fields: Fields, encoded: bytes, where: str) -> None:
    for name in sorted(fields.keys() ^ value.keys()):
        raise TranscriptError(f"field {name!r} is missing or unknown", where=where)
    for name, fits in fields.items():
        if not fits(value[name]):
            raise TranscriptError(f"field {name!r} is not what it should be", where=where)
    if encode(value) != encoded:
        raise TranscriptError("the encoding is not the canonical one", where=where)


def decode_file(encoded: bytes) -> dict[str, Any]:
    where = "transcript"
    if len(encoded) > LARGEST_TRANSCRIPT_BYTES:
        raise TranscriptError(f"larger than {LARGEST_TRANSCRIPT_BYTES:,} bytes", where=where)
    value = decode(encoded, where)
    if value.get("format") != FORMAT:
        raise TranscriptError("not a transcript", where=where)
    refusal = partial(TranscriptError, where=where)
    maker = _maker(value.get("entries"))
    version = formats.readable(formats.TRANSCRIPT, value.get("version"), refusal, maker)
    inputs = VALIDATED if version > 1 and "inputs" in value else {}
    check_fields(value, {**FILES[version], **inputs}, encoded, where)
    return value


def _maker(entries: Any) -> Any:
    """What the first entry says of the dhdmm that made it, if it is an entry at all."""
    if not (type(entries) is list and entries and type(entries[0]) is bytes):
        return None
    try:
        return decode(entries[0], "entry 1").get("dhdmm")
    except TranscriptError:
        return None


def message_leaf(said: Iterable[bytes | None]) -> bytes:
    """A leaf of the tree of messages: for each phase, the digest of what a participant said."""
    parts = [b"\0" if digest is None else b"\1" + digest for digest in said]
    return MESSAGES_LABEL + b"".join(parts)


# ---- the chain ----------------------------------------------------------------------------------


def hash_of(entry: bytes) -> bytes:
    return hashlib.sha256(CHAIN_LABEL + entry).digest()


def signed_statement(entries: Sequence[bytes]) -> bytes:
    """What the coordinator signs: through the last hash, all entries."""
    return SIGNATURE_LABEL + hash_of(entries[-1])


def chain(contents: Iterable[Mapping[str, Any]]) -> tuple[bytes, ...]:
    """Each content as an entry that carries the hash of the one before."""
    entries: list[bytes] = []
    for content in contents:
        previous = hash_of(entries[-1]) if entries else BEGINNING
        entries.append(encode({**content, "previous": previous}))
    return tuple(entries)


def unchain(entries: Sequence[bytes], version: int) -> list[dict[str, Any]]:
    """The contents, if every entry is well-formed and follows from the one before."""
    known = ENTRIES[version]
    contents, previous = [], BEGINNING
    for number, entry in enumerate(entries, start=1):
        content = decode(entry, f"entry {number}")
        kind = str(content.get("kind"))
        if kind not in known:
            raise TranscriptError("of an unknown kind", where=f"entry {number}")
        where = f"entry {number} ({kind})"
        check_fields(content, {**known[kind], "kind": text, "previous": sized(32)}, entry, where)
        if content.pop("previous") != previous:
            raise VerificationError(
                "does not follow from the entry before: one of the two was changed", where=where
            )
        previous = hash_of(entry)
        contents.append(content)
    return contents
