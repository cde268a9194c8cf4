"""A counting query in SQL, read as grouping sets and a condition.

    SELECT …, COUNT(*), COUNT(DISTINCT person), SUM(x), AVG(x), MEDIAN(x) FROM data [WHERE …]
    [GROUP BY … | CUBE (…) | ROLLUP (…) | GROUPING SETS (…)]

Columns are the schema's attributes and the study's groupings. Whatever else SQL can say is refused
with its reason: an answer that silently leaves something out would be a wrong one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, product
from typing import TYPE_CHECKING, NoReturn

from dhdmm.study import sqltext
from dhdmm.study.models import MOST_SHARES, PersonModel
from dhdmm.study.names import first_repeated, nearest
from dhdmm.study.predicate import Box, boxes
from dhdmm.study.schema import Schema
from dhdmm.study.sums import MIDPOINT

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

GROUPING_SET_LIMIT = 4_096

_REFUSED_CLAUSES = {
    "with_": "a study has one table, and this would make another",
    "joins": "a study has one table, so there is nothing to join",
    "laterals": "a study has one table, so there is nothing to join",
    "distinct": "groups are distinct already",
    "having": "this chooses groups by their exact counts, which nobody sees",
    "qualify": "this chooses groups by their exact counts, which nobody sees",
    "windows": "window functions look at the other groups' exact counts, which nobody sees",
    "order": "a released table keeps the order of the schema's values",
    "limit": "every group is released",
    "offset": "every group is released",
    "sample": "every record is counted",
}
_CLAUSES = {"expressions", "from_", "where", "group"}
_AGGREGATES = "COUNT(*), SUM(x), AVG(x) or MEDIAN(x)"

_UNITS = {"year": "year", "isodow": "weekday", "dow": "weekday", "hour": "hour"} | {
    "month": "month of year"
}
"""What grouping by a part of a date means."""

GroupingSet = tuple[str, ...]
Aggregate = tuple[str, str]
"""("count", "sum", "mean" or "quantiles", of which attribute or grouping); counts of records and of
persons are of none.
"""
COUNT: Aggregate = ("count", "")
PERSONS: Aggregate = ("persons", "")


def unit_name(unit: str, attribute: str) -> str:
    """What a grouping by a unit is called that no entry of the study names."""
    return f"{unit} of {attribute}"


@dataclass(frozen=True)
class Shares:
    """At which shares the quantiles of one attribute or grouping are selected."""

    at: tuple[float, ...]
    where: str
    """The first of them in the text, for error messages."""


@dataclass(frozen=True, eq=False)
class ParsedQuery:
    grouping_sets: tuple[GroupingSet, ...]
    """Names of attributes and groupings; a set that SQL counts twice is here twice."""
    boxes: tuple[Box, ...]
    """The records counted, see `predicate.boxes`; none when the condition never holds."""
    condition: str
    """The WHERE in DuckDB's SQL on one line, empty when there is none."""
    aggregates: tuple[Aggregate, ...] = (COUNT,)
    """What is selected of every group, in order."""
    quantiles: Mapping[str, Shares] = field(default_factory=dict)
    """By what they are of."""


def parse_query(
    text: str,
    schema: Schema,
    groupings: Collection[str] = (),
    *,
    where: str | None = None,
    person: PersonModel | None = None,
) -> ParsedQuery:
    """Read one query; `groupings` are the names of the study's groupings, `person` its unit.

    >>> from dhdmm.study.attributes import CategoryAttribute
    >>> schema = Schema((CategoryAttribute("sex", ("F", "M")), CategoryAttribute("race", (1, 2))))
    >>> parse_query("SELECT sex, COUNT(*) FROM data GROUP BY ROLLUP (sex)", schema).grouping_sets
    (('sex',), ())
    """
    return _QueryReader(schema, groupings, where, person).query(sqltext.parse_query(text, where))


