"""A run: the chosen items' work done or found, their rows, and the report."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from research.paper import report
from research.paper.catalogue import chosen
from research.paper.report import Finished
from research.paper.settings import Settings
from research.paper.work import ResultStore, Unit

WORK = "work"

Advance = Callable[[int, Unit], None]


def reproduce(
    names: Sequence[str],
    folder: Path,
    settings: Settings,
    command: str = "python -m research",
    advance: Advance = lambda _done, _unit: None,
) -> list[Finished]:
    """The named items, or all; results of units that are in `folder` already are used."""
    items, units = chosen(names), units_of(names, settings)
    _make_side_by_side(names, folder, settings, advance)
    results = ResultStore(folder / WORK).results(units, advance)
    finished = [Finished(item, item.compute(settings, results)) for item in items]
    report.write(folder, finished, settings, command)
    return finished


def units_of(names: Sequence[str], settings: Settings) -> list[Unit]:
    """The different units that there are to do."""
    return list(dict.fromkeys(unit for item in chosen(names) for unit in item.units(settings)))


def _make_side_by_side(
    names: Sequence[str], folder: Path, settings: Settings, advance: Advance
) -> None:
    """On all cores, and before anything is timed: the units that need not be alone."""
    units = units_of(names, settings)
    missing = ResultStore(folder / WORK).missing(units)
    waiting = [unit for unit in missing if not unit.alone]
    if not waiting:
        return
    cores = min(len(waiting), os.cpu_count() or 1)
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        jobs = {pool.submit(_make, names, folder, settings, u.name): u for u in waiting}
        try:
            for done, job in enumerate(as_completed(jobs), start=len(units) - len(missing)):
                advance(done, jobs[job])
                job.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _make(names: Sequence[str], folder: Path, settings: Settings, name: str) -> None:
    """In a process of its own, to which only names and settings are sent."""
    [unit] = [unit for unit in units_of(names, settings) if unit.name == name]
    ResultStore(folder / WORK).make(unit)
