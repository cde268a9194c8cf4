"""The budget that a wanted error takes, and errors beside what answers may be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dhdmm.errors import StudyError
from dhdmm.planning.draft import draft, plan
from dhdmm.planning.plan import Plan
from dhdmm.planning.targets import Targets, guessed_answers, study_for
from dhdmm.strategy.objective import objective_of
from dhdmm.strategy.optimise import optimise
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study
from tests.cli.commands import Shell
from tests.round.small import small_text

SMALL = Study.from_text(small_text())


@pytest.mark.slow
@pytest.mark.parametrize(
    "targets",
    [Targets({"both": 3.0}), Targets({"both": 40.0, "young": 30.0}), Targets({}, 1.5)],
    ids=["smaller errors", "larger errors", "of all queries"],
)
def test_the_smallest_epsilon_that_meets_the_targets_is_found(targets):
    strategy = optimise(SMALL.workload)
    found = study_for(SMALL, strategy, targets)
    missed = targets.missed_by(plan(found, strategy=strategy).expected_error())
    assert 0.995 < missed <= 1
    assert found.privacy.delta == SMALL.privacy.delta
    less = found.with_privacy(epsilon=0.99 * found.privacy.epsilon)
    assert targets.missed_by(plan(less, strategy=strategy).expected_error()) > 1


def test_targets_hold_for_the_number_of_participants_that_is_planned():
    text = small_text(participants="{min: 12, max: 20}")
    study, targets = Study.from_text(text), Targets({"both": 5.0})
    strategy = optimise(study.workload)
    found = draft(study_for(study, strategy, targets, 12), strategy)
    assert 0.995 < targets.missed_by(found.plan(12).expected_error()) <= 1


@pytest.mark.parametrize("text", ["both", "both: x", ": 5", "both: 0", "both: -1", "both: inf"])
def test_a_target_that_is_none_is_explained(text):
    with pytest.raises(StudyError, match="is no target"):
        Targets.parse([text])


def test_guessed_answers_are_those_of_records_on_all_cells_alike():
    study = Study.from_text(
        small_text().replace("workload:", "workload:\n  - {name: rows, coverage: true}")
    )
    shape = study.workload.schema.shape
    even = np.zeros(shape, np.int64)
    even[..., 0] = 3
    strategy = optimise(study.workload)
    exact = strategy.reconstruct(strategy.measure(Histogram.of_array(even)))
    assert np.allclose(guessed_answers(study, float(even.sum())), exact)


def test_guessed_answers_of_a_measure_are_in_its_units():
    text = small_text().replace(
        "  sex:", "  days: {type: measure, range: [0, 10], step: 1}\n  sex:"
    )
    study = Study.from_text(
        text.replace("workload:", "workload:\n  - {name: days, sum: {of: days}}")
    )
    guessed = guessed_answers(study, 100.0)
    assert guessed[study.workload.rows["days"]] == pytest.approx([500.0])
    assert guessed[study.workload.rows["both"]] == pytest.approx([5.0] * 20)


@pytest.mark.slow
def test_plan_takes_another_budget_a_target_and_a_total(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    shell = Shell(tmp_path, monkeypatch, capsys)
    (tmp_path / "study.yaml").write_text(small_text())
    command = ["plan", "study.yaml", "--json"]
    assert json.loads(shell(*command, "--epsilon", "0.5").out)["epsilon"] <= 0.5
    assert json.loads(shell(*command, "--delta", "1e-9").out)["delta"] == 1e-9
    assert json.loads(shell(*command, "--rho", "0.25").out)["rho"] == pytest.approx(0.25)
    assert shell(*command, "--rho", "0.25", "--epsilon", "1").code == 3
    found = json.loads(shell(*command, "--target", "both: 5", "--total", "2000").out)
    both = next(item for item in found["items"] if item["name"] == "both")
    assert 4.9 < both["standard_error_max"] <= 5
    assert both["relative_median"] == pytest.approx(both["standard_error_median"] / 100)
    shown = shell("plan", "study.yaml", "--target", "both: 5", "--total", "2000").out
    assert f"The targets take ε = {found['epsilon']:.4g} at δ = 1e-06" in shown
    assert max(map(len, shown.splitlines())) <= 80
    wrong = shell("plan", "study.yaml", "--target", "bothh: 5")
    assert (wrong.code, "did you mean 'both'?" in wrong.err) == (3, True)


WANTED = {"both": 40.0, "young": 6.0}


@pytest.mark.slow
def test_a_plan_for_targets_reaches_them_with_less_budget_than_the_least_total_error() -> None:
    made = plan(SMALL, targets=WANTED)
    errors = made.expected_error().by_item()
    reached = [float(errors[name].max()) / target for name, target in WANTED.items()]
    assert all(0.98 < one <= 1 for one in reached), "none is better than it has to be"
    assert made.study.targets == WANTED
    usual = study_for(SMALL, optimise(SMALL.workload), Targets(WANTED))
    assert made.promise.epsilon < 0.95 * usual.privacy.epsilon
    assert made.strategy.ratio < 1.005


def test_targets_of_a_study_are_planned_at_its_own_budget() -> None:
    study = SMALL.with_targets(WANTED)
    made = plan(study)
    assert made.promise.epsilon == pytest.approx(study.privacy.epsilon, rel=1e-3)
    errors = made.expected_error().by_item()
    missed = [float(errors[name].max()) / target for name, target in WANTED.items()]
    assert max(missed) == pytest.approx(min(missed), rel=0.02), "all alike"
    read = Plan.from_bytes(made.to_bytes())
    assert read.strategy.objective == made.strategy.objective == objective_of(study)
    assert read.strategy.error == pytest.approx(made.strategy.error)


@pytest.mark.slow
def test_a_study_says_what_is_made_small_and_older_ones_keep_their_digest() -> None:
    text = small_text()
    changed = Study.from_text(text + "objective: max\n")
    assert objective_of(changed).name == "max"
    assert changed.digest != SMALL.digest == Study.from_text(text + "objective: total\n").digest
    assert SMALL.with_objective("max").digest == changed.digest
    assert Study.from_canonical_bytes(changed.canonical_bytes()).model == changed.model
    assert Study.from_text(changed.to_yaml()).digest == changed.digest
    again = changed.with_targets(WANTED)
    assert (again.model.objective, again.targets) == ("total", WANTED)
    assert again.with_objective("total").digest == SMALL.digest
    largest = plan(SMALL, objective="max").expected_error().standard_errors.max()
    assert largest < plan(SMALL).expected_error().standard_errors.max()


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ("{name: one, by: [sex], target: 0}", "target"),
        ("{name: one, by: [sex], target: 5, weight: 2}", "a 'weight' or a 'target', not both"),
        ("{name: one, terms: [{by: [sex], weight: 2}], target: 5}", "not both"),
        ("{name: one, quantiles: {of: age, at: [0.5]}, target: 5}", "not with 'quantiles'"),
    ],
)
def test_a_target_that_cannot_be_one_is_refused_at_its_line(entry: str, what: str) -> None:
    with pytest.raises(StudyError, match=what) as refused:
        Study.from_text(small_text().replace("workload:", f"workload:\n  - {entry}"))
    assert "workload[0]" in str(refused.value)


def test_an_objective_beside_targets_is_refused() -> None:
    with pytest.raises(StudyError, match="objective: tables with a 'target' say"):
        Study.from_text(SMALL.with_targets(WANTED).to_yaml() + "objective: max\n")
    with pytest.raises(StudyError, match="no table 'bothh'") as refused:
        SMALL.with_targets({"bothh": 5})
    assert refused.value.hint == "did you mean 'both'?"
    with pytest.raises(StudyError, match="'largest' is not one of total, per-table, max"):
        SMALL.with_objective("largest")


@pytest.mark.slow
def test_plan_says_what_was_made_small_and_what_targets_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    shell = Shell(tmp_path, monkeypatch, capsys)
    (tmp_path / "study.yaml").write_text(small_text())
    (tmp_path / "targets.yaml").write_text(SMALL.with_targets(WANTED).to_yaml())
    shown = shell("plan", "study.yaml", "--objective", "max").out
    assert "The largest error of any answer is at most" in shown
    assert "largest " in shown[shown.index("error  ") :]
    alike = json.loads(shell("plan", "study.yaml", "--objective", "per-table", "--json").out)
    assert alike["objective"] == "per-table"
    assert alike["error_unit"] / alike["lower_bound_unit"] == pytest.approx(alike["ratio"])
    assert alike["error_unit"] != pytest.approx(alike["rmse_unit"])
    found = json.loads(shell("plan", "targets.yaml", "--json").out)
    asked = [f"--target={name}: {target}" for name, target in WANTED.items()]
    needed = json.loads(shell("plan", "study.yaml", "--json", *asked).out)
    assert found["privacy_needed"]["epsilon"] == pytest.approx(needed["epsilon"], rel=2e-3)
    assert {item["name"]: item.get("target") for item in found["items"]}["both"] == 40
    shown = shell("plan", "targets.yaml").out
    assert "largest error relative to its target" in shown
    words = "the study spends more" if needed["epsilon"] < 1 else "the study spends less"
    assert words in " ".join(shown.split())
    one = " ".join(shell("plan", "study.yaml", "--target", "both: 40").out.split())
    others = [item for item in SMALL.workload.items if item.name != "both"]
    assert "Tables without a target get next to nothing of the budget" in one
    assert all(f"{item.name} (up to " in one for item in others)
    every = [f"--target={item.name}: 40" for item in SMALL.workload.items]
    assert "without a target" not in shell("plan", "study.yaml", *every).out
    compared = json.loads(
        shell("plan", "study.yaml", "--objective", "max", "--compare", "--json").out
    )
    assert {one["ratio"] for one in compared["compare"]} == {None}
    wrong = shell("plan", "study.yaml", "--objective", "max", "--target", "both: 5")
    assert (wrong.code, "not both" in wrong.err) == (3, True)
    assert "made small" in shell("describe", "targets.yaml").out
