"""Further questions to a release: SQL in, a table with exact standard errors out, no budget spent.

The release already fixes x̂ = A'⁺ M̂. A counting query in the row space of A' is a function of M̂, so
answering it is post-processing: it costs no privacy, and it agrees with every answer before it. So
is everything that is calculated from such answers, and any choice among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dhdmm.errors import NotMeasured, StudyError
from dhdmm.release.answerable import LARGEST_ANSWERS, check_measured, item_of
from dhdmm.release.derived import quantile_estimates
from dhdmm.release.expressions import AGGREGATES, Form, FormReader, estimated, linear
from dhdmm.release.frames import STATISTICS
from dhdmm.release.intervals import Estimates, Floats, Stacked, Sums, critical
from dhdmm.release.selection import SELECTED, Selection, read
from dhdmm.release.tables import Table
from dhdmm.study import sqltext
from dhdmm.study.derived import Quantiles
from dhdmm.study.workload import Item, Term

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

    from dhdmm.release.release import Release

UNBOUNDED = (
    "{count:,} intervals have no ends: their denominators cannot be told from 0 in this noise."
)


def ask(release: Release, sql: str, level: float, joint: bool = False) -> Table:
    """The answers to a query, one row per group; refuses what was not measured."""
    selection = read(sql)
    asked = _groups(release, selection)
    if asked.queries > LARGEST_ANSWERS:
        raise StudyError(
            f"the query has {asked.queries:,} groups, more than {LARGEST_ANSWERS:,}",
            hint="group by fewer attributes, or ask for parts of them with WHERE",
        )
    answers = _Answers(release, selection, asked)
    first, *others = selection.columns
    numbers = {name: answers.estimates(tree) for name, tree in selection.columns.items()}
    chosen = None if selection.is_whole else selection.rows(asked.queries, answers.column)
    is_linear = isinstance(numbers[first], Sums)
    return Table(
        release.plan.study.workload.schema,
        answers.item(selection.columns[first]) if is_linear else asked,
        numbers[first],
        level,
        asked.queries if joint or selection.chooses else None,
        chosen,
        release if is_linear else None,
        STATISTICS[0] if selection.is_plain else first,
        {name: numbers[name] for name in others},
        _notes(selection, asked, list(numbers.values()), level),
    )


def _groups(release: Release, selection: Selection) -> Item:
    """The groups, with the records of each counted."""
    try:
        return item_of(release, selection.counted)
    except StudyError as error:
        if selection.is_plain:
            raise
        raise StudyError(error.what, hint=error.hint) from None  # its place is in another text


class _Answers:
    """The numbers of expressions over the groups of a query, each computed once."""

    def __init__(self, release: Release, selection: Selection, asked: Item) -> None:
        self.release, self.selection, self.asked = release, selection, asked
        self.found: dict[str, Estimates] = {}

    def estimates(self, tree: Expr) -> Estimates:
        named = self.selection.names.get(tree.name.casefold()) if tree.key == "column" else None
        text = sqltext.render(named or tree)
        if text not in self.found:
            self.found[text] = self._estimated(named or tree)
        return self.found[text]

    def _estimated(self, tree: Expr) -> Estimates:
        if sqltext.is_quantile(tree):
            return self._quantiles(tree)
        forms = self._forms(tree)
        self._check_measured(tree, forms)
        return estimated(self.release, forms)

    def _quantiles(self, tree: Expr) -> Estimates:
        """One quantile of every group, from the records up to each value."""
        if len(sqltext.quantiles(tree)[1]) > 1:
            hint = "select each by itself, such as MEDIAN(x), QUANTILE(x, 0.9)"
            sqltext.refuse(tree, f"{sqltext.shown(tree)} is several numbers a group", hint=hint)
        try:
            asked = item_of(self.release, self.selection.asking_for(tree))
        except StudyError as error:  # its place is in another text
            sqltext.refuse(tree, error.what, hint=error.hint)
        if not _is_measured(self.release, list(asked.terms)):
            what = (
                f"the round did not measure the records up to each value of {sqltext.shown(tree)}"
            )
            raise NotMeasured(what, (), "a study must ask for quantiles or ranges before the round")
        parts = [
            quantile_estimates(self.release, term, self.release.estimate.term(term), derived)
            for term, derived in zip(asked.terms, asked.derived, strict=True)
            if isinstance(derived, Quantiles)
        ]
        return parts[0] if len(parts) == 1 else Stacked(tuple(parts))

    def column(self, tree: Expr) -> Floats:
        """Numbers that HAVING and ORDER BY look at; a label stands for its place."""
        if tree.key == "column" and tree.name.casefold() not in self.selection.names:
            return self._places(tree)
        values = self.estimates(tree).values
        return np.broadcast_to(values, self.asked.queries)

    def item(self, tree: Expr) -> Item:
        """Linear queries that the expression asks, where it is no quotient."""
        forms = map(linear, self._forms(tree))
        return Item(self.asked.name, tuple(one.term for one in forms if one and one.terms))

    def _forms(self, tree: Expr) -> list[Form]:
        study, names = self.release.plan.study, self.selection.names
        return [FormReader(study, term, names).form(tree) for term in self.asked.terms]

    def _places(self, tree: Expr) -> Floats:
        """The order of the labels: that of the schema, totals last."""
        found = []
        for term in self.asked.terms:
            axes = [a for a, axis in enumerate(term.axes) if axis and axis.header == tree.name]
            if axes:
                rows = term.rows_of(np.arange(term.queries))[axes[0]]
                found.append(rows.astype(np.float64))
            else:
                found.append(np.full(term.queries, np.inf))
        if not any(np.isfinite(part).any() for part in found):
            sqltext.refuse(tree, f"'{tree.name}' is not selected", hint="order by what is")
        return np.concatenate(found)

    def _check_measured(self, tree: Expr, forms: list[Form]) -> None:
        sides = (
            side for form in forms for one in form for side in (one.numerator, one.denominator)
        )
        terms = [side.term for side in sides if side.terms]
        if not _is_measured(self.release, terms):
            for one in (node for node in tree.walk() if node.key in AGGREGATES):
                check_measured(self.release, _about(self.selection.counted, one))
            what = f"the round measured the counts of these groups, but not {sqltext.shown(tree)}"
            raise NotMeasured(what, (), "a study must ask for a sum or a mean before the round")


def _about(counted: str, aggregate: Expr) -> str:
    """The query that counts, group by group, the records that an aggregate is about."""
    from sqlglot import exp

    filter_ = aggregate.parent
    if filter_ is None or filter_.key != "filter":
        return counted
    tree = sqltext.parse_query(counted)
    known, condition = tree.args.get("where"), sqltext.render(filter_.expression.this)
    both = condition if known is None else f"({sqltext.render(known.this)}) AND ({condition})"
    tree.set("where", exp.Where(this=sqltext.parse_condition(both)))
    return sqltext.render(tree)


def _is_measured(release: Release, terms: list[Term]) -> bool:
    return all(map(release.plan.strategy.membership.contains, terms))


def _notes(selection: Selection, asked: Item, columns: Sequence[Estimates], level: float) -> str:
    """What the rows do not tell by themselves."""
    notes = [SELECTED.format(groups=asked.queries)] if selection.chooses else []
    bounds = [one.bounds(critical(level)) for one in columns if not isinstance(one, Sums)]
    unbounded = sum(int(np.count_nonzero(np.isinf(high))) for _, high in bounds)
    if unbounded:
        notes.append(UNBOUNDED.format(count=unbounded))
    return " ".join(notes)
