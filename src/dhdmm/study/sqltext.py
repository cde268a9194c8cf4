"""Text to syntax tree and back: the only place that calls the SQL parser.

The text is bounded before it is parsed, and every fault of the parser becomes a `StudyError` with
the line and column in the text. The parser is imported on first use: it takes a noticeable time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from dhdmm.errors import StudyError

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

DIALECT = "duckdb"
LENGTH_LIMIT = 20_000
DEPTH_LIMIT = 40


def parse_condition(text: str, where: str | None = None) -> Expr:
    """A condition as after WHERE."""
    import sqlglot
    from sqlglot import exp

    def parse(text: str) -> Expr:
        return sqlglot.parse_one(text, into=exp.Condition, dialect=DIALECT)

    tree = _parsed(parse, text, where)
    if tree.key == "block":
        raise StudyError("a condition may not contain ';'", where=where)
    return tree


def parse_statement(text: str, where: str | None = None) -> Expr:
    """One SQL statement, whichever it is."""
    import sqlglot

    def parse(text: str) -> Expr:
        return sqlglot.parse_one(text, dialect=DIALECT)

    return _parsed(parse, text, where)


def render(tree: Expr) -> str:
    """The tree as one line of DuckDB's SQL, without the comments of the original text."""
    return tree.sql(dialect=DIALECT, comments=False)


def refuse(tree: Expr, what: str, *, where: str | None = None, hint: str | None = None) -> NoReturn:
    """Raise a `StudyError` that points to the tree's first word."""
    marks = [node.meta for node in tree.walk() if "line" in node.meta]
    first = min(marks, key=lambda mark: (mark["line"], mark["col"]), default=None)
    if first is not None:
        # The parser's column is that of a word's last character.
        where = _place(where, first["line"], first["col"] - (first["end"] - first["start"]))
    raise StudyError(what, where=where, hint=hint)


def _place(where: str | None, line: int, column: int) -> str:
    inside = f"SQL line {line}, column {max(column, 1)}"
    return f"{where}, {inside}" if where else inside


def _parsed(parse: Callable[[str], Expr], text: str, where: str | None) -> Expr:
    from sqlglot.errors import ParseError, SqlglotError

    _check_bounds(text, where)
    try:
        return parse(text)
    except ParseError as error:
        _explain(error.errors[0] if error.errors else {}, where)
    except SqlglotError:
        raise StudyError(
            "the SQL cannot be read", where=where, hint="is every quotation mark closed?"
        ) from None
    except RecursionError:
        raise _too_deep(where) from None


def _check_bounds(text: str, where: str | None) -> None:
    if not text.strip():
        raise StudyError("the SQL is empty", where=where)
    if len(text) > LENGTH_LIMIT:
        raise StudyError(
            f"the SQL has {len(text):,} characters, above the limit of {LENGTH_LIMIT:,}",
            where=where,
        )
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    if deepest > DEPTH_LIMIT:
        raise _too_deep(where)


def _too_deep(where: str | None) -> StudyError:
    return StudyError(f"the SQL is nested too deeply (the limit is {DEPTH_LIMIT})", where=where)


def _explain(fault: dict[str, object], where: str | None) -> NoReturn:
    line, column, word = fault.get("line"), fault.get("col"), fault.get("highlight")
    if not (isinstance(line, int) and isinstance(column, int) and isinstance(word, str) and word):
        raise StudyError("the SQL cannot be read", where=where) from None
    place = _place(where, line, column - len(word) + 1)
    raise StudyError(f"the SQL cannot be read near {word!r}", where=place) from None
