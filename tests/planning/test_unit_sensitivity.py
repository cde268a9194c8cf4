"""Δ′ for every unit and relation equals brute force over all neighbouring datasets."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhdmm.planning.calibrate import unit_sensitivity_squared
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study
from tests.planning.studies import study

UNITS: list[tuple[Any, int]] = [
    ("record", 1),
    ({"person": {"column": "id", "max_records": 2, "max_participants": 1}}, 2),
    ({"person": {"column": "id", "max_records": 1, "max_participants": 3}}, 3),
    ({"person": {"column": "id", "max_records": 2, "max_participants": 2}}, 4),
    ("participant", 3),
]
"""With the records that one unit has at most in all."""


@st.composite
def small_studies(draw: st.DrawFn) -> tuple[dict[str, Any], list[Any]]:
    """One to three attributes, at most six cells, one or two tables."""
    sizes = draw(st.sampled_from([(2,), (4,), (2, 2), (3, 2), (1, 5), (2, 1, 3)]))
    names = [f"a{i}" for i in range(len(sizes))]
    schema = {
        name: {"type": "integer", "range": [0, size - 1]}
        for name, size in zip(names, sizes, strict=True)
    }
    by = st.lists(st.sampled_from(names), min_size=1, unique=True)
    tables: list[Any] = [{"name": f"t{i}", "by": draw(by)} for i in range(draw(st.integers(1, 2)))]
    ranged = draw(st.sampled_from([None, *names]))
    if ranged:
        tables.append({"name": "r", "ranges": {"of": ranged, "kind": "prefix"}})
    return schema, tables


def distorted(strategy: Strategy, dice: np.random.Generator) -> Strategy:
    """Any upper triangular T makes a strategy: columns of very different lengths."""

    def other(T: np.ndarray) -> np.ndarray:
        drawn = np.triu(dice.integers(-9, 10, size=T.shape))
        return drawn + np.diag(np.diag(drawn) == 0)

    blocks = (
        replace(block, sides=tuple(replace(side, T=other(side.T)) for side in block.sides))
        for block in strategy.blocks
    )
    return replace(strategy, blocks=tuple(blocks))


def measurements_of_one_unit(study: Study, strategy: Strategy, most: int) -> np.ndarray:
    """A′x for every multiset of at most `most` records, the empty one included."""
    cells = list(itertools.product(*(range(size) for size in study.schema.shape)))
    holdings = itertools.chain.from_iterable(
        itertools.combinations_with_replacement(cells, size) for size in range(most + 1)
    )
    width = len(study.schema.shape)
    return np.stack(
        [
            strategy.measure(Histogram.of_records(np.array(held, np.int64).reshape(-1, width)))
            for held in holdings
        ]
    )


def brute_force(outcomes: np.ndarray, relation: str) -> int:
    """What everybody else holds cancels: a unit's own data against none, or against any other."""
    without = outcomes[:1] if relation == "zero-out" else outcomes
    differences = outcomes[:, None, :] - without[None, :, :]
    return int((differences**2).sum(axis=2).max())


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["zero-out", "replace"])
@pytest.mark.parametrize(("unit", "most"), UNITS, ids=lambda value: str(value)[:40])
@settings(max_examples=4)
@given(asked=small_studies(), seed=st.integers(0, 2**32))
def test_sensitivity_equals_brute_force(unit, most, relation, asked, seed):
    schema, workload = asked
    planned = study({"unit": unit, "relation": relation}, schema=schema, workload=workload)
    strategy = distorted(optimise(planned.workload), np.random.default_rng(seed))
    outcomes = measurements_of_one_unit(planned, strategy, most)
    assert unit_sensitivity_squared(planned, strategy) == brute_force(outcomes, relation)


def test_brute_force_would_notice_a_person_counted_once():
    """The mutation: a person with four records treated like one record."""
    unit, most = UNITS[3]
    planned = study({"unit": unit})
    strategy = optimise(planned.workload)
    outcomes = measurements_of_one_unit(planned, strategy, most)
    assert strategy.sensitivity_squared * most**2 == brute_force(outcomes, "zero-out")
    assert strategy.sensitivity_squared < brute_force(outcomes, "zero-out")
