"""Distinct persons with several records: exact, bounded, and the same in every engine."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from functools import cache
from itertools import combinations_with_replacement, product
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhdmm.errors import NotMeasured, StudyError
from dhdmm.participant import coding
from dhdmm.participant.tabulate import count_for
from dhdmm.planning.calibrate import unit_sensitivity_squared
from dhdmm.planning.draft import plan
from dhdmm.planning.targets import guessed_answers
from dhdmm.release.release import Release
from dhdmm.runner import run
from dhdmm.strategy.optimise import optimise
from dhdmm.study.describe import describe
from dhdmm.study.division import divided
from dhdmm.study.histogram import Histogram
from dhdmm.study.persons import FIRST, MOST_MARKS
from dhdmm.study.spec import Study
from tests.amounts import examples
from tests.participant.histograms import contents

TEXT = """
study: visits
schema:
  ward: {type: category, values: [A, B, C, other]}
  age: {type: integer, range: [0, 5], missing: true}
  cost: {type: measure, range: [0, 10], missing: true}
groupings:
  part: {of: age, sets: [{label: ends, values: [0, 5]}, {label: middle, values: [2, 3]}]}
workload:
  - {name: all, persons: {}}
  - {name: wards, persons: {by: [ward]}}
  - {name: parts, persons: {by: [part, ward]}}
  - {name: either, persons: {by: [ward]}, where: "age > 2 OR ward = 'A' OR cost IS NULL"}
  - {name: cube, sql: "SELECT ward, COUNT(*), COUNT(DISTINCT id) FROM data GROUP BY CUBE (ward)"}
  - {name: rows, coverage: true}
  - {name: costs, sum: {of: cost}}
privacy:
  unit: {person: {column: id, max_records: 3, max_participants: 1}}
  rho: 2.0
  corrupt_fraction: 0.05
