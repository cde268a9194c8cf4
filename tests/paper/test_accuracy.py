"""What the accuracy figures rest on: the ideal sum, the records, κ and the studies themselves."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dhdmm.errors import DataError
from dhdmm.participant.measure import measure
from dhdmm.planning.draft import plan
from dhdmm.privacy.keystream import KeyStream
from dhdmm.release.decode import decode
from dhdmm.study.histogram import Histogram
from research.paper import accuracy, kappa, studies
from research.paper.records import description, fingerprint, records
from tests.paper.tiny import TINY
from tests.sums import PlainSum

LIMIT = 4.0
"""Standard errors with some forty degrees of freedom: a false alarm of a test has chance 3e-4."""


def test_ideal_sum_is_that_of_everybodys_measurements_bit_by_bit() -> None:
    agreed = replace(
        studies.planned("adult-5", 6, threat_model="malicious"), roster_digest=b"r" * 32
    )
    codes = records("adult-5", agreed.study.schema, 6, seed=3, adult=None)
    people = [Histogram.of_records(codes[i : i + 1]) for i in range(6)]
    key = bytes(31) + b"\x05"
    stream = KeyStream.from_key_for_tests(key)
    inputs = {i: measure(agreed, people[i], stream.substream(b"%d" % i)) for i in range(6)}
    total = PlainSum(agreed.round(bytes(16))).sum(inputs).total
    exact = agreed.strategy.measure(Histogram.of_records(codes))
    found = accuracy.ideal_sum(agreed, exact, KeyStream.from_key_for_tests(key))
    assert np.array_equal(found, decode(agreed, total))


@pytest.mark.slow
def test_sampled_errors_agree_with_the_expected_ones() -> None:
    settings = replace(TINY, accuracy_repetitions=40)
    for unit in [
        accuracy.distributed(settings, "adult-5", epsilon=1.0, theta=0.2),
        accuracy.model(settings, "adult-5", "central", 1.0),
        accuracy.model(settings, "adult-5", "shuffle-best", 1.0),
    ]:
        [row] = accuracy.points([({}, unit.run())], lambda _row: None)
        assert abs(row["deviation"]) < LIMIT, unit.kind


@pytest.mark.slow
def test_too_little_noise_would_be_noticed() -> None:
    """The same comparison for a mechanism that forgets the corrupt fifth."""
    settings = replace(TINY, accuracy_repetitions=40)
    honest = accuracy.distributed(settings, "adult-5", theta=0.2, max_dropout=0.0).run()
    careless = accuracy.distributed(settings, "adult-5", theta=0.0, max_dropout=0.0).run()
    mixed = careless | {"expected_rmse": honest["expected_rmse"]}
    [row] = accuracy.points([({}, mixed)], lambda _row: None)
    assert row["deviation"] < -LIMIT


def test_whole_rounds_have_the_expected_error() -> None:
    unit = accuracy.rounds(replace(TINY, rounds=2), "adult-5", epsilon=1.0)
    result = unit.run()
    # 3,807 answers of which a few hundred are independent: within a fifth is 4 standard errors
    assert math.sqrt(np.mean(result["squares"])) == pytest.approx(result["expected_rmse"], rel=0.2)


@pytest.mark.slow
def test_kappa_is_the_papers() -> None:
    [row] = [row for row in kappa.ITEM.compute(TINY, _kappa_results()) if row["scale"] == 100]
    assert row["kappa"] == "9.39e-86"
    assert row["variance"] == 10
    assert float(row["tau"]) > float(row["kappa"])


def _kappa_results() -> dict[str, dict[str, object]]:
    return {kappa.unit().name: kappa.unit().run()}


CODED = """age,workclass,education-num,race,sex,hours-per-week
23,5,12,0,1,39
1,5,0,4,0,0
74,2,15,1,1,98
"""


def test_the_coded_adult_file_is_decoded(tmp_path: Path) -> None:
    """Code 23 is an age of 39, code 39 is 40 hours, race 4 is Black, sex 1 is male."""
    file = tmp_path / "adult.csv"
    file.write_text(CODED)
    schema = studies.study("adult-5").schema
    found = records("adult-5", schema, 3, seed=0, adult=file)
    person = {"age": 39, "education": 13, "race": "White", "sex": "Male", "hours": 40}
    youngest = {"age": 17, "education": 1, "race": "Black", "sex": "Female", "hours": 1}
    oldest = {"age": 90, "education": 16, "race": "Asian-Pac-Islander", "sex": "Male", "hours": 99}
    expected = {schema.encode(p) for p in (person, youngest, oldest)}
    assert {tuple(row) for row in found.tolist()} == expected


def test_a_table_with_the_studys_own_columns_is_read_too(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("age,education,race,sex,hours\n39,13,White,Male,40\n")
    schema = studies.study("adult-5").schema
    [row] = records("adult-5", schema, 1, seed=0, adult=file)
    assert tuple(row) == (22, 12, 0, 1, 8)


def test_too_few_records_and_strange_codes_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "adult.csv"
    file.write_text(CODED)
    schema = studies.study("adult-5").schema
    with pytest.raises(DataError, match="only 3 records"):
        records("adult-5", schema, 4, seed=0, adult=file)
    file.write_text(CODED.replace("74,2", "80,2"))
    with pytest.raises(DataError, match="outside"):
        records("adult-5", schema, 1, seed=0, adult=file)
    with pytest.raises(DataError, match="cannot be read"):
        fingerprint("adult-5", tmp_path / "nothing.csv")


def test_the_stand_in_is_called_one() -> None:
    assert "made-up" in description("adult-5", None)
    assert "made-up" in description("census-sf1", None)


def test_varied_studies_say_what_they_promise() -> None:
    varied = studies.varied(studies.study("census-sf1"), 50, epsilon=2.0, theta=0.1, records=7)
    privacy, aggregation = varied.privacy, varied.aggregation
    assert (privacy.epsilon, privacy.delta, privacy.corrupt_fraction) == (2.0, 1e-5, 0.1)
    assert (aggregation.participants, aggregation.max_records_per_participant) == (50, 7)
    assert varied.workload.queries == 4151


@pytest.mark.parametrize("rows", [60, 3112, 33_184])
def test_counting_studies_measure_so_many_rows(rows: int) -> None:
    assert plan(studies.counting(rows)).strategy.rows == rows
