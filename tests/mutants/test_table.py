"""The table of mutants fits the sources and the tests, and its runner tells outcomes apart."""

from __future__ import annotations

import ast
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.__main__ import Verdict, judge
from tests.mutants.mutant import SOURCES, Mutant, TableError
from tests.mutants.page import PAGE, page
from tests.mutants.table import MUTANTS
from tests.mutants.trial import Outcome

pytestmark = pytest.mark.slow

FEWEST = 120


def test_every_line_is_still_there_and_weakened_ones_are_programs() -> None:
    for mutant in MUTANTS:
        text = mutant.source(SOURCES).read_text(encoding="utf-8")
        changed = mutant.mutated(text)
        assert changed != text
        ast.parse(changed)


def test_a_line_that_is_gone_or_there_twice_is_an_error() -> None:
    mutant = Mutant("a.py", "x = 1", "x = 2", "", ())
    assert mutant.mutated("if y:\n    x = 1\nz = 1\n") == "if y:\n    x = 2\nz = 1\n"
    for text in ("x = 10\n", "x = 1\nx = 1\n"):
        with pytest.raises(TableError, match=r"a\.py has [02] lines"):
            mutant.mutated(text)


def test_every_named_test_exists() -> None:
    assert [(m.file, m.missing_tests()) for m in MUTANTS if m.missing_tests()] == []
    assert all(mutant.tests for mutant in MUTANTS)


def test_there_are_enough_mutants_and_no_two_are_the_same() -> None:
    assert len(MUTANTS) >= FEWEST
    assert len({(mutant.file, mutant.line, mutant.weakened) for mutant in MUTANTS}) == len(MUTANTS)


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(MUTANTS), "write it anew: make mutants"


EVIDENCE = Mutant(
    "secagg/keys.py",
    "return hmac.compare_digest(tag, expected)",
    "return hmac.compare_digest(tag[:4], expected[:4])",
    "",
    ("secagg/test_guards.py::test_every_byte_of_evidence_counts",),
)


@pytest.mark.parametrize(
    ("weakened", "outcome"),
    [
        (EVIDENCE.weakened, Outcome.KILLED),
        ("return bool(hmac.compare_digest(tag, expected))", Outcome.SURVIVED),
        ("return hmac.compare_digest(tag, expected", None),
    ],
    ids=["killed", "equivalent", "no program"],
)
def test_outcomes_are_told_apart(tmp_path: Path, weakened: str, outcome: Outcome | None) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(SOURCES, whole)
    verdict = judge(replace(EVIDENCE, weakened=weakened), whole, tmp_path)
    assert verdict.outcome is outcome
    assert verdict.expected == (outcome is Outcome.KILLED)


def test_tests_that_do_not_run_kill_nothing(tmp_path: Path) -> None:
    missing = replace(EVIDENCE, tests=("secagg/test_guards.py::test_that_is_not_there",))
    shutil.copytree(SOURCES, tmp_path / "whole")
    verdict = judge(missing, tmp_path / "whole", tmp_path)
    assert verdict.outcome is None
    assert not verdict.expected


def test_a_mutant_that_is_left_must_survive() -> None:
    left = replace(EVIDENCE, left="it changes nothing")
    assert Verdict(left, Outcome.SURVIVED, "").expected
    assert not Verdict(left, Outcome.KILLED, "").expected