aggregation: {participants: 5, max_dropout: 0.0, max_records_per_participant: 900}
"""
STUDY = Study.from_text(TEXT)
WARDS, PARTS = ["A", "B", "C", "other"], {0: "ends", 5: "ends", 2: "middle", 3: "middle"}

Row = tuple[int, str, int | None, int | None]
ROWS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.sampled_from(["A", "B", "C", "other", "nowhere"]),
        st.one_of(st.none(), st.integers(0, 6)),
        st.one_of(st.none(), st.integers(-1, 12)),
    ),
    max_size=30,
)
POLICIES = st.sampled_from(["drop", "other"])


def table(rows: list[Row]) -> pa.Table:
    types = {"id": pa.int64(), "ward": pa.string(), "age": pa.int64(), "cost": pa.float64()}
    columns = zip(types.items(), zip(*rows, strict=True) if rows else [()] * 4, strict=True)
    return pa.table({name: pa.array(values, kind) for (name, kind), values in columns})


def stored(given: pa.Table) -> ibis.Table:
    connection = duckdb.connect()
    connection.register("given", given)
    connection.execute("CREATE TABLE stored AS FROM given")
    return ibis.duckdb.from_connection(connection).table("stored")


def counted(given: Any, on_unknown: str = "drop", study: Study = STUDY) -> Histogram:
    return count_for(study, given, on_unknown=on_unknown, accept_loss=1.0).histogram


def exact(study: Study, histogram: Histogram) -> dict[str, np.ndarray]:
    strategy = strategy_of(study)
    answers = strategy.reconstruct(strategy.measure(divided(study.schema, histogram)))
    return {name: answers[rows] for name, rows in study.workload.rows.items()}


@cache
def strategy_of(study: Study) -> Any:
    return optimise(study.workload)


def kept_records(rows: list[Row], on_unknown: str) -> pd.DataFrame:
    """The records that the study counts, by the rule of ADR 17, in Python."""
    held = defaultdict(list)
    copies: Counter[tuple[int, ...]] = Counter()
    for person, ward, age, cost in rows:
        codes = (WARDS.index(ward) if ward in WARDS else -1, 6 if age is None else age)
        codes = (*codes[:1], -1 if codes[1] > 6 or age == 6 else codes[1])
        step = 2 if cost is None else 14 if cost < 0 else 15 if cost > 10 else 3 + cost
        key = (person, *codes, step)
        text = ",".join(map(str, (STUDY.digest.hex(), *key, copies[key])))
        unknown = -1 in codes and on_unknown == "drop"
        order = (unknown, hashlib.md5(text.encode(), usedforsecurity=False).hexdigest())
        held[person].append((order, person, *codes, step))
        copies[key] += 1
    kept = [one for records in held.values() for one in sorted(records)[:3] if not one[0][0]]
    frame = pd.DataFrame([one[1:] for one in kept], columns=["id", "ward", "age", "cost"])
    names = dict(enumerate(WARDS)) | {-1: "other"}
    return frame.astype({"id": int}).assign(ward=frame["ward"].map(names))


@pytest.mark.slow
@settings(max_examples=examples(15, 300), deadline=None, derandomize=True)
@given(ROWS, POLICIES)
def test_without_noise_persons_are_those_that_pandas_finds(rows, on_unknown):
    if on_unknown == "other":  # an age beyond the range has no "other" to be counted as
        rows = [row for row in rows if row[2] != 6]
    found = exact(STUDY, counted(table(rows), on_unknown))
    frame = kept_records(rows, on_unknown)

    def persons(chosen: pd.DataFrame) -> list[int]:
        return chosen.groupby("ward")["id"].nunique().reindex(WARDS, fill_value=0).tolist()

    either = frame[frame.age.between(3, 5) | (frame.ward == "A") | (frame.cost == 2)]
    parts = frame.assign(part=frame.age.map(PARTS))
    each = parts.groupby(["ward", "part"])["id"].nunique()
    expected = {
        "all": [frame["id"].nunique()],
        "wards": persons(frame),
        "parts": [each.get((ward, part), 0) for ward in WARDS for part in ("ends", "middle")],
        "either": persons(either),
        "cube": [
            *frame["ward"].value_counts().reindex(WARDS, fill_value=0),
            *persons(frame),
            len(frame),
            frame["id"].nunique(),
        ],
    }
    for name, numbers in expected.items():
        assert found[name] == pytest.approx(numbers, abs=1e-6), name


@pytest.mark.slow
@settings(max_examples=examples(6, 100), deadline=None, derandomize=True)
@given(ROWS, POLICIES, st.randoms(use_true_random=False))
def test_warehouses_and_the_order_of_the_rows_change_nothing(rows, on_unknown, random):
    if on_unknown == "other":
        rows = [row for row in rows if row[2] != 6]
    here = contents(counted(table(rows), on_unknown))
    assert contents(counted(stored(table(rows)), on_unknown)) == here
    shuffled = random.sample(rows, len(rows))
    assert contents(counted(table(shuffled), on_unknown)) == here


def changes(rows: list[Row]) -> int:
    """By how many records the histogram changes, at most, where one person is not there."""
    everybody = contents(counted(table(rows)))
    largest = 0
    for who in {row[0] for row in rows}:
        others = contents(counted(table([row for row in rows if row[0] != who])))
        cells = everybody.keys() | others.keys()
        largest = max(largest, sum(abs(everybody.get(c, 0) - others.get(c, 0)) for c in cells))
    return largest


@pytest.mark.slow
@settings(max_examples=examples(4, 80), deadline=None, derandomize=True)
@given(ROWS)
def test_one_person_changes_no_more_than_its_own_records(rows):
    assert changes([row for row in rows if row[1] != "nowhere"]) <= 3


@pytest.mark.slow
def test_first_records_of_groups_instead_of_persons_would_let_one_change_others(monkeypatch):
    """The weakened variant: whoever comes first in a group is marked, whosever record it is."""
    crowd: list[Row] = [(person, "A", person % 6, 1) for person in range(12)]
    assert changes(crowd) == 1, "each has one record"
    marked = coding._marked

    def of_anybody(*given: Any) -> str:
        return marked(*given).replace("PARTITION BY person, chosen", "PARTITION BY chosen")

    monkeypatch.setattr(coding, "_marked", of_anybody)
    assert changes(crowd) >= 3, "another's record takes the place"


SMALL = """
study: small
schema:
  ward: {{type: category, values: [A, B]}}
  sex: {{type: category, values: [F, M]}}
workload:
  - {{name: wards, persons: {{by: [ward]}}}}
  - {{name: women, persons: {{}}, where: sex = 'F'}}
{more}
privacy:
  unit: {{person: {{column: id, max_records: 2, max_participants: 1}}}}
  rho: 1.0
  corrupt_fraction: 0.05
  relation: {relation}
aggregation: {{participants: 5, max_records_per_participant: 40}}
"""


def one_persons_histograms(study: Study) -> list[Histogram]:
    """Everything that one person's records may become: every choice of records up to the bound."""
    cells = list(product("AB", "FM"))
    chosen = [one for size in range(3) for one in combinations_with_replacement(cells, size)]
    schema = {"id": pa.int64(), "ward": pa.string(), "sex": pa.string()}
    return [
        counted(
            pa.table(
                {
                    name: pa.array(values, kind)
                    for (name, kind), values in zip(
                        schema.items(),
                        ([who] * len(one), [w for w, _ in one], [s for _, s in one]),
                        strict=True,
                    )
                }
            ),
            study=study,
        )
        for one in chosen
        for who in (1, 2)  # whose hash may put another record first
    ]


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["zero-out", "replace"])
@pytest.mark.parametrize("more", ["", "  - {name: both, by: [ward, sex]}"])
def test_no_person_changes_the_measurement_by_more_than_its_sensitivity(relation, more):
    study = Study.from_text(SMALL.format(relation=relation, more=more))
    strategy = strategy_of(study)
    held = one_persons_histograms(study)
    measured = np.array([strategy.measure(one) for one in held])
    records = np.array([one.records for one in held])
    lengths = (measured**2).sum(axis=1)
    if relation == "replace":  # the number of records may be known
        apart = ((measured[:, None] - measured[None]) ** 2).sum(axis=2)
        lengths = np.append(lengths, apart[records[:, None] == records[None]])
    bound = unit_sensitivity_squared(study, strategy)
    assert lengths.max() <= bound
    alone = strategy.measure(Histogram.of(np.array([[0, 0, FIRST, FIRST]]), np.array([1])))
    assert (alone**2).sum() * 4 <= bound, "as if both of two records were first"
    assert lengths.max() >= bound / 4, "the bound is at most max_records times too large"


