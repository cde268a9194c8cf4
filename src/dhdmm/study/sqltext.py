"""Text to syntax tree and back: the only place that calls the SQL parser.

The text is bounded before it is parsed, and every fault of the parser becomes a `StudyError` with
the line and column in the text. The parser is imported on first use: it takes a noticeable time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NoReturn

from dhdmm.effort import OBJECT, work
from dhdmm.errors import StudyError

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

DIALECT = "duckdb"
TABLE = "data"
LENGTH_LIMIT = 20_000
BRACKET_LIMIT = 20
DEPTH_LIMIT = 100
SHOWN = 60


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


def parse_query(text: str, where: str | None = None) -> Expr:
    """One statement that begins like a query; the parser only warns about those it cannot read."""
    import sqlglot

    def parse(text: str) -> Expr:
        for word in sqlglot.tokenize(text, read=DIALECT)[:1]:
            if word.token_type.name not in ("SELECT", "WITH", "FROM", "L_PAREN"):
                place = _place(where, word.line, word.col - (word.end - word.start))
                raise StudyError(f"a query begins with SELECT, not {word.text}", where=place)
        return sqlglot.parse_one(text, dialect=DIALECT)

    return _parsed(parse, text, where)


def render(tree: Expr) -> str:
    """The tree as one line of DuckDB's SQL, without the comments of the original text."""
    return tree.sql(dialect=DIALECT, comments=False).strip()


def known_name(column: Expr, known: Sequence[str], where: str | None) -> str | None:
    """Which of the known names a column means, if any; SQL ignores the case of names."""
    name, table = column.name, [column.text(part).lower() for part in ("catalog", "db", "table")]
    if table not in (["", "", ""], ["", "", TABLE]):
        refuse(column, f"{shown(column)}: the only table is '{TABLE}'", where=where)
    same = [candidate for candidate in known if candidate.lower() == name.lower()]
    return name if name in same else next(iter(same), None)


_PARTS = {"dayofweek": "dow", "dayofweekiso": "isodow", "weekofyear": "week", "dayofyear": "doy"}
"""The parser's own names of parts of a date, where they are not DuckDB's."""


def part_of_date(tree: Expr) -> tuple[str, Expr] | None:
    """(part, of what) where the tree is EXTRACT, or a function that is short for it."""
    if tree.key == "extract":
        name = tree.this.name.lower()
        return _PARTS.get(name, name), tree.expression
    if tree.key in ("year", "quarter", "month", "week", "day", "hour", *_PARTS):
        return _PARTS.get(tree.key, tree.key), tree.this
    return None


def unit_of_date(tree: Expr) -> tuple[str, Expr] | None:
    """(unit, of what) where the tree is DATE_TRUNC."""
    if tree.key in ("timestamptrunc", "datetrunc"):
        return tree.args["unit"].name.lower(), tree.this
    return None


_QUANTILES = ("median", "quantile", "approxquantile", "percentiledisc", "percentilecont")


def is_quantile(tree: Expr) -> bool:
    """Whether it is a median or a quantile, in one of SQL's spellings."""
    return (tree.this if tree.key == "withingroup" else tree).key in _QUANTILES


def quantiles(tree: Expr, where: str | None = None) -> tuple[Expr, tuple[float, ...]]:
    """(of what, at which shares) a median or quantile is, however it is spelled.

    MEDIAN(x), QUANTILE(x, 0.5), PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x), or with a list.
    """
    if tree.key == "median":
        return tree.this, (0.5,)
    of, order = tree.this, []
    shares = tree.args.get("quantile") or tree.args.get("expression")
    if tree.key == "withingroup":
        order, shares = tree.expression.expressions, tree.this.this
        of = order[0].this
    elif shares is not None and shares.key == "order":  # so WITHIN GROUP is written for DuckDB
        order, shares = shares.expressions, shares.this
    if any(one.args.get("desc") or render(one.this) != render(of) for one in order):
        what = f"{shown(tree)}: quantiles are of one column in rising order"
        refuse(tree, what, where=where, hint="write ORDER BY with the column alone")
    given = [] if shares is None else [shares]
    listed = given[0].expressions if given and given[0].key == "array" else given
    if not listed:
        what = f"{shown(tree)} needs a column and a share"
        refuse(tree, what, where=where, hint="QUANTILE(x, 0.5) is the median of x")
    return of, tuple(_share(one, tree, where) for one in listed)


