"""`dhdmm roster`: who takes part, vouched for by somebody who is not the coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dhdmm.cli import output

if TYPE_CHECKING:
    from rich.console import Console


def roster(
    members: Annotated[
        list[Path], typer.Argument(metavar="PUBLIC…", help="Everybody's public half, in order.")
    ],
    out: Annotated[Path, typer.Option(help="The roster file to write.")],
    registrar: Annotated[
        Path | None, typer.Option(help="The identity file of the registrar, who signs it.")
    ] = None,
    as_json: output.Json = False,
) -> None:
    """Put public identities on a roster and sign it. One identity, one seat; one name, one seat."""
    from dhdmm.service import identity as identities
    from dhdmm.service.files import create_new
    from dhdmm.service.roster import RosterFile, roster_of

    listed = roster_of([identities.load_public(path) for path in members])
    made = RosterFile(listed)
    if registrar is not None:
        made = RosterFile.signed(listed, identities.load(registrar).identity)
    create_new(out, made.to_bytes(), private=False)
    document = {
        "roster": str(out),
        "fingerprint": listed.digest.hex(),
        "registrar": made.registrar.hex() if made.registrar else None,
        "members": [
            {"name": name, "fingerprint": identities.fingerprint(key)}
            for name, key in zip(listed.names, listed.identities, strict=True)
        ],
    }
    output.emit(document, as_json, lambda screen: _draw(screen, document))


def _draw(screen: Console, document: dict[str, Any]) -> None:
    for number, member in enumerate(document["members"], start=1):
        screen.print(f"{number:>4}  {member['fingerprint']}  {member['name']}", markup=False)
    screen.print(f"fingerprint  {document['fingerprint']}", soft_wrap=True)
    if document["registrar"]:
        screen.print(f"registrar    {document['registrar']}", soft_wrap=True)
