"""Named sets of one attribute's values, the rows that a table is broken down by.

Sets may overlap and need not cover every value; their order is kept. An attribute by itself is the
grouping with one set per value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dhdmm.study.attributes import Codes
from dhdmm.study.attributes.base import Partition
from dhdmm.study.document import Place
from dhdmm.study.factor import LARGEST_WRITTEN, Factor, Ranges, factor_of_sets, with_total
from dhdmm.study.hierarchy import partitions
from dhdmm.study.models import GroupingModel, SetModel
from dhdmm.study.names import LazySequence, first_repeated, nearest
from dhdmm.study.predicate import mask, read
from dhdmm.study.query import TOTAL
from dhdmm.study.schema import Schema
from dhdmm.study.workload import plain_axis


@dataclass(frozen=True, eq=False)
class Grouping:
    """Rows over attribute number `attribute`, called `labels`, with SQL `predicates`."""

    name: str
    attribute: int
    factor: Factor
    labels: Sequence[str]
    predicates: Sequence[str]

    @cached_property
    def with_total(self) -> Grouping:
        rows = len(self.labels)
        return replace(
            self,
            factor=with_total(self.factor),
            labels=LazySequence(rows + 1, lambda i: self.labels[i] if i < rows else TOTAL),
            predicates=LazySequence(rows + 1, lambda i: self.predicates[i] if i < rows else ""),
        )

    def take(self, rows: Codes) -> Grouping:
        """Some of the rows, in order; all of them are this very grouping."""
        if len(rows) == len(self.labels):
            return self
        return replace(
            self,
            factor=self.factor.take(rows),
            labels=LazySequence(len(rows), lambda i: self.labels[rows[i]]),
            predicates=LazySequence(len(rows), lambda i: self.predicates[rows[i]]),
        )


def plain_grouping(name: str, schema: Schema, attribute: int, factor: Factor) -> Grouping:
    """Rows called after the values that they hold."""
    axis = plain_axis(name, schema.attributes[attribute], factor)
    return Grouping(name, attribute, factor, axis.labels, axis.predicates)


def groupings(name: str, model: GroupingModel, schema: Schema, place: Place) -> dict[str, Grouping]:
    """What an entry of the study file stands for: a grouping, or one for each of its levels."""
    if model.of not in schema.names:
        raise (place / "of").error(
            f"unknown attribute '{model.of}'", nearest(model.of, schema.names)
        )
    index = schema.names.index(model.of)
    if model.levels is not None:
        with place.located():
            found = list(
                partitions(schema.attributes[index], len(model.levels), model.mapping or {})
            )
        levels = zip(model.levels, found, strict=True)
        return {level: _grouping_of(level, part, schema, index) for level, part in levels}
    return {name: _grouping(name, model, schema, index, place)}


def _grouping(
    name: str, model: GroupingModel, schema: Schema, index: int, place: Place
) -> Grouping:
    if model.sets is not None:
        return _grouping_of_sets(name, model.sets, schema, index, place / "sets")
    attribute = schema.attributes[index]
    if model.by is not None:
        with (place / "by").located():
            return grouping_by_unit(name, model.by, schema, index)
    with (place / "edges").located():
        cuts = attribute.cuts(model.edges)
    return plain_grouping(name, schema, index, Ranges(cuts[:-1], cuts[1:], attribute.size))


def grouping_by_unit(name: str, unit: str, schema: Schema, index: int) -> Grouping:
    """One set per unit, such as the days of each month."""
    return _grouping_of(name, schema.attributes[index].by_unit(unit), schema, index)


def _grouping_of(name: str, found: Partition, schema: Schema, index: int) -> Grouping:
    order = np.argsort(found.group, kind="stable")
    ends = np.searchsorted(found.group[order], np.arange(len(found.labels) + 1))
    factor = factor_of_sets(order, ends, schema.attributes[index].size)
    plain = plain_grouping(name, schema, index, factor).predicates
    return Grouping(name, index, factor, found.labels, found.conditions or plain)


@dataclass(frozen=True, eq=False)
class _Entry:
    """What one entry of a list of sets stands for: a set, or one set of each value."""

    labels: Sequence[str]
    codes: Codes
    condition: str | None = None
    """Says it more shortly than the list of values."""

    @property
    def lengths(self) -> list[int]:
        """How many of the codes each set has."""
        return [len(self.codes) // len(self.labels)] * len(self.labels)


def _grouping_of_sets(
    name: str, models: Sequence[SetModel], schema: Schema, index: int, place: Place
) -> Grouping:
    attribute = schema.attributes[index]
    entries = _entries(models, schema, index, place)
    labels = [label for entry in entries for label in entry.labels]
    repeated = first_repeated(labels)
    if repeated is not None:
        raise place.error(f"two sets are called '{repeated}'")
    codes = np.concatenate([entry.codes for entry in entries])
    ends = np.cumsum([0, *(length for entry in entries for length in entry.lengths)])
    conditions = [entry.condition for entry in entries for _ in entry.labels]

    def predicate(i: int) -> str:
        condition = conditions[i]
        if condition is None:
            return attribute.set_predicate(codes[ends[i] : ends[i + 1]])
        return f"({condition})"

    factor = factor_of_sets(codes, ends, attribute.size)
    return Grouping(name, index, factor, labels, LazySequence(len(labels), predicate))


def _entries(
    models: Sequence[SetModel], schema: Schema, index: int, place: Place
) -> Sequence[_Entry]:
    """Every entry in order; the rest is what no other set holds."""
    attribute = schema.attributes[index]
    entries: list[_Entry] = []
    left, listed = np.ones(attribute.size, np.bool_), 0
    for i, model in enumerate(models):
        entries.append(_entry(model, schema, index, place / i))
        listed += len(entries[-1].codes)
        if listed > LARGEST_WRITTEN:
            raise (place / i).error(f"the sets hold more than {LARGEST_WRITTEN:,} values in all")
        left[entries[-1].codes] = False
    rests = [i for i, model in enumerate(models) if model.rest]
    if len(rests) > 1:
        raise (place / rests[1]).error("only one set can be the rest")
    for i in rests:
        entries[i] = replace(entries[i], codes=np.flatnonzero(left))
    for i, entry in enumerate(entries):
        if not len(entry.codes):
            raise (place / i).error(f"the set holds no value of '{attribute.name}'")
    return entries


def _entry(model: SetModel, schema: Schema, index: int, place: Place) -> _Entry:
    """What an entry says; of the rest it is not known yet what it holds."""
    attribute = schema.attributes[index]
    if model.where is not None:
        where = str(place / "where")
        found = read(model.where, schema, only=index, where=where)
        codes = np.flatnonzero(mask(found, schema, index, where=where))
        return _Entry([str(model.label)], codes, found.text)
    if model.each is not None:
        with (place / "each").located():
            each = attribute.each(model.each)
        return _Entry([attribute.label(code) for code in each], np.array(each, np.int64))
    with (place / "values").located():
        chosen = {attribute.listed_code(value) for value in model.values or ()}
    return _Entry([str(model.label)], np.array(sorted(chosen), np.int64))
