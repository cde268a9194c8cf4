"""`dhdmm serve`: the coordinator of one or more studies, until it is told to stop."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dhdmm.cli import extras, options, output
from dhdmm.cli.durations import seconds_of
from dhdmm.cli.places import require_writable
from dhdmm.cli.servers import Listening, SecondServer
from dhdmm.errors import DhdmmError, RoundAborted
from dhdmm.server.occurrences import Every, now, occurrence_at

if TYPE_CHECKING:
    from rich.console import Console

    from dhdmm.cli.serving import Work
    from dhdmm.network.identity import NamedIdentity
    from dhdmm.network.roster import RosterFile
    from dhdmm.network.status import Status
    from dhdmm.server.database import Database
    from dhdmm.server.studies import Chosen, Hub
    from dhdmm.study.spec import Study
    from dhdmm.web.pages import Pages

    Begin = Callable[..., Chosen]

OTHER_ROSTER = "it keeps its own roster; the next round has the new one"


def serve(
    studies: Annotated[
        list[Path], typer.Argument(metavar="STUDY", help="The study files, one or more.")
    ],
    store: options.Store = options.STORE,
    listening: Listening = Listening(),  # noqa: B008 - frozen
    roster: options.Roster = None,
    out: Annotated[Path, "A folder for the releases."] = Path("releases"),
    enrolment_seconds: Annotated[
        float, typer.Option(min=0.1, help="How long people may take to come.")
    ] = 3600.0,
    phase_seconds: Annotated[
        float, typer.Option(min=0.1, help="After so long a phase goes on without stragglers.")
    ] = 300.0,
    operator_token_file: Annotated[
        Path | None, "What the operator's requests carry; made if missing."
    ] = None,
    identity: Annotated[
        Path | None, "Who you are: signs the transcripts, its name is shown."
    ] = None,
    again: Annotated[bool, "Begin a new round of studies whose last one is over."] = False,
    apart: Annotated[str, "With --again: the least time since the last one began."] = "1h",
    occurrence: options.Occurrence = None,
    every: Annotated[Every | None, "Begin a round in every such period."] = None,
    purge_after: Annotated[
        str | None, "Delete the messages of rounds that ended so long ago, such as 90d."
    ] = None,
    once: Annotated[bool, "End when the rounds are over."] = False,
    with_pages: Annotated[
        bool, typer.Option("--pages/--no-pages", help="Pages for people beside the protocol.")
    ] = True,
    public: Annotated[
        bool,
        typer.Option(
            "--public",
            "--public-pages",
            help="Let everybody read of rounds and releases; nobody is named.",
        ),
    ] = False,
    helper: SecondServer = SecondServer(),  # noqa: B008 - frozen
    as_json: output.Json = False,
) -> None:
    """Coordinate rounds of these studies over HTTPS.

    A round that the store has continues: a coordinator that was killed loses nothing that it had
    acknowledged. SIGTERM stops it after the requests under way. Started again, also with --again,
    it begins no new round while one of the study is running.
    """
    extras.require("serve")

    from dhdmm.cli import serving
    from dhdmm.server import logs
    from dhdmm.server.app import create_app
    from dhdmm.server.database import Database
    from dhdmm.server.limits import Limits
    from dhdmm.server.metrics import Metrics
    from dhdmm.server.process import run
    from dhdmm.server.recurring import Recurring
    from dhdmm.server.studies import Hub, add_study
    from dhdmm.server.waiting import Deadlines
    from dhdmm.study.spec import Study

    signer, invited = _identity(identity), _roster(roster, studies)
    link, second = helper.link(signer.identity), helper.key
    begin = _beginning(again, seconds_of(apart), occurrence, every)
    if once and every is not None:
        raise DhdmmError("--once and --every exclude each other", hint="give one")
    keep = None if purge_after is None else seconds_of(purge_after)
    require_writable(out)
    asked = [Study.load(path) for path in studies]
    database = Database(store)
    token = _operator_token(operator_token_file)
    hub = Hub(
        database,
        signer.identity,
        out,
        Deadlines(enrolment_seconds, phase_seconds),
        observer := Metrics(),
        name=signer.name,
        helper=link,
    )
    app = create_app(
        hub,
        token,
        metrics=observer,
        pages=_pages(hub, token, with_pages, public),
        public=public,
    )
    server = listening.server(
        app, Limits(), metrics=observer, on_drain=hub.drain, recognise=app.state.callers.admit
    )
    shown = screen()
    logs.configure(as_json=shown is None, console=shown)
    if operator_token_file is None and shown is None:
        logs.logger().warning("nobody can operate the rounds: give --operator-token-file")
    database.migrate()  # only now: whatever was given is in order
    rounds = _rounds(database, asked, invited, begin, second)
    beside: list[Work] = [] if keep is None else [partial(serving.purge_hourly, hub, keep)]
    if every is not None:
        known = [add_study(database, study, second) for study in asked]
        beside.append(Recurring(hub, known, every, lambda: _roster(roster, studies)).run)
    if once:
        beside.append(partial(serving.stop_when_saved, server, hub))
    try:
        run(serving.serve(server, hub, rounds, beside, shown))
        statuses = serving.final_statuses(hub)
    finally:
        database.close()
    document = _summary(hub, [status for status in statuses if status.round in rounds])
    output.emit(document, as_json, lambda screen: _draw(screen, document))
    if once and any(entry["state"] != "finished" for entry in document["rounds"]):
        raise RoundAborted(
            "a round ended without a release", hint="dhdmm serve --again, or with --occurrence"
        )


def _pages(hub: Hub, token: str, wanted: bool, public: bool) -> Pages | None:
    if not wanted:
        return None
    from dhdmm.web.pages import create_pages

    return create_pages(hub, token, public=public)


# ---- what is given -------------------------------------------------------------------------------


def _operator_token(path: Path | None) -> str:
    """From the file, which is made if it is missing; without a file, one for this run.

    That one is shown to whoever watches, and never where it would end up in a log.
    """
    from dhdmm.network.files import create_new, read_secret

    if path is None:
        token = secrets.token_urlsafe(32)
        if sys.stderr.isatty():
            print(f"operator token: {token}", file=sys.stderr)
        return token
    if not path.exists():
        create_new(path, secrets.token_urlsafe(32).encode() + b"\n", private=True)
    return read_secret(path)


def _identity(path: Path | None) -> NamedIdentity:
    """Without a file: a key for this process, and no name."""
    from dhdmm.aggregation.identity import Identity
    from dhdmm.network.identity import NamedIdentity, load

    return NamedIdentity("", Identity.generate(os.urandom)) if path is None else load(path)


def _roster(path: Path | None, studies: list[Path]) -> RosterFile | None:
    if path is None:
        return None
    from dhdmm.network.roster import RosterFile

    if len(studies) > 1:
        raise DhdmmError("one roster is for one study", hint="serve them one by one")
    return RosterFile.load(path)


def _beginning(again: bool, apart: int, occurrence: str | None, every: Every | None) -> Begin:
    """The function that finds a study's round: a new one, or the one that it has."""
    from dhdmm.server.studies import Chosen, begin_again, current_round

    if again + (occurrence is not None) + (every is not None) > 1:
        raise DhdmmError("--again, --occurrence and --every exclude each other", hint="give one")
    if every is not None:
        occurrence = occurrence_at(every, now())
    if occurrence is not None:
        return partial(begin_again, occurrence=occurrence)
    if again:
        return partial(begin_again, apart=apart)
    return lambda *given: Chosen(current_round(*given))


