"""`dhdmm invite`: links for people who take part with a browser, and the roster they are on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from dhdmm.aggregation.identity import Identity
from dhdmm.cli import options, output
from dhdmm.cli.servers import key_given
from dhdmm.client.home import now
from dhdmm.errors import DhdmmError
from dhdmm.network import identity as identities
from dhdmm.network.files import create_new
from dhdmm.network.roster import Edition, RosterFile, roster_of
from dhdmm.network.trust import Address


def invite(
    count: Annotated[int, typer.Argument(min=2, help="How many people.")],
    address: Annotated[str, "Where the leader's pages are, as browsers see it."],
    helper: Annotated[str, "The helper's key: a public identity's file, or its digits."],
    registrar: Annotated[Path, "Your identity file: you sign the roster."],
    out: Annotated[Path, "A new folder for roster.json and links.txt."],
    study: options.RosterStudy = None,
    serial: options.RosterSerial = None,
    as_json: output.Json = False,
) -> None:
    """Make links for people who take part in a study with two servers from a browser.

    Each link is one seat: it holds a key, and whoever has it can report once. The leader gets the
    roster, and must not get the links. Run this where neither the leader nor the helper is.
    """
    signer, place = identities.load(registrar).identity, Address.parse(address)
    seats = [Identity.generate(os.urandom) for _ in range(count)]
    listed = roster_of(
        [
            identities.PublicIdentity(name=f"invitation {number}", key=seat.public.hex())
            for number, seat in enumerate(seats, start=1)
        ]
    )
    edition = Edition(serial or 1, now().date().isoformat(), study)
    known = f"helper={key_given(helper).hex()}&registrar={signer.public.hex()}"
    links = [f"{place.base}/take-part#key={seat.seed.hex()}&{known}\n" for seat in seats]
    if out.exists():
        raise DhdmmError("this exists already", where=str(out), hint="name a new folder")
    out.mkdir(parents=True)
    create_new(
        out / "roster.json", RosterFile.signed(listed, signer, edition).to_bytes(), private=False
    )
    create_new(out / "links.txt", "".join(links).encode(), private=True)
    document = {
        "roster": str(out / "roster.json"),
        "links": str(out / "links.txt"),
        "invited": count,
        "fingerprint": listed.digest.hex(),
    }
    output.emit(document, as_json, lambda screen: _draw(screen, document))


def _draw(screen: Console, document: dict[str, Any]) -> None:
    screen.print(f"{document['invited']:,} links in {document['links']}, one for each person")
    screen.print(f"roster for the leader in {document['roster']}", markup=False)
    screen.print(f"fingerprint  {document['fingerprint']}", soft_wrap=True)
