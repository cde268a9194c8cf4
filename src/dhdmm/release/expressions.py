"""What SQL selects from a release: linear forms of counts, quotients of two, and sums of quotients.

COUNT(*), with FILTER or without, is one row of a term for every group. Sums, differences and
multiples of rows are rows again; a quotient of two keeps both, and sums of quotients keep all of
them. Other arithmetic has no interval that holds, and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from dhdmm.release.covariance import combined, row_covariances, variances
from dhdmm.release.intervals import Estimates, Floats, Quotients, QuotientSums, Sums
from dhdmm.study import sqltext
from dhdmm.study.factor import restricted
from dhdmm.study.names import nearest
from dhdmm.study.persons import Mark
from dhdmm.study.predicate import Box, boxes
from dhdmm.study.spec import Study
from dhdmm.study.sums import of_known, summed
from dhdmm.study.workload import Product, Term

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

    from dhdmm.release.release import Release

AGGREGATES = ("count", "sum", "avg")
_HINT = (
    "select grouped columns, COUNT(*), SUM(x), AVG(x), each with FILTER, + - * / of them, and"
    " MEDIAN(x)"
)


@dataclass(frozen=True, eq=False)
class Linear:
    """Σ coefficient · term + constant, row by row."""

    terms: tuple[Term, ...]
    coefficients: tuple[Fraction, ...]
    constant: Fraction

    def plus(self, other: Linear) -> Linear:
        coefficients = (*self.coefficients, *other.coefficients)
        return Linear((*self.terms, *other.terms), coefficients, self.constant + other.constant)

    def times(self, number: Fraction) -> Linear:
        coefficients = tuple(c * number for c in self.coefficients)
        return Linear(self.terms, coefficients, self.constant * number)

    @property
    def term(self) -> Term:
        return combined(self.terms, self.coefficients)


@dataclass(frozen=True, eq=False)
class Quotient:
    numerator: Linear
    denominator: Linear


@dataclass(frozen=True, eq=False)
class QuotientSum:
    parts: tuple[Quotient, ...]


Form = Linear | Quotient | QuotientSum


def quotients(form: Form) -> tuple[Quotient, ...]:
    """The form as a sum of quotients; a linear one is divided by 1."""
    match form:
        case Linear():
            return (Quotient(form, _constant(Fraction(1))),)
        case Quotient():
            return (form,)
        case _:
            return form.parts


def has_aggregate(tree: Expr) -> bool:
    return any(node.key in AGGREGATES or sqltext.is_quantile(node) for node in tree.walk())


class FormReader:
    """Reads expressions over the groups of one term, which counts the records of each."""

    def __init__(self, study: Study, counts: Term, names: Mapping[str, Expr]) -> None:
        self.study, self.schema, self.counts, self.names = study, study.schema, counts, names

    def form(self, tree: Expr) -> Form:
        match tree.key:
            case "paren" | "alias" | "cast" | "nullif":
                return self.form(tree.this)
            case "column" if tree.name.casefold() in self.names:
                return self.form(self.names[tree.name.casefold()])
            case "literal" if not tree.is_string:
                return _constant(Fraction(Decimal(tree.this)))
            case "neg":
                return _times(self.form(tree.this), Fraction(-1))
            case "add":
                return self._sum(tree, self.form(tree.expression))
            case "sub":
                return self._sum(tree, _times(self.form(tree.expression), Fraction(-1)))
            case "mul":
                return self._product(tree)
            case "div":
                return self._quotient(tree)
            case "filter" if sqltext.is_quantile(tree.this):
                return _refuse(tree, f"{sqltext.shown(tree)}: put the condition in WHERE")
            case "filter":
                return self._aggregate(tree.this, tree.expression.this)
            case "count" | "sum" | "avg":
                return self._aggregate(tree, None)
            case _ if sqltext.is_quantile(tree):
                what = f"{sqltext.shown(tree)} is no sum of records: nothing is calculated from it"
                return _refuse(tree, what, "select it by itself")
            case _:
                return _refuse(tree, f"{sqltext.shown(tree)} cannot be calculated", _HINT)

    def _sum(self, tree: Expr, right: Form) -> Form:
        left = self.form(tree.this)
        if isinstance(left, Linear) and isinstance(right, Linear):
            return left.plus(right)
        found: list[Quotient] = []
        for part in (*quotients(left), *quotients(right)):
            for i, known in enumerate(found):
                joined = _over_one(known, part)
                if joined is not None:
                    found[i] = joined
                    break
            else:
                found.append(part)
        return found[0] if len(found) == 1 else QuotientSum(tuple(found))

    def _product(self, tree: Expr) -> Form:
        left, right = self.form(tree.this), self.form(tree.expression)
        for number, other in ((left, right), (right, left)):
            if isinstance(number, Linear) and not number.terms:
                return _times(other, number.constant)
        return _refuse(tree, f"{sqltext.shown(tree)} multiplies two answers")

    def _quotient(self, tree: Expr) -> Form:
        left, right = self.form(tree.this), self.form(tree.expression)
        if isinstance(right, Linear) and not right.terms:
            if not right.constant:
                return _refuse(tree, f"{sqltext.shown(tree)} divides by 0")
            return _times(left, 1 / right.constant)
        if isinstance(left, Linear) and isinstance(right, Linear):
            return Quotient(left, right)
        return _refuse(tree, f"{sqltext.shown(tree)} is a quotient of quotients")

    def _aggregate(self, tree: Expr, condition: Expr | None) -> Form:
        held = () if condition is None else boxes(condition, self.schema)
        counts = self.counts if condition is None else filtered(self.counts, held)
        argument = tree.args.get("this")
        if argument is None or argument.key in ("star", "literal"):
            return _row(counts)
        if tree.key == "count" and argument.key == "distinct":
            return _row(self._persons(tree, [one.name for one in argument.expressions], condition))
        if argument.unnest().key != "column":
            return _refuse(tree, f"{sqltext.shown(tree)} is not of a column", _HINT)
        name = sqltext.known_name(argument.unnest(), self.schema.names, None)
        if name is None:
            hint = nearest(argument.name, self.schema.names)
            return _refuse(tree, f"unknown attribute '{argument.name}'", hint)
        known = of_known(self.schema, counts, name)
        if tree.key == "count":
            return _row(known)
        sums = _row(summed(self.schema, counts, name))
        return sums if tree.key == "sum" else Quotient(sums, _row(known))

    def _persons(self, tree: Expr, columns: list[str], condition: Expr | None) -> Term:
        """Persons are counted in the groups in which the study did, under its condition."""
        person, counts, text = self.study.privacy.person, self.counts, sqltext.shown(tree)
        if person is None or columns != [person.column]:
            return _refuse(tree, f"{text}: distinct values are not a count of records")
        if condition is not None:
            return _refuse(tree, f"{text} with FILTER cannot be told", "put the condition in WHERE")
        if person.max_records == 1:
            return counts
        by = sorted(axis.header for axis in counts.axes if axis and not axis.is_fixed)
        mark = Mark(person.column, tuple(by), counts.condition, (), ())
        return self.study.cells.of_persons(counts, mark)


def _row(term: Term) -> Linear:
    return Linear((term,), (Fraction(1),), Fraction(0))


def filtered(term: Term, held: tuple[Box, ...]) -> Term:
    """The same rows, of the records inside the boxes."""
    products = tuple(
        Product(
            product.coefficient * box.coefficient,
            tuple(
                restricted(factor, box.masks[a]) if a in box.masks else factor
                for a, factor in enumerate(product.factors)
            ),
        )
        for product in term.products
        for box in held
    )
    nothing = tuple(replace(product, coefficient=Fraction(0)) for product in term.products)
    return replace(term, products=products or nothing)


def _constant(number: Fraction) -> Linear:
    return Linear((), (), number)


def _times(form: Form, number: Fraction) -> Form:
    match form:
        case Linear():
            return form.times(number)
        case Quotient():
            return _quotient_times(form, number)
        case _:
            return QuotientSum(tuple(_quotient_times(part, number) for part in form.parts))


def _quotient_times(form: Quotient, number: Fraction) -> Quotient:
    return Quotient(form.numerator.times(number), form.denominator)


def _over_one(left: Quotient, right: Quotient) -> Quotient | None:
    """The sum as one quotient, whose interval is exact: of equal denominators, or of a constant."""
    if not right.numerator.terms and not right.denominator.terms:
        constant = right.numerator.constant / right.denominator.constant
        return Quotient(left.numerator.plus(left.denominator.times(constant)), left.denominator)
    if not left.numerator.terms and not left.denominator.terms:
        return _over_one(right, left)
    a, b = left.denominator, right.denominator
    if (a.terms, a.coefficients, a.constant) == (b.terms, b.coefficients, b.constant):
        return Quotient(left.numerator.plus(right.numerator), left.denominator)
    return None


def _refuse(tree: Expr, what: str, hint: str | None = None) -> NoReturn:
    sqltext.refuse(tree, what, hint=hint)


# ---- from forms to numbers ----------------------------------------------------------------------


def estimated(release: Release, forms: list[Form]) -> Estimates:
    """The numbers of one expression, over the groups of every term in turn."""
    if all(isinstance(form, Linear) for form in forms):
        parts = [_moments(release, form) for form in forms if isinstance(form, Linear)]
        values, squares = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Sums(values, np.sqrt(squares))
    each = zip(*map(quotients, forms), strict=True)
    found = tuple(_quotients(release, one) for one in each)
    return found[0] if len(found) == 1 else QuotientSums(found)


def _quotients(release: Release, forms: Sequence[Quotient]) -> Quotients:
    columns = [_quotient_moments(release, form) for form in forms]
    return Quotients(*(np.concatenate(column) for column in zip(*columns, strict=True)))


def _moments(release: Release, form: Linear) -> tuple[Floats, Floats]:
    """Values and variances."""
    if not form.terms:
        return np.full(1, float(form.constant)), np.zeros(1)
    term = form.term
    return release.estimate.term(term) + float(form.constant), variances(release, term)


def _quotient_moments(release: Release, form: Quotient) -> tuple[Floats, ...]:
    (n, nn), (d, dd) = _moments(release, form.numerator), _moments(release, form.denominator)
    together = bool(form.numerator.terms and form.denominator.terms)
    nd = (
        row_covariances(release, form.numerator.term, form.denominator.term)
        if together
        else np.zeros(1)
    )
    return tuple(np.broadcast_arrays(n, d, nn, nd, dd))
