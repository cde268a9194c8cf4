"""`dhdmm dev-network`: a coordinator and participants on this machine, to see a round happen."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dhdmm.cli import coordinator, extras, options, output
from dhdmm.errors import DataError, DhdmmError, RoundAborted

if TYPE_CHECKING:
    from rich.console import Console

    from dhdmm.cli.local_network import LocalNetwork
    from dhdmm.study.spec import Study


def dev_network(
    study: options.StudyFile,
    participants: Annotated[
        int | None, typer.Option(min=3, help="How many; by default the fewest the study allows.")
    ] = None,
    data: Annotated[
        Path | None, "A folder with a table each, or one table to deal out; else made up."
    ] = None,
    threat_model: options.ThreatModel = None,
    dropout: options.Dropout = 0.0,
    phase_seconds: Annotated[
        float | None,
        typer.Option(min=1, help="How long a phase waits: 10 for those who are killed, else 300."),
    ] = None,
    out: options.ReleaseOut = None,
    as_json: output.Json = False,
) -> None:
    """Run a round among real processes on this machine, over TLS, and clean up afterwards."""
    extras.require("join")
    extras.require("serve")
    from dhdmm.cli.local_network import LocalNetwork
    from dhdmm.cli.places import require_free
    from dhdmm.cli.run import study_of

    started = time.monotonic()
    asked = study_of(study, threat_model)
    directory = out or Path(f"release-{study.stem}")
    require_free(directory)
    with tempfile.TemporaryDirectory(prefix="dhdmm-network-") as made:
        folder = Path(made)
        (folder / "study.yaml").write_text(asked.to_yaml(), encoding="utf-8")
        tables = _tables(asked, participants, data, folder)
        dropouts = math.floor(dropout * len(tables) + 1e-9)
        wait = phase_seconds or (10.0 if dropouts else 300.0)
        with LocalNetwork(folder / "study.yaml", folder, tables, wait) as network:
            killed = _run(network, dropouts)
            shutil.copytree(network.release(), directory)
            document = _document(network, killed, directory)
    document |= {"study": asked.name, "seconds": time.monotonic() - started}
    output.emit(document, as_json, lambda screen: _draw(screen, document))


def _tables(study: Study, participants: int | None, data: Path | None, folder: Path) -> list[Path]:
    """A file for every participant."""
    from dhdmm.cli.places import tables_given
    from dhdmm.demo import made_up
    from dhdmm.planning.calibrate import participants_allowed

    if data is not None and data.is_dir():
        files = sorted(path for path in tables_given(str(data)) if isinstance(path, Path))
        if participants not in (None, len(files)):
            raise DataError(f"the folder has {len(files)} tables", where=str(data))
        return files
    count = participants or participants_allowed(study.aggregation)[0]
    if data is None:
        tables = made_up.made_up(study, count)
    elif study.privacy.person is None:
        tables = made_up.dealt_out(study, data, count)
    else:
        raise DataError(
            "a table cannot be dealt out by rows when the unit is a person",
            hint="give a folder with one file per participant",
        )
    paths = [folder / f"table-{number + 1}.csv" for number in range(count)]
    for path, table in zip(paths, tables, strict=True):
        made_up.write(table, path)
    return paths


def _run(network: LocalNetwork, dropouts: int) -> list[int]:
    """Everybody joins; the first so many are killed when inputs are asked for.

    By then they have shared their secrets: the costliest moment for the others.
    """
    from dhdmm.aggregation.method import ABORTED, ThreatModel, input_phase
    from dhdmm.planning.methods import METHODS

    coordinator.note(f"coordinator at {network.address}")
    for number in range(len(network)):
        network.join(number)
    killed: list[int] = []
    last = ""
    for status in network.statuses():
        if status.state != last:
            coordinator.note(f"{status.state}: {status.alive or status.enrolled} participants")
        last = status.state
        inputs = input_phase(METHODS[ThreatModel(status.threat_model)])
        if status.state == inputs.name and not killed:
            killed = list(range(dropouts))
            for number in killed:
                network.kill(number)
        if status.state == ABORTED.name:
            raise RoundAborted(f"the round ended without a release: {status.reason}")
    network.await_end()
    return killed


def _document(network: LocalNetwork, killed: list[int], directory: Path) -> dict[str, Any]:
    from dhdmm.release.release import Release

    others = [number for number in range(len(network)) if number not in killed]
    said = {number: network.printed(number) for number in others}
    silent = [number for number in others if not said[number]]
    if silent:
        raise DhdmmError(
            f"participant {silent[0] + 1} did not finish", hint=network.last_error(silent[0])
        )
    digests = {one["release_digest"] for one in said.values() if one["release_digest"]}
    release = Release.load(directory)
    return {
        "threat_model": release.plan.threat_model.value,
        "participants": len(network),
        "killed": len(killed),
        "survivors": release.survivors,
        "endings": dict(Counter(one["ending"] for one in said.values())),
        "same_release": len(digests) == 1,
        "release_digest": min(digests, default=None),
        "release": str(directory),
    }


def _draw(screen: Console, document: dict[str, Any]) -> None:
    endings = ", ".join(f"{count} {name}" for name, count in document["endings"].items())
    screen.print(
        f"{document['participants']} participants ({document['threat_model']}),"
        f" {document['killed']} killed, {document['survivors']} in the sum: {endings}"
    )
    if document["same_release"]:
        screen.print("All of them have a receipt of the same release.")
    screen.print(f"release written to {document['release']}", soft_wrap=True, markup=False)
