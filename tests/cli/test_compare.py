"""`dhdmm compare` and `dhdmm budget` as a person and as a script meet them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dhdmm.cli.budget import budget
from dhdmm.cli.compare import compare
from dhdmm.errors import DhdmmError
from dhdmm.release.comparison import compare as compared
from tests.cli.commands import called
from tests.release.releases import release_of


def two_rounds():
    return release_of(seed=1), replace(release_of(seed=2), round_id=bytes([2] * 16))


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> tuple[Path, Path]:
    directory = tmp_path_factory.mktemp("compare")
    paths = directory / "first", directory / "second"
    for release, path in zip(two_rounds(), paths, strict=True):
        release.save(path)
    return paths


@pytest.mark.slow
def test_screen_shows_both_answers_and_what_a_difference_means(saved):
    text = called(compare, *saved)
    assert max(map(len, text.splitlines())) <= 80
    for words in ("difference", "± s.e.", "crossed", "Female", "drew its own noise", "more rows"):
        assert words in text


def test_json_has_exact_differences(saved):
    document = json.loads(called(compare, *saved, "--item", "adults", "--json"))
    (expected,) = (one for one in compared(*two_rounds()) if one.name == "adults")
    assert [table["item"] for table in document["tables"]] == ["adults"]
    assert document["tables"][0]["rows"] == expected.to_arrow().to_pylist()
    assert document["first"]["round"] != document["second"]["round"]


def test_a_release_is_not_compared_with_itself(saved):
    with pytest.raises(DhdmmError, match="same round"):
        called(compare, saved[0], saved[0])


def test_unknown_item_is_refused(saved):
    with pytest.raises(DhdmmError, match="no table 'adlts'"):
        called(compare, *saved, "--item", "adlts")


def test_budget_adds_rounds_and_says_whose_it_is(saved):
    text = called(budget, *saved)
    assert max(map(len, text.splitlines())) <= 80
    for words in (
        "unit: record, zero-out",
        "small",
        "together",
        "in view of earlier",
        "dhdmm ledger",
    ):
        assert words in " ".join(text.split())
    assert "number of rounds and their noise were settled before" in " ".join(text.split())


def test_budget_in_json_counts_a_round_once(saved):
    document = json.loads(called(budget, *saved, saved[0], "--json"))
    assert (document["releases"], document["rounds"]) == (3, 2)
    (account,) = document["accounts"]
    single = release_of().plan
    assert account["together"]["rounds"] == 2
    assert account["together"]["rho"] == pytest.approx(2 * float(single.noise.rho))
    assert account["together"]["epsilon"] > single.promise.epsilon
    assert account["together"]["epsilon_adaptive"] > account["together"]["epsilon"]
    assert "counted already" in " ".join(called(budget, *saved, saved[0]).split())
