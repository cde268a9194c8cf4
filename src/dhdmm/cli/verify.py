"""`dhdmm verify`: re-derive a release from its round's transcript."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from dhdmm.cli import output
from dhdmm.errors import TranscriptError
from dhdmm.network.files import reading
from dhdmm.release import directory as directories
from dhdmm.release import published
from dhdmm.release.transcript import Transcript
from dhdmm.release.verify import verify as derive

UNPINNED = "nobody vouched for this key: compare it with the coordinator's, or give it as --key"


def verify(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The transcript, or a release directory.")
    ],
    release: Annotated[Path | None, "Compare the tables of this directory, too."] = None,
    key: Annotated[str | None, "The coordinator's public key, 64 hex digits."] = None,
    proofs: Annotated[bool, "Refuse unless the proof of every input was checked."] = False,
    as_json: output.Json = False,
) -> None:
    """Check a transcript and re-derive its release; any changed byte is an error."""

    if file.is_dir():
        release, file = release or file, file / directories.TRANSCRIPT
    expected = None if key is None else _key(key)
    with output.progress("verifying", 2) as advance:
        transcript = _read(file)
        verified = derive(transcript, expected, proofs=proofs)
        advance(1)
        compared = None if release is None else published.compare(verified.release, release)
    checks = list(verified.checks)
    if compared is not None:
        checks.append(
            f"{compared.files} table files hold these answers, {compared.identical} to the byte"
        )
    document: dict[str, Any] = {
        "verified": True,
        "transcript": str(file),
        "full": transcript.full,
        "key": transcript.key.hex(),
        "key_pinned": expected is not None,
        "release": None if release is None else str(release),
        "checks": checks,
        "unproven": list(verified.unproven),
        "provenance": verified.release.provenance(),
    }
    output.emit(document, as_json, lambda screen: _draw(screen, document))


def _key(written: str) -> bytes:
    try:
        key = bytes.fromhex(written)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise typer.BadParameter("a public key has 64 hexadecimal digits", param_hint="--key")
    return key


def _read(file: Path) -> Transcript:
    with reading(file, "the transcript"):
        encoded = file.read_bytes()
    try:
        return Transcript.from_bytes(encoded)
    except TranscriptError as error:
        hint = error.hint or "give a release directory, or the transcript.cbor in it"
        raise TranscriptError(error.what, where=f"{file}: {error.where}", hint=hint) from None


def _draw(screen: Console, document: dict[str, Any]) -> None:
    for check in document["checks"]:
        screen.print(f"✓ {check}", soft_wrap=True)
    for open_ in document["unproven"]:
        screen.print(f"– not shown: {open_}", soft_wrap=True)
    pinned = "as given" if document["key_pinned"] else UNPINNED
    screen.print(f"signed with {document['key']}\n  {pinned}", soft_wrap=True)