@pytest.mark.slow
def test_a_round_counts_persons_and_its_release_answers_in_sql(tmp_path):
    rows = [(person, "ABC"[visit % 3], visit, 2) for person in range(40) for visit in range(3)]
    release = run(plan(STUDY), [table(rows)] * 5)
    release.save(tmp_path / "release")
    release = Release.load(tmp_path / "release")
    wards = release["wards"]
    assert wards.varying() == {"ward": WARDS}
    assert wards.fixed == {"counted": "persons"}
    distance = wards.values - [200, 200, 200, 0]
    assert np.all(np.abs(distance) < 8 * wards.standard_errors), "one false alarm in 10¹⁴"
    again = release.query("SELECT ward, COUNT(DISTINCT id) FROM data GROUP BY ward")
    assert again.values == pytest.approx(wards.values)
    assert again.standard_errors == pytest.approx(wards.standard_errors)
    each = release.query("SELECT ward, COUNT(*) / COUNT(DISTINCT id) FROM data GROUP BY ward")
    assert len(each) == 4
    told = ["records"] * 4 + ["persons"] * 4 + ["records", "persons"]
    assert release["cube"].varying()["counted"] == told
    assert guessed_answers(STUDY, 60.0)[:5] == pytest.approx([60, *[15] * 4])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT age, COUNT(DISTINCT id) FROM data GROUP BY age", "persons by age .*in all; by wa"),
        ("SELECT COUNT(DISTINCT ward) FROM data", "distinct values are not a count"),
        ("SELECT COUNT(DISTINCT id) FILTER (WHERE age > 2) FROM data", "with FILTER"),
    ],
)
def test_a_release_refuses_persons_that_were_not_marked(sql, message):
    release = run(plan(STUDY), [table([(1, "A", 1, 1)])] * 5)
    with pytest.raises((StudyError, NotMeasured), match=message):
        release.query(sql)


def test_describe_says_that_persons_are_counted():
    said = {one["name"]: one for one in describe(STUDY)["tables"]}
    assert said["wards"]["terms"][0]["words"] == "persons by ward (4)"
    assert said["all"]["terms"][0]["words"] == "all persons"
    assert "at every participant" in said["all"]["summary"]
    assert STUDY.workload.query(1).sql == "SELECT COUNT(DISTINCT id) FROM data WHERE ward = 'A'"
    assert Study.from_canonical_bytes(STUDY.canonical_bytes()).digest == STUDY.digest
    assert Study.from_text(STUDY.to_yaml()).digest == STUDY.digest


def test_one_record_each_needs_no_marks():
    study = Study.from_text(TEXT.replace("max_records: 3", "max_records: 1").replace(CUBE, ""))
    assert study.cells.marks == ()
    rows: list[Row] = [(1, "A", 1, 1), (1, "A", 2, 1), (2, "B", 1, 1)]
    found = exact(study, counted(table(rows), study=study))
    assert found["wards"] == pytest.approx([1, 1, 0, 0])


CUBE = next(line + "\n" for line in TEXT.splitlines() if "CUBE" in line)
SEVENTEEN = "".join(
    f"  - {{name: n{i}, persons: {{}}, where: cost IS NULL OR age = {i % 6} OR ward = '{w}'}}\n"
    for i, w in ((i, "ABC"[i // 6]) for i in range(MOST_MARKS + 1))
)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("persons: {by: [ward]}}", "persons: {by: [ward]}, with_totals: [ward]}", "have no totals"),
        ("persons: {by: [ward]}}", "persons: {by: [wrad]}}", "unknown attribute or grouping"),
        ("values: [2, 3]", "values: [0, 3]", "the sets of 'part' overlap"),
        ("{person: {column: id, max_records: 3, max_participants: 1}}", "record", "who is a perso"),
        ("DISTINCT id", "DISTINCT ward", "only the persons of a study"),
        ("  - {name: rows", SEVENTEEN + "  - {name: rows", "more than 16 different breakdowns"),
    ],
)
def test_mistakes_name_the_place_and_what_to_do(old, new, message):
    assert old in TEXT
    with pytest.raises(StudyError, match=message):
        Study.from_text(TEXT.replace(old, new, 1))


def test_sets_in_very_many_pieces_are_refused():
    pieces = ", ".join(str(value) for value in range(0, 2400, 2))
    text = TEXT.replace("range: [0, 5]", "range: [0, 9999]")
    text = text.replace("values: [0, 5]", f"values: [{pieces}]").replace("[2, 3]", "[2401]")
    with pytest.raises(StudyError, match="1,201 pieces, more than 1,000"):
        Study.from_text(text)
