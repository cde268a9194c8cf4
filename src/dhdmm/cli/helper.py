"""`dhdmm helper`: the second server of rounds with two, run by another than the coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dhdmm.cli import extras, options
from dhdmm.cli.servers import Listening, key_given
from dhdmm.errors import DhdmmError


def helper(
    identity: Annotated[Path, "Who you are: made by dhdmm identity; plans name its key."],
    leader: Annotated[
        list[str],
        "A coordinator that you help: its public identity's file, or its key.",
    ],
    secrets: Annotated[
        Path,
        "A folder for the keys of rounds: never in a backup or a snapshot.",
    ],
    store: options.Store = "sqlite:///helper.sqlite",
    listening: Listening = Listening(port=8444),  # noqa: B008 - frozen
) -> None:
    """Help coordinators of studies with two servers, until told to stop.

    Participants are safe while you or the coordinator is honest. You see neither their data nor
    any result; you check every report, add up your shares of them, and give the sum once.
    """
    extras.require("serve")

    from dataclasses import replace

    from dhdmm.cli.serve import screen
    from dhdmm.network.identity import load
    from dhdmm.server import logs
    from dhdmm.server.database import Database
    from dhdmm.server.helper import LARGEST_OPENING, HelperService
    from dhdmm.server.helper_store import HelperStore
    from dhdmm.server.limits import Limits
    from dhdmm.server.metrics import HelperMetrics
    from dhdmm.server.process import run

    named, leaders = load(identity), [key_given(one) for one in leader]
    if named.identity.public in leaders:
        raise DhdmmError(
            "--identity is also one of the leaders",
            where=str(identity),
            hint="leader and helper are two parties, each with an identity of its own",
        )
    usual = replace(
        Limits(),  # a roster comes in one body
        body_bytes=LARGEST_OPENING,
        memory_bytes=2 * LARGEST_OPENING,
        memory_bytes_per_identity=LARGEST_OPENING,
    )
    secrets.mkdir(mode=0o700, parents=True, exist_ok=True)
    database = Database(store)
    try:
        service = HelperService(
            HelperStore(database), secrets, named, leaders, observer := HelperMetrics()
        )
        server = listening.server(service, usual, metrics=observer, recognise=service.admit)
        shown = screen()
        logs.configure(as_json=shown is None, console=shown)
        run(server.serve())
    finally:
        database.close()
