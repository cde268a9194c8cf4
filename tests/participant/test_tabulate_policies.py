"""Unknown values, persons with many records, and the record bound."""

from __future__ import annotations

from collections import Counter, defaultdict

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhdmm.errors import DataError, Refused
from dhdmm.participant.tabulate import tabulate
from dhdmm.study.attributes import CategoryAttribute, IntegerAttribute
from dhdmm.study.models import PersonModel
from dhdmm.study.schema import Schema
from tests.amounts import examples
from tests.participant.histograms import contents

RACE = CategoryAttribute("race", ("White", "Black", "Other"))
SCHEMA = Schema((IntegerAttribute("age", 0, 9), RACE))


def person(column: str, max_records: int) -> PersonModel:
    return PersonModel(column=column, max_records=max_records, max_participants=1)


@pytest.mark.slow
def test_error_names_columns_and_rows_but_no_value():
    table = pa.table({"AGE": [3, 4711, 4711], "race": ["White", None, "Purple"]})
    with pytest.raises(DataError) as caught:
        tabulate(table, SCHEMA)
    message = str(caught.value)
    assert "column 'AGE' in 2 rows; column 'race' in 2 rows" in message
    assert "4711" not in message
    assert "Purple" not in message


def test_drop_leaves_rows_out_and_counts_them():
    table = pa.table({"age": [3, 10, 3], "race": ["White", None, "Purple"]})
    tabulation = tabulate(table, SCHEMA, on_unknown="drop")
    assert contents(tabulation.histogram) == {(3, 0): 1}
    assert tabulation.report.unknown == {"age": 1, "race": 2}
    assert (tabulation.report.rows, tabulation.report.dropped) == (3, 2)


def test_other_merges_unknown_values_into_the_category_other():
    table = pa.table({"age": [3, 3, 3], "race": ["Other", None, "Purple"]})
    tabulation = tabulate(table, SCHEMA, on_unknown="other")
    assert contents(tabulation.histogram) == {(3, 2): 3}
    assert tabulation.report.unknown == {"age": 0, "race": 2}
    assert tabulation.report.dropped == 0


def test_other_may_be_named_for_each_attribute():
    table = pa.table({"age": [3, 10], "race": ["Purple", "Black"]})
    histogram = tabulate(table, SCHEMA, on_unknown="other", other={"age": 9, "race": "White"})
    assert contents(histogram.histogram) == {(3, 0): 1, (9, 1): 1}


def test_other_is_refused_where_no_category_is_called_so():
    table = pa.table({"age": [3, 10], "race": ["Purple", "Black"]})
    with pytest.raises(DataError, match=r"column 'age' in 1 row \(only an attribute with a categ"):
        tabulate(table, SCHEMA, on_unknown="other")


PERSONS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 11), st.sampled_from(RACE.values)), max_size=40
)


def person_table(rows: list[tuple[str, int, str]]) -> pa.Table:
    names, ages, races = zip(*rows, strict=True) if rows else ((), (), ())
    columns = {"id": pa.array(names, pa.string()), "age": pa.array(ages, pa.int64())}
    return pa.table({**columns, "race": pa.array(races, pa.string())})


@pytest.mark.slow
@settings(max_examples=examples(10, 200), deadline=None)
@given(PERSONS, st.integers(1, 6), st.randoms(use_true_random=False))
def test_nobody_has_more_than_the_bound_and_the_order_of_rows_is_irrelevant(rows, bound, random):
    unit = person("id", bound)
    tabulation = tabulate(person_table(rows), SCHEMA, on_unknown="drop", unit=unit, threads=1)
    known = [row for row in rows if row[1] <= 9]
    per_person = Counter(name for name, _, _ in known)
    kept = {name: min(n, bound) for name, n in per_person.items()}
    assert tabulation.histogram.records == sum(kept.values())
    assert tabulation.report.persons_truncated == sum(n > bound for n in per_person.values())
    assert tabulation.report.records_truncated == len(known) - sum(kept.values())
    assert tabulation.report.dropped == len(rows) - len(known)
    shuffled = random.sample(rows, len(rows))
    again = tabulate(person_table(shuffled), SCHEMA, on_unknown="drop", unit=unit, threads=1)
    assert contents(again.histogram) == contents(tabulation.histogram)


