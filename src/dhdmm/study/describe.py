"""A study in words: what is asked, table by table, of whom, and at what privacy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dhdmm.study.attributes import Attribute
from dhdmm.study.derived import Derived, Mean, Measured, Quantiles
from dhdmm.study.grouping import Grouping
from dhdmm.study.hierarchy import digest_of
from dhdmm.study.models import AggregationModel, ItemModel, PrivacyModel
from dhdmm.study.query import LEFT_OUT_TABLE
from dhdmm.study.schema import Schema
from dhdmm.study.spec import Study
from dhdmm.study.sums import MIDPOINT, largest_bias
from dhdmm.study.workload import Axis, Item, Term

UNITS = {"record": "any one record", "participant": "everything that any one participant holds"}
RELATIONS = {"zero-out": "is there or not", "replace": "is what it is or something else"}
THREATS = {
    "malicious": "parties that break the protocol as they please",
    "semi-honest": "parties that follow the protocol but keep what they see",
    "two-servers": "any party, while one of the two servers, coordinator and helper, is honest",
}


VALIDATIONS = {
    "none": "",
    "sum": "; the sum is checked",
    "bounded": "; inputs are proved to be short, and the sum is checked",
}


EXCESS = {
    "keep": "",
    "remove": "; noise that turns out not to be needed is removed when it is known who dropped out",
}


OBJECTIVES = {
    "total": "the sum of all squared errors",
    "per-table": "the sum over tables of their mean squared error",
    "max": "the largest error of any answer",
}


def describe(study: Study) -> dict[str, Any]:
    """The description as plain values: for a program as they are, for a person to be laid out."""
    workload = study.workload
    tables = zip(study.model.workload, workload.items, strict=True)
    return {
        "study": study.name,
        "cells": workload.cells,
        "queries": workload.queries,
        "attributes": [_attribute(attribute) for attribute in study.schema.attributes],
        "groupings": [_grouping(study, grouping) for grouping in study.groupings.values()],
        "hierarchies": [
            {
                "name": name,
                "of": model.of,
                "levels": model.levels,
                "sha256": digest_of(model.mapping),
            }
            for name, model in study.model.groupings.items()
            if model.mapping is not None
        ],
        "tables": [_table(study.schema, model, item) for model, item in tables],
        "objective": objective_words(study),
        "privacy": study.model.privacy and privacy_words(study.model.privacy),
        "aggregation": study.model.aggregation and aggregation_words(study.model.aggregation),
        "digest": study.digest.hex(),
    }


def objective_words(study: Study) -> str:
    """What is made as small as possible."""
    if study.targets:
        return "the largest error relative to its table's target"
    return OBJECTIVES[study.model.objective]


def _attribute(attribute: Attribute) -> dict[str, Any]:
    domain = attribute.set_label(np.arange(attribute.size))
    return {
        "name": attribute.name,
        "type": attribute.present.kind,
        "size": attribute.size,
        "domain": domain,
    }


def _grouping(study: Study, grouping: Grouping) -> dict[str, Any]:
    """How many sets, and whether they leave values out: an edge too few is easily overlooked."""
    factor = grouping.factor
    held = np.count_nonzero(factor.transpose_dot(np.ones(factor.shape[0], np.int64)))
    return {
        "name": grouping.name,
        "of": study.schema.names[grouping.attribute],
        "sets": list(grouping.labels),
        "left_out": factor.shape[1] - int(held),
    }


def _table(schema: Schema, model: ItemModel, item: Item) -> dict[str, Any]:
    return {
        "name": item.name,
        "queries": item.queries,
        "target": model.target,
        "summary": _derived_words(schema, model, item) or _summary(model, item),
        "terms": [
            {"words": term_words(term), "queries": term.queries, "weight": _weight(model, term)}
            for term in item.terms
        ],
    }


def _weight(model: ItemModel, term: Term) -> float:
    """As the study states it: a sum's own also holds its unit, the largest value."""
    return model.weight if term.sum_of else term.weight