def _share(given: Expr, tree: Expr, where: str | None) -> float:
    text = render(given)
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        what = f"{shown(tree)}: {text} is not a share between 0 and 1"
        refuse(
            tree, what, where=where, hint="0.5 is the median, 0.9 what nine tenths do not exceed"
        )
    return share


def shown(tree: Expr) -> str:
    """The tree as SQL, short enough for a message."""
    text = render(tree)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def refuse(tree: Expr, what: str, *, where: str | None = None, hint: str | None = None) -> NoReturn:
    """Raise a `StudyError` that points to the tree."""
    raise StudyError(what, where=position(tree, where), hint=hint)


def position(tree: Expr, where: str | None = None) -> str | None:
    """Where the tree's first word is in the text, or that of what it is part of."""
    marks = [node.meta for node in tree.walk() if "line" in node.meta]
    if not marks:
        return where if tree.parent is None else position(tree.parent, where)
    first = min(marks, key=lambda mark: (mark["line"], mark["col"]))
    # The parser's column is that of a word's last character.
    return _place(where, first["line"], first["col"] - (first["end"] - first["start"]))


def _place(where: str | None, line: int, column: int) -> str:
    inside = f"SQL line {line}, column {max(column, 1)}"
    return f"{where}, {inside}" if where else inside


def _parsed(parse: Callable[[str], Expr], text: str, where: str | None) -> Expr:
    from sqlglot.errors import ParseError, SqlglotError

    _check_bounds(text, where)
    work(OBJECT * (100 + 2 * len(text)))
    try:
        tree = parse(text)
    except ParseError as error:
        _explain(error.errors[0] if error.errors else {}, where)
    except (SqlglotError, ValueError):  # on rare malformed texts the parser fails with the latter
        raise StudyError(
            "the SQL cannot be read", where=where, hint="is every quotation mark closed?"
        ) from None
    except RecursionError:
        raise _too_deep(where) from None
    if _depth(tree) > DEPTH_LIMIT:
        raise _too_deep(where)
    return tree


def _check_bounds(text: str, where: str | None) -> None:
    if not text.strip():
        raise StudyError("the SQL is empty", where=where)
    if len(text) > LENGTH_LIMIT:
        raise StudyError(
            f"the SQL has {len(text):,} characters, above the limit of {LENGTH_LIMIT:,}",
            where=where,
        )
    depths = accumulate((c in "([{") - (c in ")]}") for c in text)
    if max(depths) > BRACKET_LIMIT:
        raise _too_deep(where)


def _too_deep(where: str | None) -> StudyError:
    return StudyError("the SQL is nested too deeply", where=where)


def _depth(tree: Expr) -> int:
    """The height of the tree, with a chain of ANDs or of ORs counted once."""
    deepest, waiting = 0, [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        for child in node.iter_expressions():
            chained = child.key == node.key and node.key in ("and", "or")
            waiting.append((child, depth if chained else depth + 1))
    return deepest


def _explain(fault: dict[str, object], where: str | None) -> NoReturn:
    line, column, word = fault.get("line"), fault.get("col"), fault.get("highlight")
    if not (isinstance(line, int) and isinstance(column, int) and isinstance(word, str) and word):
        raise StudyError("the SQL cannot be read", where=where) from None
    place = _place(where, line, column - len(word) + 1)
    raise StudyError(f"the SQL cannot be read near {word!r}", where=place) from None
