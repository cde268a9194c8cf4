"""Conditions over a record, as after WHERE, turned into sets of values.

A condition means what it means to DuckDB on a table that holds the one record, with one restraint:
it must be answerable from the schema's values. A bin is taken whole or not at all, and a value that
no record can have is refused as a mistake. What is understood is listed in docs/sql.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from dhdmm.effort import allocate, work
from dhdmm.errors import StudyError
from dhdmm.study import sqltext
from dhdmm.study.attributes.base import Codes, Constant, compare_integers, constant_text
from dhdmm.study.diagram import (
    Atom,
    Box,
    Formula,
    Mask,
    TooComplex,
    junction,
    signed_boxes,
)
from dhdmm.study.names import column as quoted
from dhdmm.study.names import nearest
from dhdmm.study.plain import conjunction
from dhdmm.study.schema import Schema

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

__all__ = ["BOX_LIMIT", "Box", "Read", "boxes", "mask", "read"]

BOX_LIMIT = 128
"""Products that one condition may need; nearly every condition needs one."""

LARGEST_EXPONENT = 17
"""Constants are below 10¹⁸, as every integer that a schema can hold should be."""

WORK_LIMIT = 200_000_000
"""Values looked at, summed over the comparisons of a condition: bounds its time and memory."""

_COMPARISONS = {"eq": "=", "neq": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_UNDERSTOOD = (
    "conditions are made of =, <>, <, <=, >, >=, BETWEEN, IN, IS NULL, AND, OR, NOT, TRUE"
    " and FALSE;"
    " integers also allow bit_count, % and &, dates EXTRACT and DATE_TRUNC"
)


@dataclass(frozen=True, eq=False)
class Read:
    """A condition in DuckDB's SQL on one line, and where it holds."""

    text: str
    formula: Formula


def read(text: str, schema: Schema, *, only: int | None = None, where: str | None = None) -> Read:
    """A text as after WHERE, over all attributes or only one; `where` is its place in the study."""
    plain = conjunction(text, schema, only)
    if plain is not None:
        return Read(*plain)
    tree = sqltext.parse_condition(text, where)
    return Read(sqltext.render(tree), _ConditionReader(schema, where, only).formula(tree))


def boxes(
    condition: str | Expr | Read, schema: Schema, *, where: str | None = None
) -> tuple[Box, ...]:
    """Σ coefficient · ⊗ masks over the boxes is 1 where the condition holds and 0 elsewhere.

    A product of one-attribute predicates gives one box with coefficient 1; what never holds gives
    none; what always holds gives one without masks. `where` names the place of the condition.
    """
    formula = _formula(condition, schema, None, where)
    try:
        return signed_boxes(formula, BOX_LIMIT)
    except TooComplex as error:
        needed = error.boxes or "too many"
        raise StudyError(
            f"the condition couples attributes into {needed} products (the limit is {BOX_LIMIT})",
            where=where,
            hint="ask for its parts as separate queries",
        ) from None


def mask(
    condition: str | Read, schema: Schema, attribute_index: int, *, where: str | None = None
) -> Mask:
    """(size,): the values of one attribute for which a condition over it alone holds."""
    attribute = schema.attributes[attribute_index]
    formula = _formula(condition, schema, attribute_index, where)
    if isinstance(formula, bool):
        return np.full(attribute.size, formula)
    assert isinstance(formula, Atom), "parts over one attribute are put together into one atom"
    return formula.mask


def _formula(
    condition: str | Expr | Read, schema: Schema, only: int | None, where: str | None
) -> Formula:
    if isinstance(condition, str):
        condition = read(condition, schema, only=only, where=where)
    if isinstance(condition, Read):
        return condition.formula
    return _ConditionReader(schema, where, only).formula(condition)


