"""`dhdmm coordinator`: what the operator of a coordinator does with its rounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dhdmm.cli import coordinator, extras, options, output
from dhdmm.cli.durations import seconds_of
from dhdmm.cli.options import command_group, for_typer
from dhdmm.errors import DhdmmError, RoundAborted

if TYPE_CHECKING:
    from rich.console import Console

    from dhdmm.client.http import CoordinatorClient
    from dhdmm.network.status import Missing, Status

app = command_group(
    "Operate a coordinator: begin, close and abort rounds, see who is missing, purge."
)


@app.command()
@for_typer
def begin(
    at: coordinator.Coordinator,
    operator: coordinator.Operator,
    study: Annotated[str | None, "The study's digest, if the coordinator has several."] = None,
    roster: options.Roster = None,
    occurrence: options.Occurrence = None,
    as_json: output.Json = False,
) -> None:
    """Begin a round of a study that the coordinator knows."""
    from dhdmm.network.roster import RosterFile

    invited = None if roster is None else json.loads(RosterFile.load(roster).to_bytes())
    with operator.client(at) as client:
        digest = study or _the_study(client, at.url)
        _show(client.begin(digest, invited, occurrence), as_json)


@app.command()
@for_typer
def close(operated: coordinator.OperatedRound, as_json: output.Json = False) -> None:
    """Close a round's phase without those who are missing."""
    with operated.found() as (client, status):
        _show(client.close(bytes.fromhex(status.round), status.state), as_json)


@app.command()
@for_typer
def abort(operated: coordinator.OperatedRound, as_json: output.Json = False) -> None:
    """End a round without a release. What has been paid for it stays paid."""
    with operated.found() as (client, status):
        _show(client.abort(bytes.fromhex(status.round)), as_json)


@app.command()
@for_typer
def missing(operated: coordinator.OperatedRound, as_json: output.Json = False) -> None:
    """Show whom a round is waiting for in its phase."""
    with operated.found() as (client, status):
        found = client.missing(bytes.fromhex(status.round))
    document = {"round": status.round, **found.model_dump()}
    output.emit(document, as_json, lambda screen: _draw_missing(screen, found))


@app.command()
@for_typer
def purge(
    older_than: Annotated[str, "How long ago a round must have ended, such as 90d."],
    store: options.Store = options.STORE,
    as_json: output.Json = False,
) -> None:
    """Delete the messages of rounds that are long over.

    In the store itself. Transcripts, releases and the fact that there was a round stay.
    """
    extras.require("serve")
    from sqlalchemy.exc import DBAPIError

    from dhdmm.server.database import Database
    from dhdmm.server.retention import purge as purge_store

    age = seconds_of(older_than)
    database = Database(store)
    _require_file(store)
    try:
        gone = purge_store(database, age)
    except DBAPIError:
        raise DhdmmError(
            "the store cannot be purged",
            hint="is it reachable? dhdmm serve brings the store of an older version up to date",
        ) from None
    finally:
        database.close()
    document: dict[str, Any] = {"purged": gone}
    output.emit(document, as_json, lambda screen: screen.print(f"{len(gone):,} rounds purged"))


def _require_file(store: str) -> None:
    """Refuse a file that does not exist: opening it would make an empty store."""
    from sqlalchemy import make_url

    place = make_url(store)
    is_file = place.get_backend_name() == "sqlite" and place.database is not None
    if is_file and not Path(str(place.database)).exists():
        hint = "--store, or DHDMM_STORE in the environment, names the coordinator's"
        raise DhdmmError("there is no store", where=str(place.database), hint=hint)


def _the_study(client: CoordinatorClient, url: str) -> str:
    """The study of the newest rounds, if they are all of one."""
    found = {status.study_digest: status.study for status in client.rounds(most=coordinator.SHOWN)}
    if not found:
        raise RoundAborted("the coordinator has no study with a round", where=url)
    if len(found) > 1:
        listed = ", ".join(f"{digest} ({name})" for digest, name in found.items())
        raise DhdmmError(
            "the coordinator has several studies", where=url, hint=f"--study: {listed}"
        )
    return next(iter(found))


def _show(status: Status, as_json: bool) -> None:
    from dhdmm.release.wording import printable

    document = status.model_dump()
    why = f" ({printable(status.reason)})" if status.reason else ""
    line = f"{printable(status.study)}, round {status.round}: {printable(status.state)}{why}"
    output.emit(document, as_json, lambda screen: screen.print(line, soft_wrap=True, markup=False))


def _draw_missing(screen: Console, found: Missing) -> None:
    from dhdmm.release.wording import printable

    more = len(found.missing) + found.more
    screen.print(f"{printable(found.state)}: {more:,} missing", markup=False)
    for member in found.missing:
        words = f"  {printable(member.fingerprint)}  {printable(member.name)}"
        screen.print(words, soft_wrap=True, markup=False)
    if found.more:
        screen.print(f"  and {found.more:,} more")
