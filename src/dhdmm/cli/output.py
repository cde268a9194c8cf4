"""How every command speaks: JSON for programs, tables for people, errors without tracebacks."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TextIO

import typer

from dhdmm.errors import DhdmmError, StudyError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def table(
    *words: str, numbers: Sequence[str] = (), header: bool = True, ruled: bool = False
) -> Table:
    """Columns of words, which fold, then of numbers; `ruled`, with a line under the header."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    box = SIMPLE_HEAD if ruled else None
    made = Table(box=box, pad_edge=False, show_edge=False, show_header=header)
    for name in words:
        made.add_column(name, overflow="fold")
    for name in numbers:
        made.add_column(name, justify="right", no_wrap=True)
    return made


def by_topic(rows: Iterable[tuple[str, str]]) -> Table:
    """What there is to say of each topic, beside its name."""
    from rich.markup import escape
    from rich.table import Table

    made = Table.grid(padding=(0, 2))
    made.add_column(style="bold", no_wrap=True)
    for topic, words in rows:
        made.add_row(topic, escape(words))
    return made


def count_of(number: int, one: str, many: str = "") -> str:
    """`1 query`, `2 queries`; the plural has an s unless it is given."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


PLAIN = {
    **{"−": "-", "–": "-", "…": "...", "±": "+/-", "×": "x", "·": "*", "√": "sqrt", "✓": "+"},
    **{"≤": "<=", "≥": ">=", "→": "->", "²": "^2", "’": "'", "─": "-"},
    **{"ε": "epsilon", "δ": "delta", "ρ": "rho", "σ": "sigma", "θ": "theta"},
}
"""What is written for characters that a terminal does not have."""


def replace_unprintable() -> None:
    """A terminal without ε, ± or a study's letters shows others; it is no error."""
    codecs.register_error("dhdmm", _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="dhdmm")


def _plain(error: UnicodeError) -> tuple[str, int]:
    """As a codec asks: what to write instead, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unknown = error.object[error.start : error.end]
    return "".join(PLAIN.get(letter, "?") for letter in unknown), error.end


def to_json(document: dict[str, Any], stream: TextIO, indent: int | None = None) -> str:
    """Escaped where the stream cannot write every letter, so that nothing of it is replaced."""
    encoding = (stream.encoding or "ascii").lower().replace("-", "")
    return json.dumps(document, indent=indent, ensure_ascii=not encoding.startswith("utf"))


def emit(document: dict[str, Any], as_json: bool, render: Callable[[Console], None]) -> None:
    """Print the document as JSON, or let `render` draw it for a person."""
    if as_json:
        print(to_json(document, sys.stdout, indent=2))
    else:
        render(console())


def report(error: DhdmmError, as_json: bool) -> None:
    """One error on standard error: where, what, and what to do."""
    more = error.more if isinstance(error, StudyError) else ()
    if as_json:
        document: dict[str, Any] = {"error": _detail(error)}
        document |= {"more": [_detail(one) for one in more]} if more else {}
        print(to_json(document, sys.stderr), file=sys.stderr)
        return
    for one in (error, *more):
        _print(one)
    if more:
        print(f"{len(more) + 1} mistakes in all", file=sys.stderr)


def _detail(error: DhdmmError) -> dict[str, Any]:
    return {"what": error.what, "where": error.where, "hint": error.hint}


def _print(error: DhdmmError) -> None:
    place = f"{error.where}: " if error.where else ""
    print(f"error: {_safe(place + error.what)}", file=sys.stderr)
    if error.hint:
        print(f"  hint: {_safe(error.hint)}", file=sys.stderr)


def _safe(words: str) -> str:
    """Some words are a coordinator's or a study's: they must not steer the terminal."""
    from dhdmm.release.wording import printable

    return "\n".join(map(printable, words.splitlines()))


class Advance(Protocol):
    """Told how many steps are done, and what to show beside the bar instead of its title."""

    def __call__(self, done: int, words: str | None = None) -> None: ...


@contextmanager
def progress(title: str, total: int) -> Iterator[Advance]:
    """A bar on standard error while a person watches; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda done, words=None: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)

        def advance(done: int, words: str | None = None) -> None:
            bar.update(task, completed=done, description=words or title)

        yield advance
