"""`dhdmm roster`: who takes part, vouched for by somebody who is not the coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from dhdmm.cli import options, output
from dhdmm.client.home import now
from dhdmm.errors import DhdmmError
from dhdmm.network import identity as identities
from dhdmm.network.files import create_new
from dhdmm.network.roster import Edition, RosterFile, roster_of


def roster(
    members: Annotated[
        list[Path], typer.Argument(metavar="PUBLIC", help="Everybody's public half, in order.")
    ],
    out: Annotated[Path, "The roster file to write."],
    registrar: Annotated[Path | None, "The identity file of the registrar, who signs it."] = None,
    study: options.RosterStudy = None,
    serial: options.RosterSerial = None,
    replaces: Annotated[
        Path | None, "The roster before it: its study, and the next serial."
    ] = None,
    as_json: output.Json = False,
) -> None:
    """Put public identities on a roster and sign it. One identity, one seat; one name, one seat.

    A signed roster has a serial number, by default 1. Whoever has seen a higher one refuses it:
    to revoke or change a key, sign a roster that replaces the last one.
    """

    listed = roster_of([identities.load_public(path) for path in members])
    made = RosterFile(listed)
    if registrar is not None:
        edition = _edition(study, serial, replaces)
        made = RosterFile.signed(listed, identities.load(registrar).identity, edition)
    elif study or serial or replaces:
        raise DhdmmError("only a signed roster has a study and a serial number", hint="--registrar")
    create_new(out, made.to_bytes(), private=False)
    document = {
        "roster": str(out),
        "fingerprint": listed.digest.hex(),
        "registrar": made.registrar.hex() if made.registrar else None,
        "serial": made.serial,
        "date": made.edition.date if made.edition else None,
        "study": made.edition.study if made.edition else None,
        "members": [
            {"name": name, "fingerprint": identities.fingerprint(key)}
            for name, key in zip(listed.names, listed.identities, strict=True)
        ],
    }
    output.emit(document, as_json, lambda screen: _draw(screen, document))


def _edition(study: str | None, serial: int | None, replaces: Path | None) -> Edition:

    last = None if replaces is None else RosterFile.load(replaces)
    before = 0 if last is None else last.serial
    if serial is not None and serial <= before:
        raise DhdmmError(f"the roster before it has the serial number {before}", hint="--serial")
    named = study or (last.edition.study if last and last.edition else None)
    return Edition(serial or before + 1, now().date().isoformat(), named)


def _draw(screen: Console, document: dict[str, Any]) -> None:
    for number, member in enumerate(document["members"], start=1):
        screen.print(f"{number:>4}  {member['fingerprint']}  {member['name']}", markup=False)
    screen.print(f"fingerprint  {document['fingerprint']}", soft_wrap=True)
    if document["serial"]:
        named = f" for {document['study']}" if document["study"] else ""
        words = f"serial       {document['serial']} of {document['date']}{named}"
        screen.print(words, soft_wrap=True, markup=False)
    if document["registrar"]:
        screen.print(f"registrar    {document['registrar']}", soft_wrap=True)
