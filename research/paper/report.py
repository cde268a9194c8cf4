"""What a run writes: a CSV file and two pictures an item, one page of HTML, one of Markdown, and
the lines that README shows.

The HTML page is self-contained: pictures are inside it and no other host is asked for anything. The
Markdown page, results.md, shows the pictures of the folder beside it.
"""

from __future__ import annotations

import base64
import csv
import io
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

import dhdmm
from research.paper.item import PaperItem, Row
from research.paper.records import description
from research.paper.settings import Settings
from research.paper.style import DOTS_PER_INCH
from research.paper.summary import readme

PICTURES = "results"
LIBRARIES = ("cryptography", "numpy", "pynacl", "scipy")
QUICK = "This is a quick run: fewer participants and repetitions than the paper's."

CSS = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff }
table { border-collapse: collapse; font-size: 0.85rem; margin: 1rem 0; display: block;
        overflow-x: auto }
th, td { padding: 0.2rem 0.6rem; border-bottom: 1px solid #ddd; text-align: right }
th:first-child, td:first-child { text-align: left }
img { max-width: 100% }
.quick { background: #fff3cd; padding: 0.5rem 1rem }
"""


@dataclass(frozen=True)
class Finished:
    """An item with its rows."""

    item: PaperItem
    rows: list[Row]


def write(folder: Path, finished: Sequence[Finished], settings: Settings, command: str) -> None:
    """Everything, into `folder`."""
    pictures = folder / PICTURES
    pictures.mkdir(parents=True, exist_ok=True)
    drawn = {}
    for done in finished:
        name = done.item.name
        (pictures / f"{name}.csv").write_text(_csv(done.rows), encoding="utf-8", newline="")
        figure = done.item.draw(done.rows)
        figure.savefig(pictures / f"{name}.png", dpi=DOTS_PER_INCH)
        figure.set_layout_engine("none")  # found once, the layout fits the second picture too
        drawn[name] = _svg(figure)
        (pictures / f"{name}.svg").write_bytes(drawn[name])
    summary = readme({done.item.name: done.rows for done in finished})
    if summary is not None:
        (folder / "readme.md").write_text(summary, encoding="utf-8")
    about = _about(settings, command)
    (folder / "results.md").write_text(_markdown(finished, about, settings), encoding="utf-8")
    (folder / "report.html").write_text(_html(finished, about, settings, drawn), encoding="utf-8")


def _csv(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    table = csv.DictWriter(text, names, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


def _svg(figure: Figure) -> bytes:
    """The same bytes for the same figure: no date, fixed identifiers."""
    drawn = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "dhdmm"}):
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return drawn.getvalue()


def _about(settings: Settings, command: str) -> dict[str, str]:
    """How the numbers came about; no host names and no paths."""
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return {
        "Command": f"`{command}`",
        "Run": settings.label,
        "Seed": str(settings.seed),
        "Versions": f"dhdmm {dhdmm.__version__}, Python {platform.python_version()}, {libraries}",
        "Machine": f"{_processor()}, {os.cpu_count()} cores",
        "Adult": description("adult-5", settings.adult),
        "SF1": description("census-sf1", settings.adult),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


# ---- Markdown -----------------------------------------------------------------------------------


def _markdown(finished: Sequence[Finished], about: dict[str, str], settings: Settings) -> str:
    parts = [
        "# Results",
        "The published evaluation, repeated: every table and figure, ours beside the paper's."
        " Participants are real sessions with real cryptography; the network is a model, and the"
        " web server, its store and TLS are left out. Of rounds beyond the paper's sizes the"
        " coordinator alone is executed. This page is written by `python -m research`.",
    ]
    if settings.label != "full":
        parts.append(f"**{QUICK}**")
    parts.append("\n".join(f"- {name}: {text}" for name, text in about.items()))
    for done in finished:
        item = done.item
        begins, about_it = item.about
        parts += [f"## {item.title}", f"*{begins}* {about_it}" if begins else about_it]
        parts.append(f"![{item.title}]({PICTURES}/{item.name}.svg)")
        parts.append("\n".join(f"- {remark}" for remark in item.remarks(done.rows)))
        parts.append(_markdown_table(done))
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_table(done: Finished) -> str:
    columns = done.item.columns
    lines = [
        _line(column.header for column in columns),
        _line("---" if place == 0 else "--:" for place in range(len(columns))),
    ]
    lines += [_line(column.text(row) for column in columns) for row in done.rows]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


# ---- HTML ---------------------------------------------------------------------------------------


def _html(
    finished: Sequence[Finished],
    about: dict[str, str],
    settings: Settings,
    drawn: dict[str, bytes],
) -> str:
    facts = "".join(
        f"<li>{escape(name)}: {escape(text.strip('`'))}</li>" for name, text in about.items()
    )
    links = "".join(
        f'<li><a href="#{done.item.name}">{escape(done.item.title)}</a></li>' for done in finished
    )
    warning = "" if settings.label == "full" else f'<p class="quick">{escape(QUICK)}</p>'
    sections = "".join(_section(done, drawn[done.item.name]) for done in finished)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>dhdmm: the paper reproduced</title><style>{CSS}</style></head><body>"
        f"<h1>The paper reproduced</h1>{warning}<ul>{facts}</ul><nav><ol>{links}</ol></nav>"
        f"{sections}</body></html>\n"
    )


def _section(done: Finished, svg: bytes) -> str:
    item, picture = done.item, base64.b64encode(svg).decode()
    begins, about_it = item.about
    remarks = "".join(f"<li>{escape(remark)}</li>" for remark in item.remarks(done.rows))
    head = "".join(f"<th>{escape(column.header)}</th>" for column in item.columns)
    body = "".join(
        "<tr>"
        + "".join(f"<td>{escape(column.text(row))}</td>" for column in item.columns)
        + "</tr>"
        for row in done.rows
    )
    return (
        f'<section id="{item.name}"><h2>{escape(item.title)}</h2>'
        f"<p><em>{begins}</em> {escape(about_it)}</p>"
        f'<img alt="{escape(item.title)}" src="data:image/svg+xml;base64,{picture}">'
        f"<ul>{remarks}</ul><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        "</section>"
    )
