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

    def times(self, number: Fraction) -> Quotient:
        return Quotient(self.numerator.times(number), self.denominator)

    def plus(self, other: Quotient) -> Quotient | None:
        """The sum as one quotient, whose interval is exact: of one denominator, or a constant."""
        for left, right in ((self, other), (other, self)):
            if not right.numerator.terms and not right.denominator.terms:
                constant = right.numerator.constant / right.denominator.constant
                n, d = left.numerator, left.denominator
                return Quotient(n.plus(d.times(constant)), d)
        a, b = self.denominator, other.denominator
        if (a.terms, a.coefficients, a.constant) == (b.terms, b.coefficients, b.constant):
            return Quotient(self.numerator.plus(other.numerator), a)
        return None


Form = tuple[Quotient, ...]
"""A sum of quotients; one that is linear is divided by 1."""


def linear(form: Form) -> Linear | None:
    """The form as a linear one, if it is that."""
    first, *others = form
    return None if others or first.denominator.terms else first.numerator


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
                return _over_one(_constant(Fraction(Decimal(tree.this))))
            case "neg":
                return _times(self.form(tree.this), Fraction(-1))
            case "add":
                return _sum(self.form(tree.this), self.form(tree.expression))
            case "sub":
                return _sum(self.form(tree.this), _times(self.form(tree.expression), Fraction(-1)))
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

    def _product(self, tree: Expr) -> Form:
        left, right = self.form(tree.this), self.form(tree.expression)
        for factor, other in ((linear(left), right), (linear(right), left)):
            if factor is not None and not factor.terms:
                return _times(other, factor.constant)
        return _refuse(tree, f"{sqltext.shown(tree)} multiplies two answers")

    def _quotient(self, tree: Expr) -> Form:
        whole = self.form(tree.this)
        dividend, divisor = linear(whole), linear(self.form(tree.expression))
        if divisor is not None and not divisor.terms:
            if not divisor.constant:
                return _refuse(tree, f"{sqltext.shown(tree)} divides by 0")
            return _times(whole, 1 / divisor.constant)
        if dividend is not None and divisor is not None:
            return (Quotient(dividend, divisor),)
        return _refuse(tree, f"{sqltext.shown(tree)} is a quotient of quotients")

    def _aggregate(self, tree: Expr, condition: Expr | None) -> Form:
        held = () if condition is None else boxes(condition, self.schema)
        counts = self.counts if condition is None else filtered(self.counts, held)
        argument = tree.args.get("this")
        if argument is None or argument.key in ("star", "literal"):
            return _over_one(_row(counts))
        if tree.key == "count" and argument.key == "distinct":
            columns = [one.name for one in argument.expressions]
            return _over_one(_row(self._persons(tree, columns, condition)))
        if argument.unnest().key != "column":
            return _refuse(tree, f"{sqltext.shown(tree)} is not of a column", _HINT)
        name = sqltext.known_name(argument.unnest(), self.schema.names, None)
        if name is None:
            hint = nearest(argument.name, self.schema.names)
            return _refuse(tree, f"unknown attribute '{argument.name}'", hint)
        known = of_known(self.schema, counts, name)
        if tree.key == "count":
            return _over_one(_row(known))
        sums = _row(summed(self.schema, counts, name))
        return _over_one(sums) if tree.key == "sum" else (Quotient(sums, _row(known)),)

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


def _over_one(form: Linear) -> Form:
    return (Quotient(form, _constant(Fraction(1))),)


def _times(form: Form, number: Fraction) -> Form:
    return tuple(part.times(number) for part in form)


def _sum(left: Form, right: Form) -> Form:
    """With as few quotients as possible."""
    found: list[Quotient] = []
    for part in (*left, *right):
        joined = ((i, known.plus(part)) for i, known in enumerate(found))
        place, both = next(((i, one) for i, one in joined if one), (len(found), part))
        found[place : place + 1] = [both]
    return tuple(found)


def _refuse(tree: Expr, what: str, hint: str | None = None) -> NoReturn:
    sqltext.refuse(tree, what, hint=hint)


# ---- from forms to numbers ----------------------------------------------------------------------


def estimated(release: Release, forms: list[Form]) -> Estimates:
    """The numbers of one expression, over the groups of every term in turn."""
    sums = [linear(form) for form in forms]
    if all(sums):
        parts = [_moments(release, one) for one in sums if one]
        values, squares = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Sums(values, np.sqrt(squares))
    found = tuple(_quotients(release, one) for one in zip(*forms, strict=True))
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