def _derived_words(schema: Schema, model: ItemModel, item: Item) -> str:
    """What is made of sums, and how far bins may put it off; empty for counts."""
    words = [_words_of(one) for one in item.derived]
    asked = model.sum or model.mean
    representative = MIDPOINT if asked is None else asked.representative
    edge = MIDPOINT if representative == MIDPOINT else f"{representative} edge"
    for name in (term.sum_of for term in item.terms if term.sum_of):
        bias = largest_bias(schema, name, representative)
        if bias:
            words.append(
                f"a record counts as the {edge} of its bin of {name}, off by up to {bias:g}"
            )
    return "; ".join(dict.fromkeys(filter(None, words)))


def _words_of(derived: Derived) -> str:
    match derived:
        case Mean(of):
            return f"means of {of}, from sums and counts"
        case Quantiles(of):
            named = "median" if derived.at == (0.5,) else f"quantiles {_listed(derived.at)}"
            return f"{named} of {of}, from the records up to each value"
        case Measured():
            return ""


def _listed(shares: Sequence[float]) -> str:
    return ", ".join(f"{share:g}" for share in shares)


def _summary(model: ItemModel, item: Item) -> str:
    """What the entry asks for as a whole, empty when its only term says it."""
    if model.marginals is not None and model.marginals.ways is not None:
        return f"every {model.marginals.ways}-way table ({len(item.terms)})"
    if model.ranges is not None:
        size = model.ranges.width
        runs = {
            "prefix": "every prefix",
            "all": "every range",
            "width": f"every window of {size} consecutive values",
        }
        return f"{runs[model.ranges.kind]} of {model.ranges.of}"
    if model.persons is not None:
        return "different persons, each once in every group at every participant that holds them"
    if model.coverage:
        return "rows that are counted, and rows that data holders leave out"
    return f"{len(item.terms)} terms" if len(item.terms) > 1 else ""


def term_words(term: Term) -> str:
    """`records by sex (2 and total) and age_band (6), where hours >= 35`."""
    by = [_axis_words(axis) for axis in term.axes if axis and not axis.is_fixed]
    if term.table == LEFT_OUT_TABLE:
        return "rows left out, for a value that is missing or outside the domain"
    what = f"sum of {term.sum_of}" if term.sum_of else "records" if term.mark is None else "persons"
    everything = what if term.sum_of else f"all {what}"
    words = f"{what} by {' × '.join(by)}" if by else everything
    if term.condition:
        words = f"{words if by else what} where {term.condition}"
    return words


def _axis_words(axis: Axis) -> str:
    if axis.has_total:
        return f"{axis.header} ({len(axis.labels) - 1:,} and total)"
    return f"{axis.header} ({len(axis.labels):,})"


def privacy_words(privacy: PrivacyModel) -> str:
    person = privacy.person
    if person is not None:
        most, places = person.max_records, person.max_participants
        records = "one record" if most == 1 else f"up to {most} records"
        where = "one participant" if places == 1 else f"each of up to {places} participants"
        unit = f"any one person (by '{person.column}'; {records} at {where})"
    else:
        unit = UNITS[str(privacy.unit)]
    if privacy.rho is not None:
        cost = f"ρ = {privacy.rho:g} zero-concentrated differential privacy"
    else:
        cost = f"ε = {privacy.epsilon:g}, δ = {privacy.delta:g} differential privacy"
    return (
        f"The release hides whether {unit} {RELATIONS[privacy.relation]}: {cost}, even if"
        f" {_percent(privacy.corrupt_fraction)} of the participants conspire."
    )


def aggregation_words(aggregation: AggregationModel) -> str:
    count, most = aggregation.participants, aggregation.max_records_per_participant
    some = f"{count:,}" if isinstance(count, int) else f"{count.min:,} to {count.max:,}"
    records = "one record" if most == 1 else f"up to {most:,} records"
    gone = (
        f"up to {_percent(aggregation.max_dropout)} of them" if aggregation.max_dropout else "none"
    )
    return (
        f"{some} participants with {records} each; {gone} may drop out; safe against"
        f" {THREATS[aggregation.threat_model]}{VALIDATIONS[aggregation.validation]}"
        f"{EXCESS[aggregation.excess_noise]}."
    )


def _percent(fraction: float) -> str:
    return f"{100 * fraction:g}%"
