"""Tables: rows and labels in the workload's order, the same numbers in every library and file."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from scipy.stats import binom, norm

import dhdmm
from dhdmm.errors import DhdmmError, UnknownTable
from dhdmm.release.intervals import Sums
from dhdmm.release.release import Release
from dhdmm.release.tables import Table
from dhdmm.study.names import LazySequence
from dhdmm.study.workload import Axis, Item, Term
from tests.release.releases import plan_of, records, release_of, study_of


@pytest.fixture(scope="module")
def release() -> Release:
    return release_of()


def rows_of(table: Table) -> list[tuple]:
    return [tuple(row.values()) for row in table.to_arrow().to_pylist()]


def test_a_release_is_a_mapping_from_names_to_tables(release):
    names = [item.name for item in release.plan.study.workload.items]
    assert isinstance(release, Mapping)
    assert list(release) == list(release.keys()) == names
    assert [name for name, _ in release.items()] == [table.name for table in release.values()]
    assert len(release) == len(names)
    assert "crossed" in release
    assert "nothing" not in release
    assert release.get("nothing") is None
    with pytest.raises(UnknownTable, match=r"the release has no table 'crosed' .*'crossed'"):
        release["crosed"]


def test_a_release_equals_itself_alone(release):
    same = replace(release)
    assert release == release
    assert release != same
    assert len({release, same}) == 2


def test_whether_a_release_has_a_table_is_found_without_computing_answers():
    fresh = replace(release_of())
    assert "crossed" in fresh
    assert "answers" not in vars(fresh)


def test_tables_hold_all_answers_in_the_workloads_order(release):
    stacked = np.concatenate([table.to_arrow()["value"].to_numpy() for table in release.values()])
    assert np.array_equal(stacked, release.answers)
    errors = np.concatenate([t.to_arrow()["standard_error"].to_numpy() for t in release.values()])
    assert np.array_equal(errors, release.standard_errors)


def test_labels_are_those_of_each_rows_query(release):
    """Every label that a query's own words contain stands in its row, and nothing else does."""
    number = 0
    for table in release.values():
        words = table.to_arrow().drop_columns(["value", "standard_error", "low", "high"])
        named = {column.name: column.header for column in table.columns}
        for row in words.to_pylist():
            row.pop("condition", None)
            told = [f"{named[k]}: {v}" for k, v in row.items() if v not in ("", "total")]
            label = release.plan.study.workload.query(number).label.split(" where ")[0]
            said = [part for part in label.split(", ") if not part.endswith("total")]
            assert ", ".join(told) == ", ".join(said)
            number += 1
    assert number == release.plan.study.workload.queries


def test_rows_in_words_and_sql_on_request(release):
    table = release["crossed"].to_arrow(queries=True)
    workload = release.plan.study.workload
    start = 1 + len(release["parts"])
    for i, row in enumerate(table.to_pylist()):
        query = workload.query(start + i)
        assert (row["query"], row["sql"]) == (query.label, query.sql)


def test_what_is_not_broken_down_is_called_total(release):
    parts = release["parts"].to_arrow().to_pylist()
    assert [(r["sex"], r["band"], r["age"]) for r in (parts[0], parts[2], parts[-1])] == [
        ("Female", "total", "total"),
        ("total", "0–9", ""),  # the ages of this row are told by `band`
        ("total", "total", "total"),
    ]
    cube = release["cube"].to_arrow().to_pylist()
    assert cube[-1]["sex"] == cube[-1]["by_value"] == "total"


def test_a_label_column_never_takes_the_name_of_a_statistic(release):
    assert release["cube"].to_arrow().column_names == [
        "sex",
        "by_value",
        "value",
        "standard_error",
        "low",
        "high",
    ]


def test_conditions_have_a_column_only_where_labels_do_not_tell_them(release):
    assert "condition" not in release["adults"].to_arrow().column_names
    assert release["adults"].fixed == {"age": "18–29"}
    assert set(release["cut"].to_arrow()["condition"].to_pylist()) == {"age >= 18"}
    assert release["coupled"].to_arrow()["condition"].to_pylist() == [
        *["age >= 18 OR value < 10"] * 2,
        *[""] * 2,
    ]


def test_parts_add_up_to_totals(release):
    """All answers come from one estimated histogram."""
    crossed = {row[:2]: row[2] for row in rows_of(release["crossed"])}
    bands = ["0–9", "10–19", "20–29"]
    everyone = release["everyone"].values[0]
    for sex in ("Female", "Male", "total"):
        assert sum(crossed[sex, b] for b in bands) == pytest.approx(crossed[sex, "total"], abs=1e-6)
    assert crossed["total", "total"] == pytest.approx(everyone, abs=1e-6)
    assert release["parts"].values[-1] == pytest.approx(everyone, abs=1e-6)
    assert release["prefixes"].values[[29, 59]].sum() == pytest.approx(everyone, abs=1e-6)


