"""How a release is drawn on a terminal: `dhdmm show`, `run` and `demo` all draw it like this.

Heavy imports stand at the top: commands import this module when they have something to draw.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from dhdmm.release.coverage import coverage_words
from dhdmm.release.frames import places_of, plain_rows
from dhdmm.release.release import Release
from dhdmm.release.tables import CONDITION, Table
from dhdmm.release.wording import UNITS_OF_TIME, number, printable
from dhdmm.study.query import TOTAL

MOST_LABEL_COLUMNS = 3
"""Above it, one column has every label with its header."""
MOST_HEADER = 16
LABEL_CHARACTERS = 44
"""What 80 columns leave beside the numbers."""


def document(release: Release, tables: list[Table]) -> dict[str, Any]:
    """Provenance and rows as plain values."""
    return {
        "provenance": release.provenance(),
        "rows_counted": coverage_words(release),
        "tables": [
            {
                "item": table.name,
                "queries": table.item.queries,
                "level": table.level,
                "rows": plain_rows(table.to_arrow()),
            }
            for table in tables
        ],
    }


def draw_release(screen: Console, release: Release, tables: list[Table]) -> None:
    draw_provenance(screen, release)
    for table in tables:
        draw_table(screen, table)


def draw_provenance(screen: Console, release: Release) -> None:
    """The study, who took part, what it cost and where it comes from, in a few lines."""
    facts = release.provenance()
    lines = RichTable(box=None, show_header=False, pad_edge=False)
    lines.add_row("study", Text(printable(facts["study"]), "bold"))
    lines.add_row(
        "participants",
        f"{facts['participants']:,}, of whom {facts['survivors']:,} are in the sums"
        f" ({facts['threat_model']} model){excess_words(release)}",
    )
    lines.add_row(
        "privacy",
        f"ε = {facts['epsilon']:.4g} at δ = {facts['delta']:.2g} (ρ = {facts['rho']:.4g})",
    )
    lines.add_row("rows", coverage_words(release))
    lines.add_row("plan", f"{facts['plan_digest'][:16]}…")
    lines.add_row("release", release.maker.words)
    screen.print(lines, "")


def excess_words(release: Release) -> str:
    """Who removed noise that was not needed, where the study has it removed."""
    if release.plan.removable is None:
        return ""
    removed = release.survivors - release.unremoved
    return f"; {removed:,} of them removed noise that was not needed"


def draw_table(screen: Console, table: Table, rows: int | None = None) -> None:
    """The table's name and what holds for all of it, its first rows, and how many are left.

    `rows` is how many there are, if that is not all that the item asks.
    """
    words = "".join(f", {header}: {label}" for header, label in table.fixed.items())
    count = table.item.queries if rows is None else rows
    answers = f" ({count:,} {'answer' if count == 1 else 'answers'})"
    screen.print(Text.assemble((printable(table.name), "bold"), printable(words), (answers, "dim")))
    screen.print(render_table(table))
    if table.note:
        screen.print(Text(table.note))
    if len(table) < count:
        left = count - len(table)
        screen.print(Text(f"… {left:,} more {'row' if left == 1 else 'rows'}", "dim"))
    screen.print()


def render_table(table: Table) -> RichTable:
    """Labels, value ± standard error and the interval, numbers rounded by the smallest error.

    Where a query asks for several numbers, there is no room for their intervals.
    """
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    several = bool(table.others)
    labels = _cut(_label_columns(table), LABEL_CHARACTERS // 2 if several else LABEL_CHARACTERS)
    for header, _ in labels:
        drawn.add_column(Text(header), overflow="ellipsis", no_wrap=True)
    joint = "joint " if table.together else ""
    ends = (f"{joint}{100 * table.level:g} % from", "to")
    columns = {table.header: table.numbers, **table.others}
    for name in columns:
        for header in (name, "± s.e.", *(() if several else ends)):
            drawn.add_column(Text(printable(header, MOST_HEADER)), justify="right", no_wrap=True)
    texts = [
        column
        for numbers in columns.values()
        for column in _numbers(replace(table, numbers=numbers))[: 2 if several else 4]
    ]
    for row in zip(*(column for _, column in labels), *texts, strict=True):
        drawn.add_row(*map(Text, row))
    return drawn


def _label_columns(table: Table) -> dict[str, list[str]]:
    """The labels that differ between rows, in few columns."""
    labels = table.varying()
    if len(labels) > MOST_LABEL_COLUMNS:
        conditions = {CONDITION: labels[CONDITION]} if CONDITION in labels else {}
        return {"query": [words for words, _sql in table.queries()], **conditions}
    return labels or {"": [TOTAL] * len(table)}


def _cut(columns: dict[str, list[str]], most: int) -> list[tuple[str, list[str]]]:
    """Headers and labels that fit on a line of the terminal: the widest columns give way."""
    widths = [max(map(len, [header, *texts])) for header, texts in columns.items()]
    while sum(widths) > most:
        widths[widths.index(max(widths))] -= 1
    return [
        (printable(header, width), [printable(text, width) for text in texts])
        for (header, texts), width in zip(columns.items(), widths, strict=True)
    ]


def _numbers(table: Table) -> list[list[str]]:
    errors, numbers = table.standard_errors, (table.values, *table.bounds(table.together or 1))
    places, digits = places_of(errors, *numbers)
    value, low, high = (table.written(column, places) for column in numbers)
    unit = f" {UNITS_OF_TIME[table.times]}" if table.times else ""
    return [value, [f"± {number(error, digits)}{unit}" for error in errors.tolist()], low, high]
