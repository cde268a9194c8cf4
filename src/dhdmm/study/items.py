"""From what a study file says to weighted Kronecker terms.

`by`, `where`, `with_totals`, `ranges`, `marginals` and SQL all end in one function, `term`: rows
from the groupings, intersected with the boxes of the condition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations

import numpy as np

from dhdmm.effort import OBJECT, allocate, borrow, work
from dhdmm.study.cells import Cells
from dhdmm.study.coverage import coverage_terms
from dhdmm.study.derived import Derived, Mean, Measured, Quantiles
from dhdmm.study.diagram import Mask
from dhdmm.study.document import Place
from dhdmm.study.factor import Factor, Ranges, restricted
from dhdmm.study.grouping import Grouping, grouping_by_unit, plain_grouping
from dhdmm.study.models import (
    GROUPED,
    ItemModel,
    MarginalsModel,
    PersonModel,
    RangesModel,
    TermModel,
    no_target,
)
from dhdmm.study.names import first_repeated, nearest
from dhdmm.study.persons import mark_of
from dhdmm.study.predicate import Box, boxes, read
from dhdmm.study.schema import Schema
from dhdmm.study.sql import ParsedQuery, parse_query, unit_name
from dhdmm.study.sums import of_known, summed
from dhdmm.study.workload import Axis, Item, Product, Term

LARGEST_TERMS = 20_000
LARGEST_RANGES = 10**7
EVERYTHING = (Box(1, {}),)


@dataclass(frozen=True, eq=False)
class Condition:
    """A condition in SQL and as a signed sum of boxes; by default it holds always."""

    text: str = ""
    boxes: tuple[Box, ...] = EVERYTHING

    @cached_property
    def _cuts(self) -> dict[tuple[int, Grouping | None], _Cut]:
        return {}

    def cut(self, schema: Schema, attribute: int, grouping: Grouping | None) -> _Cut:
        """What it leaves of an attribute's rows; made once, since many terms share it."""
        key = attribute, grouping
        if key not in self._cuts:
            self._cuts[key] = self._cut(schema, attribute, grouping)
        return self._cuts[key]

    def _cut(self, schema: Schema, attribute: int, grouping: Grouping | None) -> _Cut:
        masks = [box.masks.get(attribute) for box in self.boxes]
        if grouping is not None:
            kept = _possible(grouping, masks)
            return _Cut(kept.factor, Axis(kept.name, kept.labels, kept.predicates), masks)
        axis = None
        if len(masks) == 1 and masks[0] is not None:
            fixed = schema.attributes[attribute]
            axis = Axis(fixed.name, [fixed.set_label(np.flatnonzero(masks[0]))], [""])
        return _Cut(_total(schema.shape[attribute]), axis, masks)


