"""`dhdmm init` and `dhdmm describe`: from nothing to a study, and back into words."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from dhdmm.cli import options, output
from dhdmm.cli.places import opened, tables_given
from dhdmm.errors import StudyError
from dhdmm.network.files import writing
from dhdmm.participant.drafting import seen_columns
from dhdmm.study import skeleton
from dhdmm.study.attributes.columns import MOST_TEXTS
from dhdmm.study.describe import OBJECTIVES
from dhdmm.study.describe import describe as described
from dhdmm.study.spec import Study, json_schema

SHOWN_TERMS = 8


def init(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The study file to write.")] = Path(
        "study.yaml"
    ),
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Draft it from this table's columns and values: CSV, TSV, Parquet, or its address"
            " in a warehouse.",
        ),
    ] = None,
    max_values: Annotated[
        int, typer.Option(min=1, help="Different texts that a draft lists.")
    ] = MOST_TEXTS,
    schema: Annotated[bool, "Print the JSON Schema of study files for editors."] = False,
    force: Annotated[bool, "Overwrite an existing file."] = False,
    as_json: output.Json = False,
) -> None:
    """Write a first study file: a commented example, or a draft from a table."""
    if schema:
        print(output.to_json(json_schema(), sys.stdout, indent=2))
        return

    text = skeleton.example() if source is None else _drafted(source, max_values)
    _write(path, text, force)
    output.emit({"written": str(path)}, as_json, lambda screen: _next_steps(screen, path, source))


def _drafted(source: str, most: int) -> str:
    path = Path(source)
    if path.suffix.lower() == ".csv":
        return skeleton.skeleton_from_csv(path, most)
    (table, *more) = tables_given(source)
    if more:
        raise StudyError("a study is drafted from one table", where=source)
    name = table.stem if isinstance(table, Path) else table.table
    return skeleton.skeleton_of(name, seen_columns(opened(table), most), str(table))


def describe(
    study: options.StudyFile,
    as_json: output.Json = False,
) -> None:
    """Say in words what a study asks, table by table."""

    document = described(Study.load(study))
    output.emit(document, as_json, lambda screen: draw(screen, document))


def _write(path: Path, text: str, force: bool) -> None:
    with (
        writing(path, "another name, or --force"),
        path.open("w" if force else "x", encoding="utf-8") as file,
    ):
        file.write(text)


def _next_steps(screen: Console, path: Path, source: str | None) -> None:
    screen.print(f"Wrote {path}. Edit it, then run: dhdmm describe {path}", soft_wrap=True)
    if source:
        screen.print(
            "Replace the ranges and values read off the data by publicly known ones first."
        )


def draw(screen: Console, document: dict[str, Any]) -> None:
    """A described study for a person, in 80 columns."""

    screen.print(f"[bold]{escape(document['study'])}[/bold]")
    queries = output.count_of(document["queries"], "query", "queries")
    tables = output.count_of(len(document["tables"]), "table")
    cells = output.count_of(document["cells"], "cell")
    screen.print(f"{queries} in {tables} over {cells}.\n")
    schema = output.table("attribute", "type", "values", "domain")
    for entry in document["attributes"]:
        size = f"{entry['size']:,}"
        schema.add_row(escape(entry["name"]), entry["type"], size, escape(entry["domain"]))
    screen.print(schema, "")
    for entry in document["groupings"]:
        sets = output.count_of(len(entry["sets"]), "set")
        rest = output.count_of(entry["left_out"], "value")
        note = f", {rest} in none of them" if entry["left_out"] else ""
        screen.print(f"[bold]{escape(entry['name'])}[/bold]: {sets} of {escape(entry['of'])}{note}")
    if document["groupings"]:
        screen.print()
    for table in document["tables"]:
        _draw_table(screen, table)
    if document["objective"] != OBJECTIVES["total"]:
        screen.print(f"[bold]objective[/bold]: {document['objective']} is made small")
    for section in ("privacy", "aggregation"):
        if document[section]:
            screen.print(f"[bold]{section}[/bold]: {escape(document[section])}")


def _draw_table(screen: Console, table: dict[str, Any]) -> None:

    summary = f": {table['summary']}" if table["summary"] else ""
    title = f"[bold]{escape(table['name'])}[/bold]{escape(summary)}"
    target = "" if table["target"] is None else f", standard errors up to {table['target']:g}"
    screen.print(f"{title}, {output.count_of(table['queries'], 'query', 'queries')}{target}")
    for term in table["terms"][:SHOWN_TERMS]:
        weight = f", weight {term['weight']:g}" if term["weight"] != 1 else ""
        words = f"· {term['words']}: {term['queries']:,}{weight}"
        screen.print(Padding(escape(words), (0, 0, 0, 2)))
    if len(table["terms"]) > SHOWN_TERMS:
        screen.print(f"  · … and {len(table['terms']) - SHOWN_TERMS} more terms (--json lists all)")
    screen.print()