def _rounds(
    database: Database,
    studies: list[Study],
    roster: RosterFile | None,
    begin: Begin,
    helper: bytes | None,
) -> list[str]:
    from dhdmm.server.studies import add_study, runs_under_another_roster

    rounds = []
    for study in studies:
        known = add_study(database, study, helper)
        chosen = begin(database, known, roster)
        if chosen.because is not None:
            _say(f"no new round: {chosen.because}", chosen.round, study)
        if roster and runs_under_another_roster(database, known, chosen.round, roster):
            _say(OTHER_ROSTER, chosen.round, study)
        rounds.append(chosen.round)
    return rounds


def _say(words: str, round_id: str, study: Study) -> None:
    """Print it on a terminal, or log it."""
    from dhdmm.server.logs import logger

    if sys.stderr.isatty():
        print(f"{study.name}, round {round_id}: {words}", file=sys.stderr)
    else:
        logger().warning(words, round=round_id, study_digest=study.digest.hex())


# ---- what is shown -------------------------------------------------------------------------------


def screen() -> Console | None:
    """Standard error while a person watches it; None in a pipe or a file."""
    from rich.console import Console as Terminal

    return Terminal(stderr=True) if sys.stderr.isatty() else None


def _summary(hub: Hub, statuses: list[Status]) -> dict[str, Any]:
    return {
        "rounds": [
            {
                "round": status.round,
                "study": status.study,
                "state": status.state,
                "participants": status.enrolled,
                "survivors": status.alive if status.finished else None,
                "reason": status.reason,
                "release": str(hub.directory(status)) if status.finished else None,
            }
            for status in statuses
        ],
        "transcript_key": hub.identity.public.hex(),
    }


def _draw(screen: Console, document: dict[str, Any]) -> None:
    for entry in document["rounds"]:
        line = f"{entry['study']}, round {entry['round']}: {entry['state']}"
        if entry["release"]:
            line += f" with {entry['survivors']} of {entry['participants']} participants"
        screen.print(f"{line} ({entry['reason']})" if entry["reason"] else line)
        if entry["release"]:
            screen.print(f"release written to {entry['release']}")