@dataclass(frozen=True)
class Names:
    """What `by` may name: attributes and groupings."""

    schema: Schema
    groupings: Mapping[str, Grouping] = field(default_factory=dict)
    person: PersonModel | None = None
    """Whom the study protects, if that is persons."""

    def grouping(self, name: str, place: Place) -> Grouping:
        """What a name stands for; looked up once, since many terms share it."""
        if name not in self._found:
            self._found[name] = self._grouping(name, place)
        return self._found[name]

    @cached_property
    def _found(self) -> dict[str, Grouping]:
        return {}

    def _grouping(self, name: str, place: Place) -> Grouping:
        if name in self._measured:
            hint = "ask for its 'sum' or 'mean', or declare the column as a number with edges, too"
            raise place.error(f"'{name}' is measured: no table is broken down by it", hint)
        found = self.groupings.get(name) or self._attribute(name) or self._by_unit(name)
        if found is None:
            known = [*self.schema.names, *self.groupings]
            raise place.error(f"unknown attribute or grouping '{name}'", nearest(name, known))
        return found

    def condition(self, given: Sequence[tuple[str, Place]]) -> Condition:
        """All the conditions given, together; made once, since many terms share them."""
        texts = tuple(text for text, _ in given)
        if texts not in self._conditions:
            self._conditions[texts] = self._together(given)
        return self._conditions[texts]

    def _together(self, given: Sequence[tuple[str, Place]]) -> Condition:
        """Each is checked by itself, so that errors find it."""
        if not given:
            return Condition()
        where = str(given[-1][1])
        if len(given) == 1:
            found = read(given[0][0], self.schema, where=where)
            return Condition(found.text, boxes(found, self.schema, where=where))
        joined = " AND ".join(f"({self.condition([one]).text})" for one in given)
        return Condition(joined, boxes(joined, self.schema, where=where))

    @cached_property
    def _measured(self) -> list[str]:
        return [a.name for a in self.schema.attributes if a.present.divided is not None]

    @cached_property
    def _conditions(self) -> dict[tuple[str, ...], Condition]:
        return {}

    def _by_unit(self, name: str) -> Grouping | None:
        """`week of visit` needs no entry in the study."""
        for a, attribute in enumerate(self.schema.attributes):
            for unit in attribute.present.units:
                if name == unit_name(unit, attribute.name):
                    return grouping_by_unit(name, unit, self.schema, a)
        return None

    def _attribute(self, name: str) -> Grouping | None:
        """One set per value."""
        if name not in self.schema.names:
            return None
        a = self.schema.names.index(name)
        return plain_grouping(name, self.schema, a, Ranges.each(self.schema.shape[a]))


def item(model: ItemModel, names: Names, cells: Cells, place: Place) -> Item:
    """One entry of the workload."""
    if model.coverage:
        return Item(model.name, coverage_terms(cells.of_counted_rows, model.weight))
    terms, derived = asked(model, names, place)
    return Item(model.name, cells.terms(terms), tuple(derived))


def asked(model: ItemModel, names: Names, place: Place) -> tuple[list[Term], list[Derived]]:
    """What an entry asks of records, over their own attributes; of coverage, nothing."""
    if model.coverage:
        return [], []
    if model.sql is not None:
        terms, derived = _sql_terms(model, names, place / "sql")
        if derived and model.target is not None:
            raise (place / "target").error(*no_target("means and quantiles"))
        return terms, derived
    return _derived(model, names, list(_terms(model, names, place)), place)


def _derived(
    model: ItemModel, names: Names, counts: list[Term], place: Place
) -> tuple[list[Term], list[Derived]]:
    """What an item measures, and what it derives from that, given the counts of its groups."""
    schema = names.schema
    if model.quantiles is not None:
        axis = names.grouping(model.quantiles.of, place).attribute
        return counts, [_quantiles(model.quantiles.of, counts[0], 0, axis, model.quantiles.at)]
    total = model.sum or model.mean
    if total is None:
        return counts, []
    with (place / ("sum" if model.sum else "mean") / "of").located():
        sums = summed(schema, counts[0], total.of, total.representative)
        known = of_known(schema, counts[0], total.of)
    return ([sums], []) if model.sum else ([sums, known], [Mean(total.of, 0, 1)])


def _quantiles(of: str, prefixes: Term, number: int, axis: int, at: Sequence[float]) -> Quantiles:
    steps = prefixes.axes[axis]
    assert steps is not None
    return Quantiles(of, number, axis, tuple(at), steps.labels)


def _terms(model: ItemModel, names: Names, place: Place) -> Iterator[Term]:
    """The item's terms; the item's own `by`, `where`, … apply to each of them."""
    outer = _by(model.by or (), names, place / "by")
    for kind in GROUPED:
        found = getattr(model, kind)
        outer += [] if found is None else _by(found.by or (), names, place / kind / "by")
    if model.quantiles is not None:
        outer.append(_quantile_steps(model.quantiles.of, outer, names, place / "quantiles"))
    if model.ranges is not None:
        outer.append(_ranges(model.ranges, names, place / "ranges"))
    for part, here in _parts(model, names.schema, place):
        by = [*outer, *_by(part.by or (), names, here / "by")]
        totals = [*(model.with_totals or ()), *(part.with_totals or ())]
        both = [(model.where, place / "where"), (part.where, here / "where")]
        condition = names.condition([(text, at) for text, at in both if text is not None])
        weight = model.weight * part.weight
        counts = term(names.schema, _totalled(by, totals, here), condition, weight, here)
        if model.persons is None:
            yield counts
        else:
            yield _of_persons(names, counts, by, condition, place / "persons")


