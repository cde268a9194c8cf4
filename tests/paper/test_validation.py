"""What liars can do, and what validation costs: the items beyond the paper."""

from dataclasses import replace

import numpy as np
import pytest

from research.paper import validation
from research.paper.catalogue import BEYOND, ITEMS, chosen
from research.paper.studies import strategy
from tests.paper.tiny import TINY

pytestmark = pytest.mark.slow


def test_they_are_made_when_they_are_named() -> None:
    assert chosen([]) == ITEMS
    named = {"poisoning", "validation"}
    assert chosen(sorted(named)) == tuple(item for item in BEYOND if item.name in named)


def test_no_lie_within_the_bound_goes_further_than_the_plan_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(validation, "SHARES", (0.1,))
    results = {unit.name: unit.run() for unit in validation.POISONING.units(TINY)}
    rows = validation.POISONING.compute(TINY, results)
    assert all(row["bounded"] <= row["stated"] * (1 + 1e-9) for row in rows)
    best = [row for row in rows if row["lie"] == "largest shift"]
    assert all(row["bounded"] == pytest.approx(row["stated"]) for row in best)
    assert all(row["free"] > 5 * row["stated"] for row in best)
    assert len(list(validation.POISONING.remarks(rows))) == 2
    assert validation.POISONING.draw(rows).axes


def test_the_reconstruction_of_an_answer_is_its_row() -> None:
    one = strategy("adult-5")
    measurement = np.random.default_rng(0).normal(size=one.rows)
    row = validation._reconstruction("adult-5")
    assert row @ measurement == pytest.approx(one.reconstruct(measurement)[0])
    assert row @ row == pytest.approx(one.variances()[0])


def test_levels_are_set_beside_each_other() -> None:
    settings = replace(TINY, participants=(5,), repetitions=1)
    results = {unit.name: unit.run() for unit in validation.COSTS.units(settings)}
    rows = validation.COSTS.compute(settings, results)
    assert all(row["sum_correct"] for row in rows)
    assert all(row["participant_kb_ratio"] > 1 for row in rows if row["validation"] == "bounded")
    assert validation.COSTS.draw(rows).axes
