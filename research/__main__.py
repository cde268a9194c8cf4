"""`python -m research`: the published tables and figures, ours beside theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dhdmm.cli import output
from dhdmm.cli.main import run_app
from dhdmm.errors import DataError
from research.paper.run import reproduce, units_of
from research.paper.settings import SEED, Settings
from research.paper.settings import quick as quick_settings

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def paper(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Tables and figures; all if none is named."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder to write to, or to continue in.")] = Path(
        "paper"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller rounds and fewer repetitions: minutes.")
    ] = False,
    adult: Annotated[
        Path | None, typer.Option(help="The Adult data as CSV; made-up records without it.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of records and simulated secrets.")] = SEED,
) -> None:
    """Reproduce the paper's evaluation. An interrupted run continues where it stopped."""
    wanted = names or []
    settings = (quick_settings if quick else Settings)(seed=seed, adult=adult)
    if out.exists() and not out.is_dir():
        raise DataError("not a folder", where=str(out), hint="name another place with --out")
    command = _command(wanted, quick, adult, seed)
    with output.progress("units of work", len(units_of(wanted, settings))) as advance:
        finished = reproduce(wanted, out, settings, command, lambda done, _unit: advance(done))
    for done in finished:
        print(f"{done.item.title} ({done.item.name})")
        for remark in done.item.remarks(done.rows):
            print(f"  {remark}")
    print(f"\n{out / 'report.html'}, {out / 'results.md'} and {out / 'results'}")


def _command(names: list[str], quick: bool, adult: Path | None, seed: int) -> str:
    """What to type to get the same; of paths only the name."""
    parts = ["python -m research", *names, *["--quick"] * quick]
    if adult is not None:
        parts.append(f"--adult {adult.name}")
    if seed != SEED:
        parts.append(f"--seed {seed}")
    return " ".join([*parts, "--out DIR"])


if __name__ == "__main__":
    run_app(app)