def _of_persons(
    names: Names, counts: Term, by: Sequence[Grouping], condition: Condition, place: Place
) -> Term:
    """The persons of each group; they are the records where each has one at most."""
    person = names.person
    if person is None:
        hint = "persons are counted where they are protected: privacy: {unit: {person: …}}"
        raise place.error("the study does not say who is a person", hint)
    if person.max_records == 1:
        return counts
    with place.located():
        mark = mark_of(names.schema, person.column, by, condition.text, condition.boxes)
    return replace(counts, mark=mark)


def _parts(model: ItemModel, schema: Schema, place: Place) -> Iterator[tuple[TermModel, Place]]:
    """The terms that the item lists, or the ones that its short form stands for."""
    if model.marginals is not None:
        here = place / "marginals"
        for chosen in _marginals(model.marginals, schema, here):
            yield TermModel(by=list(chosen)), here
    elif model.terms is not None:
        for i, part in enumerate(model.terms):
            yield part, place / "terms" / i
    else:
        yield TermModel.model_construct(total=True), place  # no need to build its validator


def _marginals(model: MarginalsModel, schema: Schema, place: Place) -> Sequence[Sequence[str]]:
    if model.of is not None:
        return model.of
    names = [a.name for a in schema.attributes if a.present.divided is None]
    ways, count = model.ways or 0, len(names)
    if ways > count:
        raise (place / "ways").error(f"the schema has only {count} attributes, not {ways}")
    if math.comb(count, ways) > LARGEST_TERMS:
        raise (place / "ways").error(
            f"{math.comb(count, ways):,} tables are more than {LARGEST_TERMS:,}",
            "list the ones that are needed in 'of'",
        )
    return list(combinations(names, ways))


def _ranges(model: RangesModel, names: Names, place: Place) -> Grouping:
    """Runs of consecutive values, or of consecutive bins of a grouping with edges."""
    base = names.grouping(model.of, place / "of")
    attribute = names.schema.attributes[base.attribute]
    steps = base.factor
    if not (
        attribute.present.ordered
        and isinstance(steps, Ranges)
        and np.all(steps.low[1:] == steps.high[:-1])
    ):
        raise (place / "of").error(
            f"'{model.of}' has no order to take ranges or quantiles of",
            "they are of integers, numbers, dates, or a grouping of them with 'edges' or 'by'",
        )
    if attribute.missing_code is not None:  # it is in no range
        steps = steps.take(np.flatnonzero(steps.high <= attribute.missing_code))
    runs = _runs(model, len(steps.low), place)
    if len(steps.low) == attribute.size:
        return plain_grouping(model.of, names.schema, base.attribute, runs)
    allocate(2 * len(runs.low))
    chosen = Ranges(steps.low[runs.low], steps.high[runs.high - 1], attribute.size)
    return plain_grouping(model.of, names.schema, base.attribute, chosen)


def _quantile_steps(of: str, by: Sequence[Grouping], names: Names, place: Place) -> Grouping:
    """Prefixes, each called after its last step."""
    steps = names.grouping(of, place / "of")
    prefixes = _ranges(RangesModel(of=of, kind="prefix"), names, place)
    for one in by:
        if one.attribute == steps.attribute:
            raise (place / "by").error(
                f"quantiles of '{of}' are not broken down by '{one.name}', which is of the same"
                " attribute",
                "group by others, or take one part of it by a condition",
            )
    return replace(prefixes, labels=steps.labels)