@pytest.mark.slow
@settings(max_examples=examples(10, 200), deadline=None)
@given(PERSONS, st.integers(1, 4))
def test_removing_one_person_changes_the_histogram_by_at_most_the_bound(rows, bound):
    """What the sensitivity p·max‖a′_u‖ of `unit: person` rests on."""
    unit = person("id", bound)

    def count(rows: list[tuple[str, int, str]]) -> Counter[tuple[int, ...]]:
        table = person_table(rows)
        histogram = tabulate(table, SCHEMA, on_unknown="drop", unit=unit, threads=1).histogram
        return Counter(contents(histogram))

    everybody, others = count(rows), count([row for row in rows if row[0] != "a"])
    assert not others - everybody
    assert (everybody - others).total() <= bound


def test_without_the_unit_one_person_changes_the_histogram_without_bound():
    """The weakened variant: the same neighbours, no truncation."""
    rows = [("a", 1, "White")] * 50 + [("b", 1, "White")]
    histogram = tabulate(person_table(rows), SCHEMA).histogram
    assert histogram.records - 1 > 4


def test_truncation_prefers_no_value():
    """Two records, one stays: either is kept about as often. |z| < 5: false alarm rate 6e-7."""
    persons = 2000
    rows = [(str(name), age, "White") for name in range(persons) for age in (0, 9)]
    histogram = tabulate(person_table(rows), SCHEMA, unit=person("id", 1)).histogram
    low = contents(histogram)[0, 0]
    assert histogram.records == persons
    assert abs(low - persons / 2) < 5 * (persons / 4) ** 0.5


def test_rows_to_be_dropped_do_not_use_up_a_persons_bound():
    table = pa.table({"id": [1] * 40, "age": [99] * 38 + [1, 2], "race": ["White"] * 40})
    tabulation = tabulate(table, SCHEMA, on_unknown="drop", unit=person("id", 2))
    assert tabulation.histogram.records == 2
    assert tabulation.report.persons_truncated == 0


@pytest.mark.parametrize("policy", ["error", "other"])
def test_a_record_without_a_person_is_refused(policy):
    table = pa.table({"id": [1, None], "age": [1, 1], "race": ["White", "White"]})
    with pytest.raises(DataError, match="column 'id' in 1 row"):
        tabulate(table, SCHEMA, on_unknown=policy, unit=person("id", 2))


def test_a_record_without_a_person_can_be_dropped(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,age,race\n,1,White\nx,1,White\n")
    tabulation = tabulate(path, SCHEMA, on_unknown="drop", unit=person("id", 2))
    assert (tabulation.histogram.records, tabulation.report.dropped) == (1, 1)


def test_other_and_truncation_together_keep_the_bound():
    table = pa.table({"id": [1] * 9, "age": [1] * 9, "race": ["White", "Purple", None] * 3})
    tabulation = tabulate(table, SCHEMA, on_unknown="other", unit=person("id", 4))
    assert tabulation.histogram.records == 4
    assert tabulation.report.records_truncated == 5


def test_more_records_than_the_bound_are_refused_and_not_clipped():
    table = pa.table({"age": [1] * 101, "race": ["White"] * 101})
    with pytest.raises(Refused, match=r"max_records_per_participant = 100 .*nothing is clipped"):
        tabulate(table, SCHEMA, max_records=100)
    assert tabulate(table.slice(1), SCHEMA, max_records=100).histogram.records == 100


def test_the_bound_counts_what_is_left_after_truncation():
    table = pa.table({"id": [1] * 101, "age": [1] * 101, "race": ["White"] * 101})
    unit = person("id", 5)
    assert tabulate(table, SCHEMA, unit=unit, max_records=5).histogram.records == 5


def test_persons_are_told_apart_by_their_exact_value(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,age,race\n1,1,White\n01,1,White\n1,1,White\n")
    by_person = defaultdict(int, contents(tabulate(path, SCHEMA, unit=person("id", 1)).histogram))
    assert by_person[1, 0] == 2
