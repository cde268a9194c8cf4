"""`dhdmm paper`: the published tables and figures, ours beside theirs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dhdmm.cli import output
from dhdmm.errors import DataError
from dhdmm.paper.settings import SEED, Settings
from dhdmm.paper.settings import quick as quick_settings

if TYPE_CHECKING:
    from rich.console import Console

    from dhdmm.paper.report import Finished


def paper(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Tables and figures; all if none is named."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder to write to, or to go on in.")] = Path(
        "paper"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller rounds and fewer repetitions: minutes.")
    ] = False,
    adult: Annotated[
        Path | None, typer.Option(help="The Adult data as CSV; made-up records without it.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of records and simulated secrets.")] = SEED,
    as_json: output.Json = False,
) -> None:
    """Reproduce the paper's evaluation. An interrupted run goes on where it was."""
    from dhdmm.paper.run import reproduce, units_of

    wanted = names or []
    make = quick_settings if quick else Settings
    settings = make(seed=seed, adult=adult)
    if out.exists() and not out.is_dir():
        raise DataError("not a folder", where=str(out), hint="name another place with --out")
    with output.progress("units of work", len(units_of(wanted, settings))) as advance:
        finished = reproduce(
            wanted,
            out,
            settings,
            _command(wanted, quick, adult, seed),
            lambda done, _unit: advance(done),
        )
    document = {
        "run": settings.label,
        "seed": seed,
        "out": str(out),
        "items": {done.item.name: _document(done) for done in finished},
    }
    output.emit(document, as_json, lambda screen: _draw(screen, finished, out))


def _command(names: list[str], quick: bool, adult: Path | None, seed: int) -> str:
    """What to type to get the same; of paths only the name."""
    parts = ["dhdmm paper", *names, *["--quick"] * quick]
    if adult is not None:
        parts.append(f"--adult {adult.name}")
    if seed != SEED:
        parts.append(f"--seed {seed}")
    return " ".join([*parts, "--out DIR"])


def _document(done: Finished) -> dict[str, Any]:
    remarks = list(done.item.remarks(done.rows))
    return {"title": done.item.title, "remarks": remarks, "rows": done.rows}


def _draw(screen: Console, finished: list[Finished], out: Path) -> None:
    for done in finished:
        screen.print(f"[bold]{done.item.title}[/bold]  [dim]{done.item.name}[/dim]")
        for remark in done.item.remarks(done.rows):
            screen.print(f"  {remark}")
    screen.print(f"\n{out / 'report.html'}, {out / 'results.md'} and {out / 'results'}")
