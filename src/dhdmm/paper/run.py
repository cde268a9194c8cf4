"""A run: the chosen items' work done or found, their rows, and the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from dhdmm.paper import report
from dhdmm.paper.catalogue import chosen
from dhdmm.paper.report import Finished
from dhdmm.paper.settings import Settings
from dhdmm.paper.work import Unit, Workshop

WORK = "work"


def reproduce(
    names: Sequence[str],
    folder: Path,
    settings: Settings,
    command: str = "dhdmm paper",
    advance: Callable[[int, Unit], None] = lambda _done, _unit: None,
) -> list[Finished]:
    """The named items, or all; results of units that are in `folder` already are used."""
    items = chosen(names)
    units = [unit for item in items for unit in item.units(settings)]
    results = Workshop(folder / WORK).results(units, advance)
    finished = [Finished(item, item.compute(settings, results)) for item in items]
    report.write(folder, finished, settings, command)
    return finished


def units_of(names: Sequence[str], settings: Settings) -> int:
    """How many different units there are to do."""
    return len({unit.name for item in chosen(names) for unit in item.units(settings)})
