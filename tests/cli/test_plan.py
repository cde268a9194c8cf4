"""`dhdmm plan` as a script and as a person meets it."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from dhdmm.cli.figures import figures
from dhdmm.cli.options import for_typer
from dhdmm.cli.plan import plan
from dhdmm.errors import DhdmmError
from dhdmm.privacy.zcdp import Conversion, honest_variance
from dhdmm.study.spec import Study

EXAMPLES = Path(__file__).parents[2] / "examples"
STRATEGY_KEYS = {
    *("queries", "cells", "rows", "rmse_unit", "lower_bound_unit", "ratio", "sensitivity_squared"),
    *("optimise_seconds", "plan_bytes", "plan_check_ms"),
}
PLAN_KEYS = STRATEGY_KEYS | {
    *("rho", "epsilon", "delta", "epsilon_cks", "epsilon_paper", "sigma_participant"),
    *("honest_floor", "minimum_survivors", "modulus_bits", "degree", "threshold", "margin"),
    *("participant_bytes", "expected_rmse", "sensitivity_unit_squared"),
    *("plan_digest", "draft_digest"),
}
QUESTIONS = """
study: small
schema:
  sex: {type: category, values: [Female, Male]}
  age: {type: integer, range: [0, 9]}
workload:
  - {name: "[bold]ages", ranges: {of: age, kind: prefix}, by: [sex]}
  - {name: pairs, marginals: {ways: 2}, weight: 2}
"""
SECTIONS = """
privacy: {unit: record, epsilon: 1.0, delta: 1e-6, corrupt_fraction: 0.05}
aggregation: {threat_model: semi-honest, participants: {min: 40, max: 60}, max_dropout: 0.1,
              max_records_per_participant: 10}
"""


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.yaml"
    path.write_text(QUESTIONS)
    return path


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(QUESTIONS + SECTIONS)
    return path


def invoke(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(for_typer(plan))
    environment = {"COLUMNS": "80", "NO_COLOR": "1"}
    return CliRunner().invoke(app, [str(a) for a in arguments], env=environment)


def planned(*arguments: object) -> dict[str, Any]:
    shown = invoke(*arguments, "--json")
    assert shown.exit_code == 0, shown.output
    return json.loads(shown.stdout)


def test_study_that_only_asks_shows_its_strategy(questions: Path) -> None:
    found = planned(questions)
    assert found.keys() >= STRATEGY_KEYS
    assert "rho" not in found
    assert (found["queries"], found["cells"], found["rows"]) == (40, 20, 20)
    assert found["rmse_unit"] / found["lower_bound_unit"] == pytest.approx(found["ratio"])


def test_plan_has_every_figure(study: Path) -> None:
    found = planned(study)
    assert found.keys() >= PLAN_KEYS
    assert found["participants"] == 60
    assert all(value is not None for value in found.values())


def test_figures_of_a_plan_fit_together(study: Path) -> None:
    found = planned(study, "--participants", 50)
    assert found["participants"] == 50
    assert 0.99 < found["epsilon"] <= 1.0 < found["epsilon_cks"] < found["epsilon_paper"]
    from_rho = Conversion.GAUSSIAN.epsilon(found["rho"], found["delta"])
    assert found["epsilon"] == pytest.approx(from_rho, rel=2e-4)
    assert found["honest_floor"] == found["minimum_survivors"] - 2 - found["margin"]
    variance = honest_variance(
        found["sensitivity_unit_squared"], found["rho"], found["honest_floor"]
    )
    assert found["sigma_participant"] == pytest.approx(math.sqrt(variance))
    assert abs(found["participant_bytes"] - found["rows"] * found["modulus_bits"] / 8) < 8
    assert len(bytes.fromhex(found["plan_digest"])) == 32


def test_expected_error_is_the_items_errors(study: Path) -> None:
    found = planned(study)
    items = found["items"]
    assert [item["name"] for item in items] == ["[bold]ages", "pairs"]
    assert sum(item["queries"] for item in items) == found["queries"]
    smallest = min(item["standard_error_median"] for item in items)
    assert smallest <= found["expected_rmse"] <= max(item["standard_error_max"] for item in items)


def test_number_of_participants_outside_the_study_is_refused(study: Path) -> None:
    with pytest.raises(DhdmmError, match="40 to 60"):
        figures(Study.load(study), participants=61)


def test_participants_without_sections_are_refused(questions: Path) -> None:
    with pytest.raises(DhdmmError, match="no 'privacy' section"):
        figures(Study.load(questions), participants=50)


def test_comparison_has_ours_and_three_others(study: Path) -> None:
    found = planned(study, "--compare")
    ours, *others = found["compare"]
    assert ours["rows"] == found["rows"]
    assert ours["rmse_unit"] == pytest.approx(found["rmse_unit"])
    assert ours["participant_bytes"] == found["participant_bytes"]
    assert [other["name"] for other in others] == [
        "identity",
        "workload itself",
        "HDMM-style (L1)",
    ]
    for other in others:
        assert other["ratio"] >= 1
        assert other["participant_bytes"] >= ours["participant_bytes"]


def test_comparison_without_a_plan_knows_no_message(questions: Path) -> None:
    assert {one["participant_bytes"] for one in planned(questions, "--compare")["compare"]} == {
        None
    }


@pytest.mark.parametrize("options", [[], ["--compare"]])
def test_screen_fits_80_columns_and_shows_every_table(study: Path, options: list[str]) -> None:
    shown = invoke(study, *options)
    assert shown.exit_code == 0, shown.output
    assert max(map(len, shown.stdout.splitlines())) <= 80
    for words in ("small: 40 queries over 20 cells", "[bold]ages", "pairs", "weights"):
        assert words in shown.stdout
    assert "hides whether any one record is there or not" in " ".join(shown.stdout.split())
    assert ("HDMM-style" in shown.stdout) == bool(options)


def test_screen_of_a_study_that_only_asks_says_what_its_errors_are(questions: Path) -> None:
    shown = invoke(questions, "--compare")
    assert "no privacy and aggregation sections" in shown.stdout
    assert "budget" in shown.stdout
    assert "–" in shown.stdout  # messages are not known


@pytest.mark.slow
@pytest.mark.parametrize(
    ("example", "rows", "largest"),
    [
        ("adult-5/study.yaml", 3459, 2.342),
        ("ranges/all-256.yaml", 256, 2.910),
        ("ranges/prefix-256.yaml", 256, 2.532),
    ],
)
def test_examples_reach_their_figures(example: str, rows: int, largest: float) -> None:
    found = planned(EXAMPLES / example)
    assert found["rows"] == rows
    assert found["lower_bound_unit"] <= found["rmse_unit"] <= largest
    assert found["ratio"] <= 1.003


@pytest.mark.soak
def test_census_tables_reach_their_figures() -> None:
    found = planned(EXAMPLES / "census-sf1/study.yaml")
    assert found["rows"] == 3112
    assert found["rmse_unit"] <= 1.9115
    assert 1.9038 <= found["lower_bound_unit"] <= 1.9044


def test_a_plan_for_two_servers_is_shown_without_a_graph(study: Path) -> None:
    study.write_text(study.read_text().replace("semi-honest", "two-servers"))
    shown = invoke(study)
    assert shown.exit_code == 0, shown.output
    assert "masked sums" in shown.output
    assert "keys shared with" not in shown.output
