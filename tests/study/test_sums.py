"""Sums and means: exact answers, exact sensitivities, and strategies near the optimum."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import dhdmm
from dhdmm.errors import StudyError
from dhdmm.participant.check import check
from dhdmm.participant.tabulate import tabulate
from dhdmm.planning.calibrate import unit_sensitivity_squared
from dhdmm.planning.draft import plan
from dhdmm.planning.figures import plan_figures
from dhdmm.strategy.optimise import optimise
from dhdmm.study import document
from dhdmm.study.derived import Mean, Measured, Quantiles
from dhdmm.study.describe import describe
from dhdmm.study.division import divided
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study
from tests.amounts import examples

TEXT = """\
study: visits
schema:
  ward: {type: category, values: [A, B, C]}
  days: {type: integer, range: [0, 20]}
  cost: {type: measure, range: [-100, 1000], step: 0.5, missing: true}
  hours: {type: number, edges: "0:20:5"}
workload:
  - {name: counts, by: [ward]}
  - {name: costs, sum: {of: cost, by: [ward]}}
  - {name: mean costs, mean: {of: cost, by: [ward]}, with_totals: [ward]}
  - {name: mean days, mean: {of: days}, where: ward <> 'B'}
  - {name: hours, sum: {of: hours}}
  - {name: low hours, sum: {of: hours, representative: lower}}
  - {name: waits, quantiles: {of: days, at: [0.25, 0.5], by: [ward]}}
  - {name: mixed, sql: "SELECT ward, COUNT(*), SUM(cost), AVG(days) FROM data GROUP BY ward"}
