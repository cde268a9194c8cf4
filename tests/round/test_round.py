"""A whole round: real sessions and real cryptography give what an ideal sum would."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dhdmm.errors import DataError, DhdmmError, RoundAborted
from dhdmm.participant.policy import Policy, PolicyReason, PolicyRefusal
from dhdmm.planning.draft import plan
from dhdmm.release.release import Release
from dhdmm.runner import enrol, run_round, split
from dhdmm.strategy.optimise import optimise
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study
from tests.round.parties import ideal_measurement, real_measurement
from tests.round.small import people, small_plan, small_text

BOTH_MODELS = pytest.mark.parametrize("threat_model", ["semi-honest", "malicious"])


@BOTH_MODELS
@pytest.mark.parametrize("silent", [[], [3]])
def test_real_protocol_and_ideal_sum_agree_to_the_bit(threat_model: str, silent: list[int]) -> None:
    enrolment, histograms = enrol(small_plan(threat_model=threat_model)), people(12)
    real = real_measurement(enrolment, histograms, silent)
    assert np.array_equal(real, ideal_measurement(enrolment, histograms, silent))


@pytest.mark.slow
@pytest.mark.parametrize("level", ["sum", "bounded"])
def test_validation_changes_nothing_of_an_honest_round(level: str) -> None:
    """With the same noise the sum is that of a round without validation, to the bit, and the noise
    is of the same variance."""
    histograms, plain, plan = people(12), small_plan(), small_plan(validation=level)
    assert plan.participant_variance == plain.participant_variance
    validated = real_measurement(enrol(plan), histograms, silent=[3])
    assert np.array_equal(validated, real_measurement(enrol(plain), histograms, silent=[3]))


@pytest.mark.slow
@BOTH_MODELS
@pytest.mark.parametrize("workers", [1, 2])
def test_answers_are_within_their_error_bars(threat_model: str, workers: int) -> None:
    """Six standard errors for 30 answers: a false alarm in 2·10⁷ runs, over fresh noise."""
    plan, histograms = small_plan(threat_model=threat_model), people(12)
    outcome = run_round(enrol(plan), histograms, dropout=0.1, workers=workers)
    assert outcome.release.survivors == len(outcome.survivors) == 11
    counted = Histogram.total(histograms[i] for i in outcome.survivors)
    exact = plan.strategy.reconstruct(plan.strategy.measure(counted))
    error = outcome.release.answers - exact
    assert np.all(np.abs(error) < 6 * outcome.release.standard_errors)
    assert np.any(np.abs(error) > 1e-3 * outcome.release.standard_errors)


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{"objective": "max"}, {"targets": {"both": 20.0, "young": 5.0}}])
def test_rounds_by_another_objective_have_the_errors_of_their_plan(asked, tmp_path: Path) -> None:
    """Six standard errors for 30 answers: a false alarm in 2·10⁷ runs, over fresh noise."""
    made, histograms = plan(Study.from_text(small_text()), **asked), people(12)
    release = run_round(enrol(made), histograms).release
    exact = made.strategy.reconstruct(made.strategy.measure(Histogram.total(histograms)))
    assert np.all(np.abs(release.answers - exact) < 6 * release.standard_errors)
    assert np.allclose(release.standard_errors, made.expected_error().standard_errors)
    release.save(tmp_path / "release")
    read = Release.load(tmp_path / "release").plan
    assert read.strategy.objective == made.strategy.objective
    assert read.study.targets == asked.get("targets", {})


def test_exact_answers_are_the_counts() -> None:
    plan, histograms = small_plan(), people(12)
    counted = Histogram.total(histograms)
    dense = np.zeros(plan.study.schema.shape)
    np.add.at(dense, tuple(counted.codes.T), counted.counts)
    exact = plan.strategy.reconstruct(plan.strategy.measure(counted))
    assert np.allclose(exact[:20], dense.ravel())
    assert np.allclose(exact[20:], np.cumsum(dense.sum(axis=1)))


@pytest.mark.fault(2)
@BOTH_MODELS
def test_more_dropouts_than_allowed_abort_the_round(threat_model: str) -> None:
    with pytest.raises(RoundAborted, match="too-few-participants"):
        run_round(enrol(small_plan(threat_model=threat_model)), people(12), dropout=0.5)


def test_a_table_too_many_is_refused_before_anything_runs() -> None:
    with pytest.raises(DataError, match="13 tables for 12 participants"):
        run_round(enrol(small_plan()), people(13))


def test_participants_refuse_a_plan_outside_their_policy() -> None:
    asked = []
    strict = Policy(max_epsilon=0.5, min_corrupt_fraction=0.0)
    with pytest.raises(PolicyRefusal) as refusal:
        run_round(
            enrol(small_plan()), people(12), policy=strict, before_inputs=lambda: asked.append(1)
        )
    assert refusal.value.reason is PolicyReason.BUDGET
    assert not asked


def test_budget_is_asked_for_before_inputs_and_only_then() -> None:
    seen: list[str] = []
    run_round(
        enrol(small_plan()),
        people(12),
        before_inputs=lambda: seen.append("paid"),
        progress=lambda phase: seen.append(phase.value),
    )
    assert seen[seen.index("paid") + 1] == "collecting-inputs"
    assert seen.count("paid") == 1


def test_one_table_is_dealt_out_without_losing_a_record() -> None:
    whole = people(12)[5]
    parts = split(whole, 4)
    assert [part.records for part in parts] == sorted((p.records for p in parts), reverse=True)
    together = Histogram.total(parts)
    assert np.array_equal(together.codes, whole.codes)
    assert np.array_equal(together.counts, whole.counts)


def test_a_release_directory_gives_the_same_answers(tmp_path: Path) -> None:
    release = run_round(enrol(small_plan()), people(12)).release
    release.save(tmp_path / "out")
    again = Release.load(tmp_path / "out")
    assert np.array_equal(again.answers, release.answers)
    assert np.array_equal(again.standard_errors, release.standard_errors)


def test_a_release_whose_strategy_does_not_answer_its_study_is_refused(tmp_path: Path) -> None:
    plan = small_plan()
    totals = Study.from_text(small_text().replace("by: [age, sex]", "total: true"))
    lesser = replace(plan, strategy=optimise(totals.workload).over(plan.study.workload))
    measurement = np.zeros(lesser.strategy.rows, np.int64)
    Release(lesser, bytes(16), 12, measurement).save(tmp_path / "out")
    with pytest.raises(DhdmmError, match="does not answer its study"):
        Release.load(tmp_path / "out")