def test_head_is_the_beginning_of_the_table(release):
    for table in release.values():
        for rows in (0, 1, 3, 10**6):
            assert rows_of(table.head(rows)) == rows_of(table)[:rows]
        assert table.head(0).to_arrow(queries=True).num_rows == 0
        assert table.head(2).to_arrow(queries=True).num_rows == min(2, len(table))


def test_head_of_a_long_table_makes_only_the_labels_it_shows():
    made: Counter[int] = Counter()

    def label(row: int) -> str:
        made[row] += 1
        return str(row)

    text = study_of("  - {name: sexes, by: [sex]}")
    workload = dhdmm.Study.from_text(text).workload
    term = workload.terms[0]
    axis = Axis("sex", LazySequence(2, label), LazySequence(2, lambda row: "x"))
    long = Item("long", (Term(1.0, term.products, (axis,)),) * 10_000)
    table = Table(workload.schema, long, Sums(np.zeros(20_000), np.ones(20_000)))
    assert len(table.head(3).to_arrow()) == 3
    assert sum(made.values()) <= 4


def test_every_library_and_file_has_the_same_numbers(release, tmp_path):
    table = release.table("spread", joint=True)
    arrow = table.to_arrow()
    assert table.to_polars().to_dicts() == arrow.to_pylist()
    assert table.to_pandas().to_dict("records") == arrow.to_pylist()
    table.to_parquet(tmp_path / "t.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "t.parquet").equals(arrow)
    table.to_csv(tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file, quoting=csv.QUOTE_NONNUMERIC))
    assert read == arrow.to_pylist()


def test_csv_labels_are_quoted_and_unchanged(tmp_path):
    labels = '["=1+1", "+x", "-x", "@x", "a,b", \'say "hi"\', "line\\nbreak"]'
    release = release_of(study_of("  - {name: labels, by: [sex]}", labels))
    release["labels"].to_csv(tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        read = [row["sex"] for row in csv.DictReader(file)]
    assert read == ["=1+1", "+x", "-x", "@x", "a,b", 'say "hi"', "line\nbreak"]
    assert '"=1+1"' in (tmp_path / "t.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_is_named_with_its_extra(release, monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(DhdmmError, match=rf"{library} is not installed .*dhdmm\[{library}\]"):
        getattr(release["crossed"], f"to_{library}")()


def test_an_unknown_table_is_refused_with_the_near_miss(release):
    with pytest.raises(DhdmmError, match=r"no table 'crosed' .*'crossed'"):
        release["crosed"]


def test_levels_and_joint_bounds(release):
    table = release.table("crossed", level=0.9, joint=True).to_arrow()
    reach = (table["high"].to_numpy() - table["low"].to_numpy()) / 2
    joint = (table["joint_high"].to_numpy() - table["joint_low"].to_numpy()) / 2
    errors = table["standard_error"].to_numpy()
    assert reach / errors == pytest.approx(norm.ppf(0.95))
    queries = release.plan.study.workload.queries
    assert joint / errors == pytest.approx(norm.isf(0.05 / queries))
    with pytest.raises(DhdmmError, match="between 0 and 1"):
        release.table("crossed", level=95).to_arrow()


ROUNDS = 200
SURVIVORS = 57


@pytest.fixture(scope="module")
def errors() -> np.ndarray:
    """(rounds, queries): answer minus truth under the noise of 57 survivors."""
    plan, rng = plan_of(), np.random.default_rng(11)
    exact = plan.strategy.measure(records(plan, rng))
    deviation = float(SURVIVORS * plan.participant_variance) ** 0.5
    noise = np.rint(rng.normal(0, deviation, (ROUNDS, len(exact)))).astype(np.int64)
    truth = plan.strategy.reconstruct(exact)
    return np.array([Release(plan, b"", SURVIVORS, exact + e).answers - truth for e in noise])


def covered(errors: np.ndarray, counted: int) -> list[int]:
    """How many rounds' 95 % intervals hold the truth, for the first answer of every item."""
    release = Release(plan_of(), b"", counted, np.zeros(plan_of().strategy.rows, np.int64))
    starts = np.cumsum([0, *(len(table) for table in release.values())])[:-1]
    reach = [table.head(1).bounds()[1][0] - table.values[0] for table in release.values()]
    return [int(n) for n in (np.abs(errors[:, starts]) <= reach).sum(axis=0)]


LEAST, MOST = binom.ppf([5e-7, 1 - 5e-7], ROUNDS, 0.95)
"""Ten answers, two-sided: a false alarm for one in 10⁵ seeds."""


@pytest.mark.slow
def test_intervals_cover_the_truth_as_often_as_they_say(errors):
    assert all(LEAST <= hits <= MOST for hits in covered(errors, SURVIVORS))


def test_intervals_from_miscounted_survivors_are_found_out(errors):
    assert all(hits < LEAST for hits in covered(errors, 15))


def test_files_of_a_table_can_be_written_by_path_or_text(release, tmp_path):
    release["everyone"].to_csv(str(tmp_path / "a.csv"))
    release["everyone"].to_csv(Path(tmp_path / "b.csv"))
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