def _runs(model: RangesModel, size: int, place: Place) -> Ranges:
    if model.kind == "prefix":
        return Ranges.prefixes(size)
    if model.width is not None:
        if model.width > size:
            raise (place / "width").error(f"'{model.of}' has only {size} values")
        return Ranges.windows(size, model.width)
    if size * (size + 1) // 2 > LARGEST_RANGES:
        raise (place / "kind").error(
            f"'{model.of}' has {size * (size + 1) // 2:,} ranges, more than {LARGEST_RANGES:,}",
            "use kind: prefix, from which every range follows by subtraction",
        )
    return Ranges.all(size)


def _sql_terms(model: ItemModel, names: Names, place: Place) -> tuple[list[Term], list[Derived]]:
    query = parse_query(
        model.sql or "", names.schema, names.groupings, where=str(place), person=names.person
    )
    terms: list[Term] = []
    derived: list[Derived] = []
    for chosen in query.grouping_sets:
        found = _Aggregates(
            query, _by(chosen, names, place), names, model.weight, place, len(terms)
        )
        derived += [found.answers(kind, of) for kind, of in query.aggregates]
        terms += found.terms
    if all(isinstance(one, Measured) for one in derived):
        return terms, []
    _check_dates(derived, query, names.schema)
    return terms, derived


def _check_dates(derived: Sequence[Derived], query: ParsedQuery, schema: Schema) -> None:
    """Quantiles of dates are dates, and a table has one column of answers."""
    units = [
        schema.attributes[one.axis].present.times if isinstance(one, Quantiles) else ""
        for one in derived
    ]
    if len(set(units)) > 1:
        dated = next(of for (_, of), unit in zip(query.aggregates, units, strict=False) if unit)
        raise Place(query.quantiles[dated].where).error(
            f"quantiles of '{dated}' are dates, and other answers of this table are not",
            "ask for them in an item of its own",
        )


class _Aggregates:
    """The terms that the aggregates of one grouping set need, each once."""

    def __init__(
        self,
        query: ParsedQuery,
        by: Sequence[Grouping],
        names: Names,
        weight: float,
        place: Place,
        before: int,
    ) -> None:
        self.query, self.by, self.names, self.weight = query, by, names, weight
        self.place, self.before = place, before
        self.condition = Condition(query.condition, query.boxes)
        self.counts = term(names.schema, by, self.condition, weight, place)
        self.terms: list[Term] = []
        self._numbers: dict[tuple[str, str], int] = {}

    def answers(self, kind: str, of: str) -> Derived:
        """What the table shows for an aggregate."""
        if kind == "mean":
            return Mean(of, self._number("sum", of), self._number("count", of))
        if kind == "quantiles":
            return self._quantiles(of)
        return Measured(self._number(kind, of))

    def _number(self, kind: str, of: str) -> int:
        """Of the term among those of the item."""
        schema = self.names.schema
        if kind == "count" and of and of_known(schema, self.counts, of) is self.counts:
            of = ""  # every record has a value
        if (kind, of) not in self._numbers:
            self._numbers[kind, of] = self._add(self._term(kind, of))
        return self._numbers[kind, of]

    def _add(self, term: Term) -> int:
        self.terms.append(term)
        return self.before + len(self.terms) - 1

    def _term(self, kind: str, of: str) -> Term:
        if kind == "persons":
            return _of_persons(self.names, self.counts, self.by, self.condition, self.place)
        if not of:
            return self.counts
        make = summed if kind == "sum" else of_known
        return make(self.names.schema, self.counts, of)

    def _quantiles(self, of: str) -> Quantiles:
        shares = self.query.quantiles[of]
        with Place(shares.where).located():
            steps = _quantile_steps(of, self.by, self.names, Place())
            by = [*self.by, steps]
            prefixes = term(self.names.schema, by, self.condition, self.weight, self.place)
        return _quantiles(of, prefixes, self._add(prefixes), steps.attribute, shares.at)


