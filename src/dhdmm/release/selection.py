"""A query to a release in SQL: what is selected, and which rows of it in which order.

    SELECT …, expression [AS name], … FROM data [WHERE …] [GROUP BY …]
    [HAVING …] [ORDER BY …] [LIMIT … [OFFSET …]]

The part that a study could ask too, groups and condition, is left to the reader of studies; here
are the expressions and the clauses that look at released numbers, which is free: everybody sees
them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dhdmm.release.expressions import has_aggregate
from dhdmm.release.intervals import Floats
from dhdmm.study import sqltext

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

    from dhdmm.study.factor import Integers

Column = Callable[["Expr"], Floats]
"""The numbers of an expression, one per group."""

COUNTS = ("COUNT(*)", "COUNT()", "COUNT(1)")
CLAUSES = ("having", "order", "limit", "offset")
SELECTED = (
    "Rows were chosen by their noisy answers, so those of the highest rows tend to be too high, and"
    " those of the lowest too low. The joint bounds hold for all {groups:,} groups at once,"
    " whatever is chosen."
)

_COMPARISONS = {
    "gt": np.greater,
    "gte": np.greater_equal,
    "lt": np.less,
    "lte": np.less_equal,
    "eq": np.equal,
    "neq": np.not_equal,
}
_CONNECTIVES = {"and": np.logical_and, "or": np.logical_or}


@dataclass(frozen=True, eq=False)
class Selection:
    """A query in parts."""

    counted: str
    """SQL that a study understands: the same groups, with the records of each counted."""
    is_plain: bool
    """Whether that is all that was asked."""
    selected: tuple[Expr, ...]
    columns: dict[str, Expr]
    """What is calculated for each group, by name."""
    having: Expr | None
    order: tuple[Expr, ...]
    limit: int | None
    offset: int

    @property
    def is_whole(self) -> bool:
        """Whether every group is there, in the order of the schema's values."""
        return self.having is None and not self.order and self.limit is None and not self.offset

    @property
    def chooses(self) -> bool:
        """Whether answers decide which rows are there."""
        cut = self.limit is not None or self.offset > 0
        return self.having is not None or (cut and bool(self.order))

    def asking_for(self, aggregate: Expr) -> str:
        """SQL that a study understands: the same groups, with this of each."""
        tree = sqltext.parse_query(self.counted)
        *groups, _ = tree.expressions
        tree.set("expressions", [*groups, aggregate.copy()])
        return sqltext.render(tree)

    def rows(self, groups: int, column: Column) -> Integers:
        """The groups that are left, in order."""
        rows = np.arange(groups)
        if self.having is not None:
            rows = rows[_holds(self.having, column)]
        for ordered in reversed(self.order):  # stable, so that the first decides
            values = column(self._ordered_by(ordered.this))[rows]
            downwards = bool(ordered.args.get("desc"))
            rows = rows[np.argsort(-values if downwards else values, kind="stable")]
        end = None if self.limit is None else self.offset + self.limit
        return rows[self.offset : end]

    @cached_property
    def names(self) -> dict[str, Expr]:
        """The selected numbers by their names, which SQL reads in either case."""
        return {name.casefold(): tree for name, tree in self.columns.items()}

    def _ordered_by(self, tree: Expr) -> Expr:
        """ORDER BY 2 is the second that is selected."""
        if tree.key != "literal" or tree.is_string:
            return tree
        place = int(tree.this) if tree.this.isdecimal() else 0
        if not 1 <= place <= len(self.selected):
            sqltext.refuse(tree, f"nothing is selected at place {tree.this}", hint="use its name")
        return self.selected[place - 1].unalias()


def read(text: str) -> Selection:
    """Take a query apart; what is wrong with its groups is found when they are read."""
    tree = sqltext.parse_query(text)
    if tree.key != "select":
        return Selection(text, True, (), {}, None, (), None, 0)  # refused by the reader of studies
    having, order, limit, offset = (
        tree.args.get(k) for k in ("having", "order", "limit", "offset")
    )
    selected = [one for one in tree.expressions if has_aggregate(one)]
    clauses = [clause for clause in (having, order, limit, offset) if clause is not None]
    counts = [sqltext.render(one.unalias()) for one in selected]
    plain = not clauses and (not counts or counts in [[text] for text in COUNTS])
    return Selection(
        text if plain else _counting(tree, selected),
        plain,
        tuple(tree.expressions),
        _named(selected, tree),
        having.this if having else None,
        tuple(order.expressions) if order else (),
        _whole(limit),
        _whole(offset) or 0,
    )


def _counting(tree: Expr, selected: list[Expr]) -> str:
    """The query with its records counted, and nothing else."""
    from sqlglot import exp

    if not selected:
        sqltext.refuse(tree, "nothing is counted", hint="select COUNT(*)")
    others = [one for one in tree.expressions if one not in selected]
    plain = tree.copy()
    plain.set("expressions", [*(one.copy() for one in others), exp.Count(this=exp.Star())])
    for clause in CLAUSES:
        plain.set(clause, None)
    return sqltext.render(plain)


def _named(selected: list[Expr], tree: Expr) -> dict[str, Expr]:
    """By their alias, or as they are written."""
    found: dict[str, Expr] = {}
    labels = {one.alias_or_name.casefold() for one in tree.expressions if one not in selected}
    for one in selected:
        name = one.alias or sqltext.shown(one)
        if name in found or name.casefold() in labels:
            sqltext.refuse(one, f"'{name}' is selected twice", hint="name one with AS")
        found[name] = one.unalias()
    return found


def _whole(clause: Expr | None) -> int | None:
    if clause is None:
        return None
    number = clause.expression
    if number.key != "literal" or not number.this.isdecimal():
        sqltext.refuse(clause, f"{sqltext.shown(clause)} needs a whole number")
    return int(number.this)


def _holds(tree: Expr, column: Column) -> NDArray[np.bool_]:
    """A condition on answers, for every group."""
    if tree.key == "paren":
        return _holds(tree.this, column)
    if tree.key == "not":
        return ~_holds(tree.this, column)
    if tree.key in _CONNECTIVES:
        return _CONNECTIVES[tree.key](_holds(tree.this, column), _holds(tree.expression, column))
    if tree.key == "between":
        low, value, high = (column(tree.args[part]) for part in ("low", "this", "high"))
        return np.asarray((low <= value) & (value <= high))
    if tree.key in _COMPARISONS:
        return np.asarray(_COMPARISONS[tree.key](column(tree.this), column(tree.expression)))
    return sqltext.refuse(
        tree,
        f"HAVING {sqltext.shown(tree)} is not understood",
        hint="compare COUNT(*) and the like with numbers; conditions on records go into WHERE",
    )