class _QueryReader:
    def __init__(
        self,
        schema: Schema,
        groupings: Collection[str],
        where: str | None,
        person: PersonModel | None,
    ) -> None:
        self.schema, self.groupings, self.where, self.person = schema, groupings, where, person
        self.aliases: dict[str, Expr] = {}
        self.quantiles: dict[str, Shares] = {}

    def query(self, tree: Expr) -> ParsedQuery:
        self._check_clauses(tree)
        self._check_table(tree)
        group = tree.args.get("group")
        self.aliases = {e.alias: e.this for e in tree.expressions if e.key == "alias"}
        sets = self._grouping_sets(group) if group else ((),)
        aggregates = self._selected(tree, {name for names in sets for name in names})
        restriction = tree.args.get("where")
        if restriction is None:
            return ParsedQuery(sets, (Box(1, {}),), "", aggregates, self.quantiles)
        condition = restriction.this
        self._check_condition_names(condition)
        found = boxes(condition, self.schema, where=self.where)
        return ParsedQuery(sets, found, sqltext.render(condition), aggregates, self.quantiles)

    def _check_clauses(self, tree: Expr) -> None:
        if tree.key == "block":
            self._refuse(tree.expressions[1], "there are several statements", "ask one at a time")
        if tree.key in ("union", "intersect", "except"):
            self._refuse(tree, f"{tree.key.upper()} joins queries", "ask one at a time")
        if tree.key != "select":
            self._refuse(tree, f"{sqltext.shown(tree)} is not a plain SELECT")
        for name, clause in tree.args.items():
            if clause and name not in _CLAUSES:
                first = clause[0] if isinstance(clause, list) else clause
                part = first if hasattr(first, "walk") else tree
                reason = _REFUSED_CLAUSES.get(name, "this is not understood")
                self._refuse(part, f"{sqltext.shown(part)}: {reason}")

    def _check_table(self, tree: Expr) -> None:
        source = tree.args.get("from_")
        if source is None:
            self._refuse(tree, f"FROM {sqltext.TABLE} is missing")
        table = source.this
        if table.key == "subquery":
            self._refuse(
                table, f"{sqltext.shown(table)} is a subquery: the only table is '{sqltext.TABLE}'"
            )
        if table.key != "table" or table.name.lower() != sqltext.TABLE:
            self._refuse(table, f"{sqltext.shown(table)}: the only table is '{sqltext.TABLE}'")
        if any(value for name, value in table.args.items() if name != "this"):
            self._refuse(table, f"{sqltext.shown(table)}: write just FROM {sqltext.TABLE}")

    def _selected(self, tree: Expr, grouped: set[str]) -> tuple[Aggregate, ...]:
        """The selected columns are grouped; the others are calculated for each group."""
        found: list[Aggregate] = []
        for selected in tree.expressions:
            plain = selected.unalias()
            unit = self._unit(plain)
            if unit is not None:
                if unit not in grouped:
                    self._refuse(plain, f"{sqltext.shown(plain)} is selected but not in GROUP BY")
                continue
            if sqltext.is_quantile(plain):
                found += self._quantiles(plain)
                continue
            if plain.key != "column":
                found.append(self._aggregate(plain))
                continue
            if plain is not selected:
                self._refuse(selected, f"{sqltext.shown(selected)}: columns keep their names")
            name = self._name(plain)
            if name not in grouped:
                self._refuse(plain, f"'{name}' is selected but not in GROUP BY")
        repeated = first_repeated(found)
        if not found:
            self._refuse(tree, "nothing is counted", f"select {_AGGREGATES}")
        if repeated is not None:
            what = f"the {repeated[0]} is selected twice"
            self._refuse(tree, what, "select it once")
        return tuple(found)

    def _aggregate(self, tree: Expr) -> Aggregate:
        """COUNT(*), COUNT() and COUNT or SUM of 1 are the number of records."""
        text, argument = sqltext.shown(tree), tree.args.get("this")
        if text in ("COUNT(*)", "COUNT()", "COUNT(1)", "SUM(1)"):
            return COUNT
        kind = {"sum": "sum", "avg": "mean", "count": "count"}.get(tree.key)
        if kind and argument is not None and argument.unnest().key == "column":
            return kind, self._summable(kind, argument.unnest())
        match tree.key:
            case "count" if argument is not None and argument.key == "distinct":
                return self._persons(tree, [part.name for part in argument.expressions])
            case "count" | "sum" | "avg":
                what = f"{text} is not of a column"
            case "filter":
                what = f"{text}: the restriction belongs into WHERE"
            case "window":
                what = f"{text}: {_REFUSED_CLAUSES['windows']}"
            case "star":
                what = "*: name the columns to group by"
            case "subquery":
                what = f"{text}: a subquery cannot be selected"
            case _:
                what = f"{text} cannot be selected"
        return self._refuse(tree, what, f"select grouped columns and {_AGGREGATES}")

    def _quantiles(self, tree: Expr) -> list[Aggregate]:
        """All quantiles of one column are one aggregate, at the place of the first."""
        of, at = sqltext.quantiles(tree, self.where)
        unit = self._unit(of)
        if unit is None and of.unnest().key != "column":
            self._refuse(tree, f"{sqltext.shown(tree)} is not of a column")
        name = unit or self._name(of.unnest())
        known = self.quantiles.get(name)
        if known is None:
            self.quantiles[name] = Shares(at, sqltext.position(tree, self.where) or "")
        else:
            self.quantiles[name] = replace(known, at=known.at + at)
        shares = self.quantiles[name].at
        repeated = first_repeated(shares)
        if repeated is not None:
            what = f"the quantile {repeated:g} of '{name}' is selected twice"
            self._refuse(tree, what, "select it once")
        if len(shares) > MOST_SHARES:
            self._refuse(tree, f"{len(shares)} quantiles of '{name}' are more than {MOST_SHARES}")
        return [("quantiles", name)] if known is None else []

    def _persons(self, tree: Expr, columns: list[str]) -> Aggregate:
        """COUNT(DISTINCT person); the records, where a person has one of them at most."""
        text, person = sqltext.shown(tree), self.person
        if person is None or columns != [person.column]:
            what = f"{text}: distinct values are not a count of records"
            hint = "only the persons of a study whose unit is the person can be counted"
            return self._refuse(tree, what, hint)
        return COUNT if person.max_records == 1 else PERSONS

    def _summable(self, kind: str, column: Expr) -> str:
        """The attribute whose values are added up, averaged, or counted where they are known."""
        name = sqltext.known_name(column, self.schema.names, self.where)
        if name is None:
            hint = nearest(column.name, self.schema.names)
            self._refuse(column, f"unknown attribute '{column.name}'", hint)
        attribute = self.schema.attributes[self.schema.names.index(name)]
        if kind == "count" and attribute.missing_code is None:
            self._refuse(column, f"every record has a value of '{name}', so write COUNT(*)")
        if kind != "count" and attribute.present.amounts(MIDPOINT) is None:
            self._refuse(column, f"the values of '{name}' cannot be added up")
        return name

    def _check_condition_names(self, condition: Expr) -> None:
        for node in condition.walk():
            if node.key == "column" and node.name in set(self.groupings) - set(self.schema.names):
                what = f"'{node.name}' is a grouping: a condition uses the attribute itself"
                self._refuse(node, what)

    def _grouping_sets(self, group: Expr) -> tuple[GroupingSet, ...]:
        """The cross product of the grouping elements' sets, as SQL defines it."""
        if any(value for name, value in group.args.items() if name != "expressions"):
            what = f"{sqltext.shown(group)} is not understood"
            self._refuse(group, what, "name the columns, or use CUBE (…) or ROLLUP (…)")
        if not group.expressions:
            self._refuse(group, "GROUP BY is empty", "for the total leave it out")
        elements = [self._sets(element) for element in group.expressions]
        self._check_number(group, math.prod(len(sets) for sets in elements))
        return tuple(_joined(chosen) for chosen in product(*elements))

    def _sets(self, element: Expr) -> list[GroupingSet]:
        """The grouping sets that one element stands for."""
        match element.key:
            case "cube" | "rollup" if not element.expressions:
                return self._refuse(element, f"{element.key.upper()} () is empty")
            case "cube":
                parts = [self._columns(part) for part in element.expressions]
                self._check_number(element, 2 ** len(parts))
                sizes = range(len(parts), -1, -1)
                return [_joined(chosen) for size in sizes for chosen in combinations(parts, size)]
            case "rollup":
                parts = [self._columns(part) for part in element.expressions]
                return [_joined(parts[:size]) for size in range(len(parts), -1, -1)]
            case "groupingsets":
                return [names for part in element.expressions for names in self._sets(part)]
            case _:
                return [self._columns(element)]

    def _columns(self, element: Expr) -> GroupingSet:
        """A column, or columns in parentheses, which go together."""
        renamed = self.aliases.get(element.name) if element.key == "column" else None
        unit = self._unit(element if renamed is None else renamed)
        if unit is not None:
            return (unit,)
        match element.key:
            case "column":
                return (self._name(element),)
            case "paren":
                return self._columns(element.this)
            case "tuple":
                return _joined(self._columns(part) for part in element.expressions)
            case "literal":
                hint = "name the column"
            case _:
                hint = "for sets of values define a grouping in the study"
        return self._refuse(element, f"GROUP BY {sqltext.shown(element)} is not a column", hint)

    def _unit(self, tree: Expr) -> str | None:
        """The grouping that a unit or part of a date stands for; None if the tree is neither."""
        part, unit = sqltext.part_of_date(tree), sqltext.unit_of_date(tree)
        if part is None and unit is None:
            return None
        named, column = part or unit or ("", tree)
        found = named if unit else _UNITS.get(named)
        if column.key != "column":
            self._refuse(tree, f"{sqltext.shown(tree)} is not of a column")
        attribute = sqltext.known_name(column, self.schema.names, self.where)
        if attribute is None:
            hint = nearest(column.name, self.schema.names)
            self._refuse(column, f"unknown attribute '{column.name}'", hint)
        name = unit_name(found or named, attribute)
        if name not in self._unit_names:
            self._refuse(tree, f"'{attribute}' cannot be grouped by {sqltext.shown(tree)}")
        return name

    @cached_property
    def _unit_names(self) -> list[str]:
        attributes = self.schema.attributes
        return [unit_name(unit, a.name) for a in attributes for unit in a.present.units]

    def _name(self, column: Expr) -> str:
        """The attribute or grouping that a column names."""
        known = [*self.schema.names, *self.groupings, *self._unit_names]
        name = sqltext.known_name(column, known, self.where)
        if name is None:
            what = f"unknown attribute or grouping '{column.name}'"
            return self._refuse(column, what, nearest(column.name, known))
        return name

    def _check_number(self, tree: Expr, sets: int) -> None:
        if sets > GROUPING_SET_LIMIT:
            what = f"{sets:,} grouping sets are above the limit of {GROUPING_SET_LIMIT:,}"
            self._refuse(tree, what)

    def _refuse(self, tree: Expr, what: str, hint: str | None = None) -> NoReturn:
        sqltext.refuse(tree, what, where=self.where, hint=hint)


def _joined(parts: Iterable[GroupingSet]) -> GroupingSet:
    """All names in order, each once."""
    return tuple(dict.fromkeys(name for part in parts for name in part))
