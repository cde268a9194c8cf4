"""`dhdmm identity`: who a participant, or a registrar, is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from dhdmm.cli import output
from dhdmm.cli.coordinator import StateOption, home
from dhdmm.network import identity as identities
from dhdmm.network.files import private_folder


def identity(
    name: Annotated[str | None, "Make a new identity with this name."] = None,
    out: Annotated[Path | None, "The identity's file; by default identity.json in --state."] = None,
    public: Annotated[Path | None, "Write the public half here, for the registrar."] = None,
    state: StateOption = None,
    as_json: output.Json = False,
) -> None:
    """Make an Ed25519 identity, or show the one that is there. The secret stays in its file."""

    place = out or home(state).identity
    if name is None:
        known = identities.load(place)
    else:
        if out is None or not place.parent.exists():
            private_folder(place.parent)
        known = identities.create(place, name, os.urandom)
    if public is not None:
        identities.export_public(known.public, public)
    document = {
        "name": known.name,
        "key": known.public.key,
        "fingerprint": known.public.fingerprint,
        "identity": str(place),
        "public": None if public is None else str(public),
    }
    output.emit(document, as_json, lambda screen: _draw(screen, document))


def _draw(screen: Console, document: dict[str, Any]) -> None:
    for key in ("name", "key", "fingerprint"):
        screen.print(f"{key:<12} {document[key]}", markup=False, soft_wrap=True)
    if document["public"]:
        screen.print(f"public half in {document['public']}", markup=False, soft_wrap=True)
