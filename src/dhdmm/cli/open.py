"""`dhdmm open`: release directories in the browser, served to this machine alone."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from dhdmm.cli import coordinator, extras
from dhdmm.release.release import Release


def open(
    releases: Annotated[list[Path], typer.Argument(metavar="RELEASE", help="Release directories.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any free one.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open it, or only print the address.")
    ] = True,
) -> None:
    """Read releases in your browser: tables, charts, questions. Ctrl-C ends it.

    Nothing leaves this machine. Two releases can be compared there.
    """
    extras.require("serve")
    from dhdmm.web.local import served_here
    from dhdmm.web.pages import local_pages

    for release in releases:
        Release.load(release)  # what is no release is refused before anything is served
    with served_here(local_pages([release.resolve() for release in releases]), port) as address:
        coordinator.note(f"read it at {address} (opens once); Ctrl-C ends it")
        if browser:
            webbrowser.open(address)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            coordinator.note("closed")
