"""The cells that a workload is over: a record's attributes, and those that no column holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dhdmm.errors import StudyError
from dhdmm.study.coverage import of_counted, with_rows
from dhdmm.study.factor import Ranges
from dhdmm.study.persons import FIRST, MARKED, Mark
from dhdmm.study.schema import Schema
from dhdmm.study.workload import Axis, Term

COUNTED = "counted"
"""The column that tells persons from records, in tables that have both."""


@dataclass(frozen=True)
class Cells:
    """A study's cells."""

    records: Schema
    """What the columns of a table hold."""
    marks: tuple[Mark, ...] = ()
    """The ways to count persons, each with an attribute."""
    coverage: bool = False
    """Whether rows that are left out have cells, too."""

    @cached_property
    def of_counted_rows(self) -> Schema:
        if not self.marks:
            return self.records
        return Schema((*self.records.attributes, *(MARKED for _ in self.marks)))

    @cached_property
    def schema(self) -> Schema:
        schema = self.of_counted_rows
        return with_rows(schema) if self.coverage else schema

    def terms(self, terms: list[Term]) -> tuple[Term, ...]:
        """The same queries of one table, from the attributes of a record to these cells."""
        if self.schema is self.records:
            return tuple(terms)
        persons = any(term.mark is not None for term in terms)
        return tuple(self._term(term, persons) for term in terms)

    def _term(self, term: Term, persons: bool) -> Term:
        factors = [Ranges.total(MARKED.size)] * len(self.marks)
        axes: list[Axis | None] = [None] * len(self.marks)
        products = [replace(p, factors=(*p.factors, *factors)) for p in term.products]
        lifted = replace(term, products=tuple(products), axes=(*term.axes, *axes))
        if term.mark is not None:
            lifted = self.of_persons(lifted, term.mark)
        elif persons:
            lifted = self._called(lifted, "records")
        return of_counted(lifted) if self.coverage else lifted

    def of_persons(self, counts: Term, mark: Mark) -> Term:
        """The persons of each group, from the term over these cells that counts its records."""
        if mark not in self.marks:
            known = "; ".join(one.words for one in self.marks)
            raise StudyError(
                f"the study does not count persons {mark.words}",
                hint=f"it counts them {known}" if known else "ask for them before the round",
            )
        at = len(self.records.attributes) + self.marks.index(mark)
        first = Ranges(np.array([FIRST]), np.array([FIRST + 1]), MARKED.size)
        products = [
            replace(p, factors=(*p.factors[:at], first, *p.factors[at + 1 :]))
            for p in counts.products
        ]
        return self._called(replace(counts, products=tuple(products), mark=mark), "persons")

    def _called(self, term: Term, what: str) -> Term:
        """All marks have one row, so that of the first can tell for all of them."""
        at = len(self.records.attributes)
        axes = (*term.axes[:at], Axis(COUNTED, [what], [""]), *term.axes[at + 1 :])
        return replace(term, axes=axes)
