"""What a study file may say: one model per section. What it means is worked out in `items`.

Every model refuses unknown keys. Only the form is checked here; whether an attribute exists, a bin
is empty or a condition can be answered is checked where it is used, with its line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, GetCoreSchemaHandler, Tag, model_validator
from pydantic_core import CoreSchema

from dhdmm.study import attributes
from dhdmm.study.attributes.base import AttributeModel
from dhdmm.study.forms import (
    Delta,
    Fraction,
    Label,
    Name,
    Names,
    Positive,
    Section,
    Share,
    Value,
    problem,
)

KEYS_SINCE: dict[str, str] = {
    "aggregation.validation": "0.2.0",
    "aggregation.sealing": "0.2.0",
    "aggregation.excess_noise": "0.2.0",
    "aggregation.threat_model.two-servers": "0.2.0",
    "extra_measurements": "0.2.0",
    "objective": "0.2.0",
    "workload.target": "0.2.0",
    "schema.*.missing": "0.2.0",
    "schema.*.format": "0.2.0",
    "schema.*.type.date": "0.2.0",
    "schema.*.type.datetime": "0.2.0",
    "groupings.*.by": "0.2.0",
    "groupings.*.levels": "0.2.0",
    "groupings.*.mapping": "0.2.0",
    "schema.*.type.measure": "0.2.0",
    "schema.*.step": "0.2.0",
    "workload.coverage": "0.2.0",
    "workload.sum": "0.2.0",
    "workload.mean": "0.2.0",
    "workload.quantiles": "0.2.0",
    "workload.persons": "0.2.0",
}
"""The keys that came after dhdmm 0.1.0, and with which version: {"aggregation.key": "0.3"}. The
names of attributes and groupings are written *; a new word at a key follows it. It may name keys
that only a later version knows.
"""


NAMED_BY_PEOPLE = ("schema", "groupings")
"""The sections whose keys are names."""


def keys_since(path: Sequence[str | int]) -> str | None:
    """The version that brought this key, if it came after dhdmm 0.1.0.

    >>> keys_since(["schema", "age", "missing"]), keys_since(["workload", 2, "mean"])
    ('0.2.0', '0.2.0')
    """
    keys = [key for key in path if isinstance(key, str)]
    if len(keys) > 1 and keys[0] in NAMED_BY_PEOPLE:
        keys[1] = "*"
    return KEYS_SINCE.get(".".join(keys))


# ---- schema -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _TypeMadeLater:
    """In place of a type that depends on the types of attributes that there are."""

    make: Callable[[], Any]

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(self.make())


def _any_attribute() -> Any:
    models = reduce(or_, (one.model for one in attributes.TYPES))
    return Annotated[models, Field(discriminator="type")]


def _any_edges() -> Any:
    return reduce(or_, (one.grouping_edges for one in attributes.TYPES if one.grouping_edges))


AnyAttribute = Annotated[AttributeModel, _TypeMadeLater(_any_attribute)]
AnyEdges = Annotated[Any, _TypeMadeLater(_any_edges)]


# ---- groupings ----------------------------------------------------------------------------------


class SetModel(Section):
    """One set of values (or, with `each`, one set per value)."""

    one_of = ("values", "rest", "each", "where")
    label: Label | None = None
    values: Annotated[list[Value], Field(min_length=1)] | None = None
    rest: Literal[True] | None = None
    each: Annotated[list[Value], Field(min_length=1)] | None = None
    where: str | None = None

    @model_validator(mode="after")
    def _label_if_needed(self) -> SetModel:
        if self.each is None and self.label is None:
            raise problem("a set needs a 'label'")
        if self.each is not None and self.label is not None:
            raise problem("'each' makes one set per value and takes no 'label'")
        return self


class GroupingModel(Section):
    """Named sets of one attribute's values."""

    one_of = ("edges", "sets", "by", "levels")
    of: Name
    levels: Names | None = None
    mapping: dict[str, list[Label]] | None = None
    by: str | None = None
    edges: AnyEdges | None = None
    sets: Annotated[list[SetModel], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _levels_have_a_mapping(self) -> GroupingModel:
        if (self.levels is None) != (self.mapping is None):
            raise problem("'levels' need a table", "name it: from: zip_to_county.csv")
        return self


# ---- workload -----------------------------------------------------------------------------------


class MarginalsModel(Section):
    """Every table of so many attributes, or the tables listed."""

    one_of = ("ways", "of")
    ways: Annotated[int, Field(ge=1)] | None = None
    of: Annotated[list[Names], Field(min_length=1)] | None = None


class RangesModel(Section):
    """Intervals of one attribute's values."""

    of: Name
    kind: Literal["prefix", "all", "width"]
    width: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _width_if_asked(self) -> RangesModel:
        if (self.kind == "width") != (self.width is not None):
            raise problem("'width' is needed for kind: width, and only then")
        return self


class SumModel(Section):
    """The sum of an attribute's values, in all or for each group."""

    of: Name
    by: Names | None = None
    representative: Literal["midpoint", "lower", "upper"] = "midpoint"


class MeanModel(SumModel):
    """The mean of an attribute's values, in all or for each group."""


MOST_SHARES = 100


class QuantilesModel(Section):
    """The values that so many of the records do not exceed, in all or for each group."""

    of: Name
    at: Annotated[list[Share], Field(min_length=1, max_length=MOST_SHARES)]
    by: Names | None = None


class PersonsModel(Section):
    """How many different persons the records are of, in all or for each group."""

    by: Names | None = None


class TermModel(Section):
    """Counts by some attributes or groupings, or the total, under a condition."""

    one_of = ("by", "total")
    by: Names | None = None
    total: Literal[True] | None = None
    with_totals: Names | None = None
    where: str | None = None
    weight: Positive = 1.0


GROUPED = ("sum", "mean", "quantiles", "persons")
"""The kinds of items that say themselves what they are broken down by."""
DERIVED = ("mean", "quantiles")
"""Those whose answers are no sums."""
KINDS = ("by", "total", "marginals", "ranges", "terms", "sql", "coverage", *GROUPED)
"""The keys of which an item has one."""


def no_target(kind: str) -> tuple[str, str]:
    """Why answers that are no sums have no target, and a hint."""
    return (
        f"'target' goes with counts and sums, not with {kind}",
        "the error of what is derived from them depends on the data",
    )


class ItemModel(Section):
    """One table of the release."""

    name: Name
    by: Names | None = None
    total: Literal[True] | None = None
    marginals: MarginalsModel | None = None
    ranges: RangesModel | None = None
    terms: Annotated[list[TermModel], Field(min_length=1)] | None = None
    sql: str | None = None
    coverage: Literal[True] | None = None
    sum: SumModel | None = None
    mean: MeanModel | None = None
    quantiles: QuantilesModel | None = None
    persons: PersonsModel | None = None
    with_totals: Names | None = None
    where: str | None = None
    weight: Positive = 1.0
    target: Positive | None = None

    @model_validator(mode="after")
    def _kind_and_options(self) -> ItemModel:
        """`by` stands alone, or crosses every term of `ranges` or `terms`."""
        alone = self.total or self.marginals or self.coverage or self.sql is not None
        alone = alone or any(getattr(self, kind) for kind in GROUPED)
        if self.by is None or alone:
            kind = self.exactly_one(*KINDS)
        else:
            kind = self.exactly_one("ranges", "terms") if self.ranges or self.terms else "by"
        if kind == "sql" and (self.where is not None or self.with_totals):
            raise problem("an sql item says everything in its text", "move it into WHERE or CUBE")
        if kind in ("marginals", "total", "coverage") and self.with_totals:
            raise problem(f"'with_totals' goes with 'by', not with '{kind}'")
        if kind == "persons" and self.with_totals:
            what = "persons have no totals: one who is in two groups is one person in both together"
            raise problem(what, "count them in an item of its own, or by CUBE in SQL")
        if kind == "coverage" and self.where is not None:
            raise problem("'coverage' is of all rows: one that is left out has no known values")
        if self.target is not None:
            self._may_have_a_target(kind)
        return self

    def _may_have_a_target(self, kind: str) -> None:
        """A target stands for a weight, and is for answers that are counted or added up."""
        if kind in DERIVED:
            raise problem(*no_target(f"'{kind}'"))
        if self.weight != 1 or any(term.weight != 1 for term in self.terms or ()):
            raise problem("a table has a 'weight' or a 'target', not both")


# ---- privacy and aggregation --------------------------------------------------------------------


class PersonModel(Section):
    """A person has at most `max_records` at each of at most `max_participants` participants."""

    column: Name
    max_records: Annotated[int, Field(ge=1)]
    max_participants: Annotated[int, Field(ge=1)]


class PersonUnit(Section):
    person: PersonModel


def _kind_of_unit(given: Any) -> str:
    return "person" if isinstance(given, (dict, PersonUnit)) else "word"


Unit = Annotated[
    Annotated[Literal["record", "participant"], Tag("word")] | Annotated[PersonUnit, Tag("person")],
    Discriminator(_kind_of_unit),
]


class PrivacyModel(Section):
    """Whose data is hidden, and how well: (epsilon, delta)-DP, or rho-zCDP."""

    unit: Unit
    epsilon: Positive | None = None
    delta: Delta | None = None
    rho: Positive | None = None
    corrupt_fraction: Fraction
    relation: Literal["zero-out", "replace"] = "zero-out"

    @model_validator(mode="after")
    def _one_budget(self) -> PrivacyModel:
        if self.exactly_one("epsilon", "rho") == "epsilon" and self.delta is None:
            raise problem("epsilon needs a 'delta'", "for example delta: 1e-6")
        return self

    @property
    def person(self) -> PersonModel | None:
        """What the study says of persons, where they are the unit."""
        return None if isinstance(self.unit, str) else self.unit.person


class CountModel(Section):
    min: Annotated[int, Field(ge=2)]
    max: Annotated[int, Field(ge=2, le=10**7)]

    @model_validator(mode="after")
    def _ordered(self) -> CountModel:
        if self.min > self.max:
            raise problem(f"min {self.min} is larger than max {self.max}")
        return self


def _kind_of_count(given: Any) -> str:
    return "range" if isinstance(given, (dict, CountModel)) else "number"


Count = Annotated[
    Annotated[int, Field(ge=2, le=10**7), Tag("number")] | Annotated[CountModel, Tag("range")],
    Discriminator(_kind_of_count),
]


class AggregationModel(Section):
    """Who adds up, and what the round must survive. The default threat model is the stronger."""

    threat_model: Literal["semi-honest", "malicious", "two-servers"] = "malicious"
    participants: Count
    max_dropout: Fraction = 0.05
    max_records_per_participant: Annotated[int, Field(ge=1, le=10**12)]
    validation: Literal["none", "sum", "bounded"] = "none"
    sealing: Literal["mlkem768-x25519", "x25519"] = "mlkem768-x25519"
    excess_noise: Literal["keep", "remove"] = "keep"

    @model_validator(mode="after")
    def _sealed_for_somebody(self) -> AggregationModel:
        if self.threat_model != "two-servers" and self.sealing != "mlkem768-x25519":
            raise problem("'sealing' is for 'threat_model: two-servers' only", at=("sealing",))
        return self

    @model_validator(mode="after")
    def _somebody_is_told_who_survived(self) -> AggregationModel:
        if self.threat_model == "two-servers" and self.excess_noise == "remove":
            raise problem(
                "with two servers participants send one message, before anybody knows who survives:"
                " they cannot remove noise later",
                "leave 'excess_noise' out, or choose another threat model",
                at=("excess_noise",),
            )
        return self


class StudyModel(Section):
    """A study file."""

    study: Name
    schema_: Annotated[dict[Name, AnyAttribute], Field(alias="schema", min_length=1)]
    groupings: dict[Name, GroupingModel] = {}  # noqa: RUF012 - pydantic copies it
    workload: Annotated[list[ItemModel], Field(min_length=1)]
    objective: Literal["total", "per-table", "max"] = "total"
    extra_measurements: Literal[True] | None = None
    privacy: PrivacyModel | None = None
    aggregation: AggregationModel | None = None

    @model_validator(mode="after")
    def _one_objective(self) -> StudyModel:
        if self.objective != "total" and any(item.target is not None for item in self.workload):
            raise problem(
                "tables with a 'target' say what is minimised",
                "leave 'objective' out, or the targets",
                at=("objective",),
            )
        return self

    @model_validator(mode="after")
    def _somebody_is_honest(self) -> StudyModel:
        if self.privacy and self.aggregation:
            lost = self.privacy.corrupt_fraction + self.aggregation.max_dropout
            if lost >= 1:
                raise problem(
                    "max_dropout and corrupt_fraction leave no honest participant",
                    at=("aggregation", "max_dropout"),
                )
        return self
