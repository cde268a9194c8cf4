"""The budget that a wanted error takes, and errors beside what answers may be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dhdmm.errors import StudyError
from dhdmm.planning.draft import draft, plan
from dhdmm.planning.targets import Targets, guessed_answers, study_for
from dhdmm.strategy.optimise import optimise
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study
from tests.cli.commands import Shell
from tests.round.small import small_text

SMALL = Study.from_text(small_text())


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