class _ConditionReader:
    """From the parser's tree to a formula; node kinds go by the parser's own names."""

    def __init__(self, schema: Schema, where: str | None, only: int | None = None) -> None:
        self.schema, self.where, self.only = schema, where, only
        self.work = 0

    def formula(self, tree: Expr, holds: bool = True) -> Formula:
        """Where the condition is TRUE, or where it is FALSE; it is neither where SQL finds NULL.

        Negations are carried down to the comparisons, by De Morgan's laws.
        """
        match tree.key:
            case "paren":
                return self.formula(tree.this, holds)
            case "and" | "or":
                parts = (self.formula(part, holds) for part in tree.flatten())
                return junction("all" if (tree.key == "and") is holds else "any", parts)
            case "not":
                return self.formula(tree.this, not holds)
            case "boolean":
                return bool(tree.this) is holds
            case "is" if tree.expression.key == "null" and tree.this.unnest().key == "column":
                return self._missing(tree, holds)
            case "column":
                return self._where(self._truth(tree), holds)
            case "between" if not tree.args.get("symmetric"):
                low = self._compare(tree, tree.this, ">=", tree.args["low"])
                high = self._compare(tree, tree.this, "<=", tree.args["high"])
                both = [self._where(low, holds), self._where(high, holds)]
                return junction("all" if holds else "any", both)
            case "in" if tree.expressions:
                return self._where(self._in(tree), holds)
            case key if key in _COMPARISONS:
                return self._where(self._comparison(tree), holds)
        return self._misunderstood(tree)

    def _where(self, comparison: Atom, holds: bool) -> Atom:
        """The values of a comparison, which says nothing of the missing one."""
        size = self.schema.attributes[comparison.attribute].size
        mask = np.zeros(size, np.bool_)
        mask[: len(comparison.mask)] = comparison.mask if holds else ~comparison.mask
        return Atom(comparison.attribute, mask)

    def _missing(self, tree: Expr, holds: bool) -> Atom:
        """IS NULL, or IS NOT NULL."""
        index = self.attribute(tree.this.unnest())
        attribute = self.schema.attributes[index]
        code = attribute.missing_code
        if code is None:
            what = f"{sqltext.shown(tree)}: every record has a value of '{attribute.name}'"
            hint = (
                f"if it may be missing, the schema says so: {attribute.name}: {{…, missing: true}}"
            )
            return self._refuse(tree, what, hint)
        mask = np.full(attribute.size, not holds)
        mask[code] = holds
        return Atom(index, mask)

    def _truth(self, tree: Expr) -> Atom:
        """A column of booleans is a condition by itself."""
        index = self.attribute(tree)
        attribute = self.schema.attributes[index]
        truth = attribute.present.truth()
        if truth is None:
            what = f"'{attribute.name}' is not TRUE or FALSE: compare it with a value"
            return self._refuse(tree, what)
        return Atom(index, truth)

    def _comparison(self, tree: Expr) -> Atom:
        left, right, operator = tree.this, tree.expression, _COMPARISONS[tree.key]
        if self._constant(left) is not None:
            left, right, operator = right, left, _MIRRORED[operator]
        return self._compare(tree, left, operator, right)

    def _in(self, tree: Expr) -> Atom:
        left = tree.this.unnest()
        if left.key != "column":
            parts = [self._compare(tree, left, "=", entry) for entry in tree.expressions]
            return Atom(parts[0].attribute, reduce(or_, (part.mask for part in parts)))
        index = self.attribute(left)
        attribute = self.schema.attributes[index].present
        chosen = np.zeros(attribute.size, np.bool_)
        for entry in tree.expressions:
            constant = self._checked_constant(tree, left, entry)
            with self._pointing_to(entry):
                chosen[attribute.code_of(constant)] = True
        return Atom(index, chosen)

    def _compare(self, tree: Expr, left: Expr, operator: str, right: Expr) -> Atom:
        """left operator right, where left looks at one attribute and right is a constant."""
        constant = self._checked_constant(tree, left, right)
        if left.unnest().key == "column":
            index = self.attribute(left.unnest())
            self._account(tree, index)
            with self._pointing_to(right):
                attribute = self.schema.attributes[index].present
                return Atom(index, attribute.compare(operator, constant))
        truncated = sqltext.unit_of_date(left.unnest())
        if truncated is not None:
            unit, column = truncated
            index = self.attribute(self._column(column))
            self._account(tree, index)
            with self._pointing_to(right):
                attribute = self.schema.attributes[index].present
                return Atom(index, attribute.compare_truncated(unit, operator, constant))
        index, values = self._integers(left)
        self._account(tree, index)
        if not isinstance(constant, Decimal):
            what = f"{sqltext.shown(left)} is a number, not {constant_text(constant)}"
            return self._refuse(right, what)
        return Atom(index, compare_integers(values, operator, constant))

    def _account(self, tree: Expr, index: int) -> None:
        self.work += self.schema.attributes[index].size
        work(10 * self.schema.attributes[index].size)
        allocate(self.schema.attributes[index].size / 2)
        if self.work > WORK_LIMIT:
            what = (
                f"the condition has too many parts, as '{self.schema.names[index]}' has many values"
            )
            self._refuse(tree, what, "use IN or BETWEEN")

    @contextmanager
    def _pointing_to(self, tree: Expr) -> Iterator[None]:
        """Adds the place to errors that do not know it."""
        try:
            yield
        except StudyError as error:
            self._refuse(tree, error.what, error.hint)

    def _integers(self, tree: Expr) -> tuple[int, Codes]:
        """(attribute, (size,) integers) of a column, bit_count(…), … % constant or … & constant."""
        tree = tree.unnest()
        if tree.key == "column":
            index = self.attribute(tree)
            values = self.schema.attributes[index].present.integers()
            if values is None:
                name = self.schema.attributes[index].name
                return self._refuse(tree, f"'{name}' does not hold integers")
            return index, values
        part = sqltext.part_of_date(tree)
        if part is not None:
            index = self.attribute(self._column(part[1]))
            with self._pointing_to(tree):
                return index, self.schema.attributes[index].present.part(part[0])
        if tree.key == "anonymous" and tree.name.lower() == "bit_count":
            return self._bit_count(tree)
        if tree.key in ("mod", "bitwiseand"):
            index, values = self._integers(tree.this)
            constant = self._constant(tree.expression)
            if not isinstance(constant, Decimal) or constant != int(constant):
                return self._refuse(tree, f"{sqltext.shown(tree)} needs an integer after the sign")
            if tree.key == "bitwiseand":
                return index, values & int(constant)
            if constant == 0:
                return self._refuse(tree, f"{sqltext.shown(tree)} divides by zero")
            return index, np.fmod(values, int(constant))
        return self._misunderstood(tree)

    def _bit_count(self, tree: Expr) -> tuple[int, Codes]:
        if len(tree.expressions) != 1:
            return self._misunderstood(tree)
        index, values = self._integers(tree.expressions[0])
        if values.min() < 0:
            what = f"{sqltext.shown(tree)}: negative integers have no definite bits"
            return self._refuse(tree, what)
        return index, np.bitwise_count(values).astype(np.int64)

    def attribute(self, tree: Expr) -> int:
        """The index of the attribute that a column names."""
        name = sqltext.known_name(tree, self.schema.names, self.where)
        if name is None:
            return self._refuse(tree, f"unknown attribute '{tree.name}'", self._near(tree.name))
        index = self.schema.names.index(name)
        if self.only is not None and self.only != index:
            meant = self.schema.names[self.only]
            return self._refuse(tree, f"only '{meant}' may be used here, not '{name}'")
        return index

    def _column(self, tree: Expr) -> Expr:
        return tree.unnest() if tree.unnest().key == "column" else self._misunderstood(tree)

    def _near(self, name: str) -> str | None:
        """Double quotes make a name in SQL; somebody who wrote "White" meant a value."""
        for attribute in self.schema.attributes:
            if attribute.present.has_value(name):
                return f"the value of '{attribute.name}' stands in single quotes: '{name}'"
        return nearest(name, self.schema.names)

    def _constant(self, tree: Expr) -> Constant | None:
        tree = tree.unnest()
        if tree.key == "boolean":
            return bool(tree.this)
        if tree.key == "literal" and tree.is_string:
            return str(tree.this)
        if tree.key == "cast" and tree.this.key == "literal" and tree.this.is_string:
            return self._date(tree)
        negative = tree.key == "neg"
        digits = tree.this if negative else tree
        if digits.key != "literal" or digits.is_string:
            return None
        try:
            number = Decimal(digits.this)
        except InvalidOperation:
            return self._misunderstood(tree)
        if number and abs(number.adjusted()) > LARGEST_EXPONENT:
            return self._refuse(tree, f"{sqltext.shown(tree)} is out of reach of any attribute")
        return number.copy_negate() if negative else number

    def _date(self, tree: Expr) -> date:
        """DATE '…' or TIMESTAMP '…'."""
        kind, text = sqltext.render(tree.args["to"]), str(tree.this.this).strip()
        try:
            if kind == "DATE":
                return date.fromisoformat(text)
            if kind == "TIMESTAMP":
                return datetime.fromisoformat(text).replace(tzinfo=None)
        except ValueError:
            return self._refuse(tree, f"{constant_text(text)} is not a date")
        return self._misunderstood(tree)

    def _checked_constant(self, tree: Expr, left: Expr, right: Expr) -> Constant:
        """The constant on the right of a comparison whose left is none."""
        constant = self._constant(right)
        if constant is not None and self._constant(left) is None:
            return constant
        for side in (left.unnest(), right.unnest()):
            if side.key == "column":
                self.attribute(side)  # a name that is unknown explains more
        if {"select", "null"} & _kinds(tree):
            return self._misunderstood(tree)
        what = f"{sqltext.shown(tree)} does not compare an attribute with a constant"
        return self._refuse(tree, what, self._hint(tree))

    def _misunderstood(self, tree: Expr) -> NoReturn:
        text, kinds = sqltext.shown(tree), _kinds(tree)
        if "select" in kinds:
            self._refuse(tree, f"{text} is a subquery: a condition looks at one record")
        if {"is", "null"} & kinds:
            self._refuse(tree, f"{text} is not understood", "write IS NULL or IS NOT NULL")
        self._refuse(tree, f"{text} is not understood", self._hint(tree))

    def _hint(self, tree: Expr) -> str:
        """Names such as education-num need quotes; without them they read as a difference."""
        squeezed = sqltext.render(tree).replace(" ", "").lower()
        for name in self.schema.names:
            if quoted(name) != name and name.replace(" ", "").lower() in squeezed:
                return f"is the attribute meant? then write {quoted(name)}"
        return _UNDERSTOOD

    def _refuse(self, tree: Expr, what: str, hint: str | None = None) -> NoReturn:
        sqltext.refuse(tree, what, where=self.where, hint=hint)


def _kinds(tree: Expr) -> set[str]:
    return {node.key for node in tree.walk()}