privacy: {unit: record, rho: 0.5, corrupt_fraction: 0.05}
aggregation: {participants: 8, max_records_per_participant: 900}
"""


def records(rows: int = 500) -> pd.DataFrame:
    dice = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "ward": dice.choice(list("ABC"), rows),
            "days": dice.integers(0, 21, rows),
            "cost": dice.integers(-300, 2_100, rows) * 0.5,
            "hours": dice.uniform(0, 20, rows),
        }
    )
    table.loc[table.index % 7 == 0, "cost"] = np.nan
    return table


def exact(study: Study, table: Any) -> dict[str, np.ndarray]:
    """Answers without noise, by table."""
    strategy = optimise(study.workload)
    held = divided(study.schema, tabulate(table, study.schema).histogram)
    answers = strategy.reconstruct(strategy.measure(held))
    return {name: answers[rows] for name, rows in study.workload.rows.items()}


def test_answers_without_noise_are_those_of_pandas() -> None:
    study, table = Study.from_text(TEXT), records()
    found = exact(study, table)
    cost = table.cost.clip(-100, 1000)
    by_ward = cost.groupby(table.ward)
    sums, known = by_ward.sum(), by_ward.count()
    np.testing.assert_allclose(found["costs"], sums)
    with_total = [*sums, cost.sum(), *known, cost.count()]
    np.testing.assert_allclose(found["mean costs"], with_total)
    chosen = table[table.ward != "B"]
    np.testing.assert_allclose(found["mean days"], [chosen.days.sum(), len(chosen)])
    bins = np.floor(table.hours / 5) * 5
    np.testing.assert_allclose(found["hours"], [(bins + 2.5).sum()])
    np.testing.assert_allclose(found["low hours"], [bins.sum()])
    counts, days = table.ward.value_counts().sort_index(), table.days.groupby(table.ward).sum()
    np.testing.assert_allclose(found["mixed"], [*counts, *sums, *days])
    up_to = [(table[table.ward == w].days <= day).sum() for w in "ABC" for day in range(21)]
    np.testing.assert_allclose(found["waits"], up_to)
    assert abs(found["hours"][0] - table.hours.sum()) <= 2.5 * len(table), "the bias as stated"


def test_derived_answers_say_what_they_are_made_of() -> None:
    items = {item.name: item for item in Study.from_text(TEXT).workload.items}
    (mean,), (quantiles,), (counts, sums, mixed) = (
        items[name].derived for name in ("mean costs", "waits", "mixed")
    )
    assert isinstance(mean, Mean)
    assert (mean.of, mean.sums, mean.counts) == ("cost", 0, 1)
    assert isinstance(mixed, Mean)
    assert (mixed.sums, mixed.counts) == (2, 0), "COUNT(*) is measured once"
    assert isinstance(counts, Measured)
    assert isinstance(sums, Measured)
    assert (counts.term, sums.term) == (0, 1), "SUM(days) is measured, and was not selected"
    assert isinstance(quantiles, Quantiles)
    assert (quantiles.axis, quantiles.at, len(quantiles.steps)) == (1, (0.25, 0.5), 21)
    assert list(quantiles.steps)[:2] == ["0", "1"]


@pytest.mark.parametrize("place", ["csv", "arrow", "warehouse"])
def test_values_are_clipped_to_the_range_and_counted(place: str, tmp_path: Path) -> None:
    study = Study.from_text(TEXT)
    table = pa.table(
        {
            "ward": ["A"] * 5,
            "days": [1] * 5,
            "hours": [1.0] * 5,
            "cost": [-100.0, 1e9, -1e9, None, 0.3],
        }
    )
    path = tmp_path / "visits.csv"
    pd.DataFrame(table.to_pydict()).to_csv(path, index=False)
    given = {"csv": path, "arrow": table, "warehouse": ibis.memtable(table)}[place]
    counted = tabulate(given, study.schema)
    assert counted.report.clipped == {"cost": 2}
    looked = check(study, given)
    assert looked.report.clipped == {"cost": 2}, "dhdmm check says so, too"
    assert looked.columns[2].marginal == (("-100 to 175", 3), ("725 to 1000", 1), ("missing", 1))
    assert "cost: beyond the study's range in 2 rows" in "\n".join(counted.report.words())
    held = divided(study.schema, counted.histogram)
    parts = dict.fromkeys(range(3), 0) | dict(
        zip(held.codes[:, 2].tolist(), held.counts.tolist(), strict=True)
    )
    steps = 2200
    assert parts[2] == steps, "one record is missing, wholly"
    assert sum(parts.values()) == 5 * steps
    assert parts[1] == 0 + steps + 0 + 201, "0.3 is rounded to the step of 0.5"


@pytest.mark.slow
def test_a_round_answers_sums_within_its_error_bars() -> None:
    study = Study.from_text(TEXT).with_privacy(rho=1000.0)
    table = records()
    release = dhdmm.run(dhdmm.plan(study), [table.iloc[i::8] for i in range(8)])
    truth = np.concatenate(list(exact(study, table).values()))
    deviations = (release.answers - truth) / release.standard_errors
    assert np.abs(deviations).max() < 6  # false alarm: 2e-9 for each of 100 answers


# ---- sensitivity --------------------------------------------------------------------------------


@st.composite
def small_measured(draw: st.DrawFn) -> Study:
    low = draw(st.integers(-2, 1))
    measure = {"type": "measure", "range": [low, low + draw(st.integers(1, 3))], "step": 1}
    if draw(st.booleans()):
        measure["missing"] = True
    first = draw(st.integers(-2, 1))
    schema = {"a": {"type": "integer", "range": [first, first + 2]}, "m": measure}
    if draw(st.booleans()):
        schema["n"] = {"type": "measure", "range": [0, 2], "step": 0.5}
    kinds = [{"sum": {"of": "m"}}, {"mean": {"of": "m", "by": ["a"]}}, {"sum": {"of": "a"}}]
    kinds += [{"by": ["a"]}, {"total": True}]
    kinds += [{"sum": {"of": "n", "by": ["a"]}}] if "n" in schema else []
    asked = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3, unique_by=str))
    values = {
        "study": "small",
        "schema": schema,
        "workload": [{"name": str(i), **item} for i, item in enumerate(asked)],
        "privacy": {
            "unit": "record",
            "rho": 0.5,
            "corrupt_fraction": 0.05,
            "relation": draw(st.sampled_from(["zero-out", "replace"])),
        },
        "aggregation": {"participants": 8, "max_records_per_participant": 5},
    }
    return Study.from_text(document.write(values))


def contributions(study: Study) -> list[np.ndarray]:
    """What every possible record measures, in steps: all of them, not only the ends."""
    strategy = optimise(study.workload)
    domains = []
    for attribute in study.schema.attributes:
        codes = list(range(attribute.size))
        if attribute.present.divided is not None:
            step = [3 + step for step in range(attribute.present.divided + 1)]
            codes = step + ([] if attribute.missing_code is None else [attribute.missing_code])
        domains.append(codes)
    return [
        strategy.measure(divided(study.schema, Histogram.of_records(np.array([record]))))
        for record in itertools.product(*domains)
    ]


def brute_force(study: Study) -> int:
    each = [vector.astype(object) for vector in contributions(study)]
    norms = [int((vector**2).sum()) for vector in each]
    if study.privacy.relation == "replace":
        norms += [int(((u - v) ** 2).sum()) for u, v in itertools.combinations(each, 2)]
    return max(norms)


@pytest.mark.slow
@settings(max_examples=examples(10, 250), deadline=None, derandomize=True)
@given(small_measured())
def test_sensitivity_of_measured_and_weighted_rows_equals_brute_force(study: Study) -> None:
    assert unit_sensitivity_squared(study, optimise(study.workload)) == brute_force(study)


@pytest.mark.slow
def test_brute_force_would_notice_records_that_count_as_one_part() -> None:
    study = Study.from_text(TEXT.split("  hours")[0].replace("0.5", "100") + PLAIN)
    strategy = optimise(study.workload)
    assert strategy.sensitivity_squared < brute_force(study)
    assert unit_sensitivity_squared(study, strategy) == brute_force(study)


PLAIN = """\
workload: [{name: costs, sum: {of: cost, by: [ward]}}]
privacy: {unit: record, rho: 0.5, corrupt_fraction: 0.05}
aggregation: {participants: 8, max_records_per_participant: 900}
"""


# ---- accuracy -----------------------------------------------------------------------------------


def reference_optimum(W: np.ndarray) -> float:
    """The least √(max‖a_u‖²·‖W A⁺‖²_F/queries) of any matrix A, by its dual.

    It is the largest (tr (D½ G D½)½)² over weights D of the cells with trace 1, where G = WᵀW: for
    given weights the best A has AᵀA ∝ D⁻½ (D½ G D½)½ D⁻½, and weights move to where it exceeds 1.
    """
    G = W.T @ W
    weights = np.full(len(G), 1 / len(G))
    best = 0.0
    for _ in range(1000):
        half = np.sqrt(weights)
        values, vectors = np.linalg.eigh(half[:, None] * G * half)
        roots = np.sqrt(np.maximum(values, 0))
        best = max(best, float(roots.sum()) ** 2)
        diagonal = (vectors**2) @ roots / np.maximum(weights, 1e-300) / roots.sum()
        weights = weights * diagonal
        weights /= weights.sum()
    return float(np.sqrt(best / len(W)))


STUDIES = {
    "sums and counts": "[{name: n, by: [w]}, {name: s, sum: {of: m, by: [w]}}]",
    "means with totals": "[{name: s, mean: {of: m, by: [w]}, with_totals: [w]}]",
    "sum of integers": "[{name: s, sum: {of: d, by: [w]}}, {name: n, by: [w]}]",
    "prefixes and sums": "[{name: q, quantiles: {of: d, at: [0.5], by: [w]}},"
    " {name: s, sum: {of: d}}, {name: c, sum: {of: m}}]",
}


@pytest.mark.slow
@pytest.mark.parametrize("asked", STUDIES.values(), ids=STUDIES)
def test_errors_are_within_a_hundredth_of_the_best_possible(asked: str) -> None:
    study = Study.from_text(
        "study: small\nschema: {w: {type: category, values: [a, b, c]},"
        " d: {type: integer, range: [0, 6]}, m: {type: measure, range: [0, 500], step: 5}}\n"
        f"workload: {asked}"
    )
    assert study.workload.cells <= 64
    with threadpool_limits(limits=1, user_api="blas"):  # many small products
        best = reference_optimum(study.workload.to_sparse().toarray())
    assert optimise(study.workload).rmse <= 1.01 * best


# ---- words --------------------------------------------------------------------------------------


def test_errors_of_sums_and_of_counts_are_not_averaged() -> None:
    made = plan(Study.from_text(TEXT))
    expected, counts = made.expected_error(), made.study.workload.counts
    errors = expected.standard_errors
    assert expected.rmse == pytest.approx(np.sqrt(np.mean(errors[counts] ** 2)))
    items = {item["name"]: item for item in plan_figures(made)["items"]}
    assert items["counts"]["errors_of"] == items["waits"]["errors_of"] == "counts"
    rows = made.study.workload.rows["mean costs"]
    sums = errors[rows][~counts[rows]]
    assert len(sums) == 4
    assert items["mean costs"] == {
        "name": "mean costs", "queries": 8, "errors_of": "sums",
        "standard_error_median": np.median(sums), "standard_error_max": sums.max(),
    }  # fmt: skip


def test_a_description_says_what_is_added_up() -> None:
    described = describe(Study.from_text(TEXT))
    tables = {table["name"]: table for table in described["tables"]}
    assert tables["costs"]["terms"] == [
        {"words": "sum of cost by ward (3)", "queries": 3, "weight": 1}
    ]
    assert tables["mean costs"]["summary"] == "means of cost, from sums and counts"
    assert (
        tables["waits"]["summary"]
        == "quantiles 0.25, 0.5 of days, from the records up to each value"
    )
    assert "2.5" in tables["hours"]["summary"]
    assert described["attributes"][2]["domain"] == "-100–1000 in steps of 0.5, added up, missing"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("step: 0.5", "step: 0.3", "schema.cost.step: the range has 3,666.67 steps of 0.3"),
        ("[-100, 1000]", "[1000, 0]", "schema.cost.range: the range is empty"),
        ("by: [ward]}\n", "by: [cost]}\n", "'cost' is measured: no table is broken down by it"),
        ("ward <> 'B'", "cost > 3", "'cost' is measured: it is added up, and not compared"),
        ("sum: {of: cost,", "sum: {of: ward,", "sum.of: the values of 'ward' cannot be added up"),
        ("sum: {of: cost,", "sum: {of: costs,", "unknown attribute 'costs' (did you mean 'cost'?)"),
        ("SUM(cost)", "SUM(ward)", "the values of 'ward' cannot be added up"),
        ("AVG(days)", "AVG(days + 1)", "AVG(days + 1) is not of a column"),
        ("AVG(days)", "COUNT(days)", "every record has a value of 'days', so write COUNT(*)"),
        ("at: [0.25, 0.5]", "at: [0.25, 1]", "quantiles.at[1]: must be less than 1, not 1"),
        ("quantiles: {of: days", "quantiles: {of: ward", "'ward' has no order"),
    ],
)
def test_mistakes_name_the_place_and_the_likely_fix(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(StudyError) as refused:
        Study.from_text(TEXT.replace(old, new, 1), "visits")
    assert message in str(refused.value)


def test_steps_of_several_measured_columns_are_bounded_together() -> None:
    many = "".join(f"  m{i}: {{type: measure, range: [0, 100000]}}\n" for i in range(2))
    with pytest.raises(StudyError, match="10,000,000,000 steps, multiplied"):
        Study.from_text(f"study: s\nschema:\n{many}workload: [{{name: m, sum: {{of: m0}}}}]")


PERSONS = """\
study: persons
schema: {ward: {type: category, values: [A, B]}}
workload: [{name: p, sql: "SELECT ward, COUNT(DISTINCT id) FROM data GROUP BY ward"}]
privacy: {unit: {person: {column: id, max_records: 1, max_participants: 1}}, rho: 1.0,
  corrupt_fraction: 0.05}
aggregation: {participants: 8, max_records_per_participant: 900}
"""


def test_persons_are_counted_where_each_has_one_record() -> None:
    study = Study.from_text(PERSONS)
    table = pa.table({"id": [1, 1, 2, 3, 3, 3], "ward": list("AABBBB")})
    counted = tabulate(table, study.schema, unit=study.privacy.person)
    strategy = optimise(study.workload)
    assert np.allclose(strategy.reconstruct(strategy.measure(counted.histogram)), [1, 2])
    with pytest.raises(StudyError, match="only the persons of a study"):
        Study.from_text(PERSONS.replace("DISTINCT id", "DISTINCT ward"))
