"""`dhdmm check`: what a study would count of a table, before anything is measured."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from dhdmm.cli import options, output
from dhdmm.cli.places import opened, tables_given
from dhdmm.network.files import create_new
from dhdmm.participant.check import Checked, ColumnCheck
from dhdmm.participant.check import check as checked
from dhdmm.participant.report import ACCEPTED_LOSS, percent
from dhdmm.release.wording import printable
from dhdmm.study.spec import Study

VALUES, MARGINAL = 5, 6
"""Unknown values, and values of a marginal, that a person sees; --json has more."""
LONGEST = 24


def check(
    study: options.StudyFile,
    data: Annotated[str, "Your table, a folder of tables, or its address in a warehouse."],
    reading: options.Tables = options.Tables(),  # noqa: B008 - frozen
    propose: Annotated[Path | None, "Write a mapping file for what can be guessed."] = None,
    as_json: output.Json = False,
) -> None:
    """Count a table as a round would, and show what is left out, why, and what it holds.

    A dry run: nothing leaves this machine and no budget is spent. It shows your data: what it
    prints is for you.
    """
    asked = Study.load(study)
    columns = reading.reading(asked)["columns"]
    tables = tables_given(data)
    found = []
    with output.progress("checking", len(tables)) as advance:
        for done, table in enumerate(tables, 1):
            found.append((str(table), checked(asked, opened(table), columns=columns)))
            advance(done)
    document: dict[str, Any] = {
        "study": asked.name,
        "tables": [_document(name, one) for name, one in found],
        "proposal": None,
    }
    if propose is not None:
        document["proposal"] = _write_proposal(propose, [one for _, one in found])
    output.emit(document, as_json, lambda screen: _draw(screen, found, document, reading.accepted))


def _write_proposal(path: Path, found: list[Checked]) -> str | None:
    """Of the first table that needs one: a participant has one table."""
    text = next((text for one in found if (text := one.proposal()) is not None), None)
    if text is None:
        return None
    create_new(path, text.encode(), private=False)
    return str(path)


def _document(name: str, one: Checked) -> dict[str, Any]:
    return {
        "table": name,
        "rows": one.report.figures(),
        "warning": one.warning,
        "columns": [
            {
                "attribute": column.attribute,
                "column": column.column,
                "rows_unknown": column.rows,
                "unknown": [
                    {"value": value.value, "rows": value.rows, "likely": value.fix}
                    for value in column.unknown
                ],
                "marginal": dict(column.marginal),
            }
            for column in one.columns
        ],
    }


def _draw(
    screen: Console, found: list[tuple[str, Checked]], document: dict[str, Any], accepted: float
) -> None:
    for name, one in found:
        first, *reasons = one.report.words()
        screen.print(Text.assemble((printable(name), "bold"), f": {first}"), soft_wrap=True)
        for reason in reasons:
            screen.print(f"  {escape(reason)}", soft_wrap=True)
        for column in one.columns:
            if column.unknown:
                _draw_unknown(screen, column)
        _draw_marginals(screen, one)
        if one.warning:
            screen.print(f"[bold]Warning:[/bold] {escape(one.warning)}")
        screen.print()
    _draw_advice(screen, [one for _, one in found], document["proposal"], accepted)


def _draw_unknown(screen: Console, column: ColumnCheck) -> None:
    title = f"unknown in {printable(column.column, LONGEST)}"
    drawn = output.table(title, "likely", numbers=["rows"])
    for one in column.unknown[:VALUES]:
        value = "NULL" if one.value is None else f"'{printable(one.value, LONGEST)}'"
        drawn.add_row(Text(value), Text(printable(one.fix, 2 * LONGEST)), f"{one.rows:,}")
    rest = column.unknown[VALUES:]
    if rest:
        drawn.add_row(f"… {len(rest)} more values", "", f"{sum(one.rows for one in rest):,}")
    screen.print("", drawn)


def _draw_marginals(screen: Console, one: Checked) -> None:
    drawn = output.table("counted", "most frequent values, with rows")
    for column in one.columns:
        most = Counter(dict(column.marginal)).most_common(MARGINAL)
        words = ", ".join(f"{printable(label, LONGEST)} {rows:,}" for label, rows in most)
        more = len(column.marginal) - len(most)
        drawn.add_row(Text(column.attribute), Text(words + (f", … {more:,} more" if more else "")))
    screen.print("", drawn)


def _draw_advice(
    screen: Console, found: list[Checked], proposal: str | None, accepted: float
) -> None:
    if proposal is not None:
        screen.print(f"Read the mapping in {proposal}, then use it: --columns {proposal}")
    elif any(one.proposal() for one in found):
        screen.print("--propose FILE writes a mapping for what can be guessed.")
    absent = dict.fromkeys(
        column.attribute
        for one in found
        for column in one.columns
        if any(value.kind == "missing" for value in column.unknown)
    )
    if absent:
        screen.print(
            f"Missing values of {', '.join(map(escape, absent))} are counted if the study declares"
            " them: missing: true."
        )
    worst = max((one.report.loss for one in found), default=0.0)
    if worst > max(accepted, ACCEPTED_LOSS):
        screen.print(
            f"Rounds refuse to leave out more than {percent(accepted)} of the rows"
            " unless --accept-loss allows it."
        )