def _by(chosen: Sequence[str], names: Names, place: Place) -> list[Grouping]:
    return [names.grouping(name, place) for name in chosen]


def _totalled(by: list[Grouping], totals: Sequence[str], place: Place) -> list[Grouping]:
    known = [grouping.name for grouping in by]
    repeated = first_repeated(known)
    if repeated is not None:
        raise place.error(f"'{repeated}' is named twice in 'by'")
    for name in totals:
        if name not in known:
            raise (place / "with_totals").error(
                f"'{name}' is not in 'by', so it has no total", f"'by' has {', '.join(known)}"
            )
    return [g.with_total if g.name in totals else g for g in by]


def term(
    schema: Schema, by: Sequence[Grouping], condition: Condition, weight: float, place: Place
) -> Term:
    """Counts by the groupings' rows, of the records that satisfy the condition.

    Rows on which the condition never holds are dropped; a condition that couples attributes gives
    one product per box.
    """
    grouped = _by_attribute(schema, by, place)
    found = condition.boxes
    touched = sorted({*grouped}.union(*(box.masks for box in found)))
    work(OBJECT * (3 * len(touched) * (1 + len(found)) + len(schema.attributes) / 10))
    cuts = {a: condition.cut(schema, a, grouped.get(a)) for a in touched}
    if not found or not all(cut.factor.shape[0] for cut in cuts.values()):
        raise place.error("no record can satisfy the condition, so the answers would all be 0")
    axes: list[Axis | None] = [None] * len(schema.shape)
    rows: list[Factor] = [_total(size) for size in schema.shape]
    for a, cut in cuts.items():
        axes[a], rows[a] = cut.axis, cut.factor
    products = []
    for i, box in enumerate(found):
        factors = list(rows)
        for a in box.masks:
            with place.located():
                factors[a] = cuts[a].within(i)
        products.append(Product(Fraction(box.coefficient, schema.units), tuple(factors)))
    return Term(weight, tuple(products), tuple(axes), condition.text)


@lru_cache(maxsize=256)
def _total(size: int) -> Ranges:
    """Shared, because most tables ask nothing of most attributes."""
    return Ranges.total(size)


def _by_attribute(schema: Schema, by: Sequence[Grouping], place: Place) -> dict[int, Grouping]:
    """The grouping of every attribute that is broken down."""
    chosen: dict[int, Grouping] = {}
    for grouping in by:
        other = chosen.setdefault(grouping.attribute, grouping)
        if other is not grouping:
            name = schema.names[grouping.attribute]
            raise place.error(
                f"'{other.name}' and '{grouping.name}' both break down '{name}'",
                "make one grouping that holds the sets of both",
            )
    return chosen


@dataclass(frozen=True, eq=False)
class _Cut:
    """What a condition leaves of an attribute's rows."""

    factor: Factor
    """The rows that some record can be in, whole."""
    axis: Axis | None
    """The column of the table: grouped by, or held fixed by a condition that couples nothing."""
    masks: Sequence[Mask | None]
    """What each of the condition's boxes asks of the attribute."""

    @cached_property
    def _within(self) -> dict[int, Factor]:
        return {}

    def within(self, box: int) -> Factor:
        """The rows inside one of the boxes."""
        mask = self.masks[box]
        if mask is None:
            return self.factor
        if box not in self._within:
            self._within[box] = restricted(self.factor, mask)
        return self._within[box]


def _possible(grouping: Grouping, masks: Sequence[Mask | None]) -> Grouping:
    """The rows that some box leaves a value."""
    if any(mask is None for mask in masks):
        return grouping
    borrow(3 * len(masks) + 2 * sum(grouping.factor.shape))
    possible = np.zeros(grouping.factor.shape[0], np.bool_)
    for mask in masks:
        possible |= grouping.factor.dot(np.asarray(mask, np.int64)) > 0
    return grouping.take(np.flatnonzero(possible))
