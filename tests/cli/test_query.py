"""`dhdmm query` and `dhdmm adjust` as a person and as a script meet them."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from dhdmm.cli.adjust import adjust
from dhdmm.cli.query import FREE, query
from dhdmm.errors import DhdmmError
from tests.cli.commands import called
from tests.release.releases import release_of

BY_SEX = "SELECT sex, COUNT(*) FROM data WHERE age >= 7 GROUP BY sex"


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("query") / "release"
    release_of().save(directory)
    return directory


def test_screen_has_the_answers_their_errors_and_that_they_are_free(saved):
    text = called(query, saved, BY_SEX)
    assert max(map(len, text.splitlines())) <= 80
    assert "Female" in text
    assert "±" in text
    assert FREE in text


def test_json_has_exact_rows_and_spends_nothing(saved):
    document = json.loads(called(query, saved, BY_SEX, "--json", "--level", 0.9))
    table = release_of().query(BY_SEX, level=0.9)
    assert document["rows"] == table.to_arrow().to_pylist()
    assert document["rho_spent"] == 0
    assert document["provenance"]["study"] == "small"


def test_rows_on_the_screen_are_limited(saved):
    by_age = "SELECT age, COUNT(*) FROM data GROUP BY age"
    assert "… 25 more rows" in called(query, saved, by_age, "--rows", 5)
    assert "more rows" not in called(query, saved, by_age, "--rows", 0)


def test_what_was_not_measured_is_refused_with_what_was(saved):
    with pytest.raises(DhdmmError, match="did not measure") as error:
        called(query, saved, "SELECT age, value, COUNT(*) FROM data GROUP BY age, value")
    assert "GROUP BY band, value" in error.value.hint


@pytest.mark.slow
def test_adjusted_tables_have_raw_and_adjusted_columns(saved, tmp_path):
    said = called(
        adjust, saved, "--nonnegative", "--integers", "--replicates", 2, "--out", tmp_path / "a"
    )
    assert "This biases the answers" in " ".join(said.split())
    report = json.loads((tmp_path / "a" / "adjusted.json").read_text())
    assert report["rules"] == {"nonnegative": True, "integers": True, "consistent": True}
    assert report["effect"]["answers"] == 612
    with (tmp_path / "a" / report["tables"]["crossed"]).open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["value"]) for row in rows] == release_of()["crossed"].values.tolist()
    assert all(float(row["adjusted_value"]).is_integer() for row in rows)


def test_adjusting_each_answer_alone_without_simulation_gives_plain_json(saved, tmp_path):
    arguments = ("--nonnegative", "--each", "--replicates", 0, "--json", "--out", tmp_path / "a")
    document = json.loads(called(adjust, saved, *arguments))
    assert document["effect"]["mean_bias"] is None
    assert document["effect"]["disagreement"] > 0


def test_a_directory_with_files_is_left_alone(saved, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(DhdmmError, match="not empty"):
        called(adjust, saved, "--integers", "--out", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


LOADED = """
import atexit, sys
slow = {"pandas", "scipy.special"}
atexit.register(lambda: print("loaded:", sorted(slow & set(sys.modules)), file=sys.stderr))
from dhdmm.cli.main import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["show"], ["query", BY_SEX], ["adjust", "--nonnegative", "--out", "adjusted"]]
)
def test_reading_a_release_loads_nothing_that_takes_long_to_import(saved, tmp_path, arguments):
    """pandas and scipy.special take half a second each; pyarrow would import pandas by itself."""
    name, *others = arguments
    command = [sys.executable, "-c", LOADED, name, str(saved), *others]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "loaded: []" in done.stderr
