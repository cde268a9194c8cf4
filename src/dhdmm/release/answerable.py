"""Which counting queries a release answers; for others, the nearest that it does.

A query in the row space of A' is a function of the measurement. A query outside has no unbiased
answer; it is refused with those that have and differ from it in as few places as possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from dhdmm.errors import NotMeasured, StudyError
from dhdmm.study import sqltext
from dhdmm.study.attributes import Attribute, Codes
from dhdmm.study.document import Place
from dhdmm.study.factor import Ranges
from dhdmm.study.items import item
from dhdmm.study.models import ItemModel
from dhdmm.study.names import column
from dhdmm.study.query import query_label
from dhdmm.study.spec import names_of
from dhdmm.study.sql import ParsedQuery, parse_query
from dhdmm.study.workload import Item, Term

if TYPE_CHECKING:
    from dhdmm.release.release import Release

NAME = "query"
LARGEST_ANSWERS = 2_000_000
CANDIDATES = 400
"""Queries tried in the search for answerable ones."""
SUGGESTIONS = 3
LISTED_ITEMS = 5


def item_of(release: Release, sql: str) -> Item:
    """The groups of a counting query in SQL, with the records of each counted."""
    study = release.plan.study
    return item(ItemModel(name=NAME, sql=sql), names_of(study), study.cells, Place())


def check_measured(release: Release, sql: str) -> None:
    """Refuse a counting query that does not follow from what was measured."""
    asked = item_of(release, sql)
    measured = [release.plan.strategy.membership.measured(term) for term in asked.terms]
    outside = sum(int(np.count_nonzero(~rows)) for rows in measured)
    if outside == 0:
        return
    term, rows = next(part for part in zip(asked.terms, measured, strict=True) if not all(part[1]))
    example = query_label(term, [int(row) for row in term.rows_of(int(np.argmin(rows)))])
    every = outside == asked.queries
    number = "any" if every else f"{outside:,}"
    number = "it" if asked.queries == 1 else f"{number} of its {asked.queries:,} answers"
    nearest = tuple(_nearest(release, sql))
    answerable = f"these are answerable: {'; '.join(nearest)}; " if nearest else ""
    tables = f"the release has tables of its own: {', '.join(_related(release, sql))}"
    what = f"the round did not measure {number} (first: {example})"
    raise NotMeasured(what, nearest, answerable + tables)


def _related(release: Release, sql: str) -> list[str]:
    """The study's own tables about the query's attributes, or about anything."""
    study = release.plan.study
    parsed = parse_query(sql, study.schema, study.groupings)
    wanted = {attribute for names in parsed.grouping_sets for attribute in _numbers(release, names)}
    wanted |= {attribute for box in parsed.boxes for attribute in box.masks}
    items = study.workload.items
    about = [one.name for one in items if wanted & {a for t in one.terms for a in _varied(t)}]
    return (about or [one.name for one in items])[:LISTED_ITEMS]


def _varied(term: Term) -> Iterator[int]:
    return (a for a, axis in enumerate(term.axes) if axis is not None)


def _numbers(release: Release, names: tuple[str, ...]) -> list[int]:
    """The attributes that attributes and groupings of these names break down."""
    known = names_of(release.plan.study)
    return [known.grouping(name, Place()).attribute for name in names]


# ---- the nearest answerable queries -------------------------------------------------------------


@dataclass(frozen=True)
class _Question:
    """One grouping set and, per attribute, the allowed codes; or a condition that is kept whole."""

    names: tuple[str, ...]
    allowed: tuple[tuple[int, tuple[int, ...]], ...]
    coupled: str = ""

    def sql(self, attributes: tuple[Attribute, ...]) -> str:
        parts = [attributes[a].set_predicate(np.array(codes)) for a, codes in self.allowed]
        condition = self.coupled or " AND ".join(part for part in parts if part)
        columns = [column(name) for name in self.names]
        where = f" WHERE {condition}" if condition else ""
        group = f" GROUP BY {', '.join(columns)}" if columns else ""
        return f"SELECT {', '.join([*columns, 'COUNT(*)'])} FROM {sqltext.TABLE}{where}{group}"


def _nearest(release: Release, sql: str) -> list[str]:
    """Answerable queries of the fewest changes, the smaller changes first."""
    study = release.plan.study
    parsed = parse_query(sql, study.schema, study.groupings)
    level = dict.fromkeys(_question(parsed, names) for names in parsed.grouping_sets)
    seen, left = set(level), CANDIDATES
    while level and left > 0:
        texts = [question.sql(study.schema.attributes) for question in islice(level, left)]
        found = [text for text in texts if _answerable(release, text)]
        if found:
            return found[:SUGGESTIONS]
        left -= len(texts)
        level = {n: None for q in level for n in _changes(release, q) if n not in seen}
        seen |= set(level)
    return []


def _question(parsed: ParsedQuery, names: tuple[str, ...]) -> _Question:
    if len(parsed.boxes) != 1:
        return _Question(names, (), parsed.condition)
    masks = parsed.boxes[0].masks
    return _Question(names, tuple((a, _codes(np.flatnonzero(masks[a]))) for a in sorted(masks)))


def _codes(codes: Codes) -> tuple[int, ...]:
    return tuple(codes.tolist())


def _answerable(release: Release, sql: str) -> bool:
    try:
        asked = item_of(release, sql)
    except StudyError:  # nothing is left to count, or two groupings of one attribute
        return False
    return asked.queries <= LARGEST_ANSWERS and all(
        map(release.plan.strategy.membership.contains, asked.terms)
    )


def _changes(release: Release, question: _Question) -> Iterator[_Question]:
    """Everything one step coarser or wider, small steps first."""
    yield from _moved_ends(release, question)
    names = question.names
    for i, (name, attribute) in enumerate(zip(names, _numbers(release, names), strict=True)):
        for other in _other_names(release, name, attribute):
            yield replace(question, names=(*names[:i], other, *names[i + 1 :]))
    for i in range(len(names)):
        yield replace(question, names=names[:i] + names[i + 1 :])
    for part in question.allowed:
        yield replace(question, allowed=tuple(p for p in question.allowed if p is not part))
    if question.coupled:
        yield replace(question, coupled="")


def _other_names(release: Release, name: str, attribute: int) -> list[str]:
    """The groupings of the same attribute, finer ones first."""
    groupings = release.plan.study.groupings.values()
    others = [g for g in groupings if g.attribute == attribute and g.name != name]
    return [g.name for g in sorted(others, key=lambda g: -len(g.labels))]


def _moved_ends(release: Release, question: _Question) -> Iterator[_Question]:
    """A range with one end moved to the next place, down or up, where it may have been cut."""
    attributes = release.plan.study.schema.attributes
    for i, (a, codes) in enumerate(question.allowed):
        low, high = codes[0], codes[-1] + 1
        if not attributes[a].ordered or high - low != len(codes):
            continue
        for cuts in _cuts(release, a):
            moved = [(end, high) for end in _around(cuts, low) if end < high]
            moved += [(low, end) for end in _around(cuts, high) if end > low]
            for ends in moved:
                if ends == (0, attributes[a].size):
                    continue  # nothing is left of the condition: another change
                part = (a, tuple(range(*ends)))
                yield replace(
                    question, allowed=(*question.allowed[:i], part, *question.allowed[i + 1 :])
                )


def _cuts(release: Release, attribute: int) -> Iterator[Codes]:
    """Codes at which a range may begin or end: where the strategy tells neighbours apart, and the
    borders of each grouping."""
    merged = release.plan.strategy.axes[attribute].merged
    ends = np.array([0, len(merged)])
    yield np.union1d(ends, np.flatnonzero(np.diff(merged)) + 1)
    for grouping in release.plan.study.groupings.values():
        if grouping.attribute == attribute and isinstance(grouping.factor, Ranges):
            yield np.unique(np.concatenate([ends, grouping.factor.low, grouping.factor.high]))


def _around(cuts: Codes, end: int) -> list[int]:
    """The nearest cuts below and above, none if the end is one itself."""
    place = int(np.searchsorted(cuts, end))
    return [] if cuts[place] == end else [int(cuts[place - 1]), int(cuts[place])]
