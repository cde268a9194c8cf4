"""A plan is a pure function with one encoding; what it promises is kept and not wasted."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path

import cbor2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhdmm.errors import PlanError, PlanFault, PrivacyError
from dhdmm.planning.calibrate import (
    SMALLEST_PARTICIPANT_VARIANCE,
    modulus_above,
    modulus_bound,
    noise_reach,
)
from dhdmm.planning.draft import draft
from dhdmm.planning.draft import plan as make_plan
from dhdmm.planning.plan import NO_ROSTER, Plan
from dhdmm.privacy.zcdp import release_rho
from dhdmm.study.spec import Study
from tests.amounts import examples
from tests.planning.studies import planned, replanned, study, with_triangle
from tests.protocol.network import roster_of

ROOT = Path(__file__).parents[2]
PRESETS = sorted(ROOT.glob("examples/*/*.yaml"))
QUICK = ["adult-5/study.yaml", "ranges/width.yaml"]


# ---- a pure function ----------------------------------------------------------------------------


def test_two_computations_give_the_same_digest():
    again = make_plan(study(), roster=roster_of(12))
    assert again is not planned()
    assert again.digest == planned().digest


@pytest.mark.slow
def test_another_process_computes_the_same_digest(tmp_path):
    """With another hash seed, so that no order of a set or dictionary shows."""
    path = tmp_path / "study.yaml"
    path.write_text(study().to_yaml(), encoding="utf-8")
    program = (
        "import sys; from dhdmm import Study, plan\n"
        "from tests.protocol.network import roster_of\n"
        "print(plan(Study.load(sys.argv[1]), roster=roster_of(12)).digest.hex())"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": str(ROOT)},
    )
    assert shown.stdout.strip() == planned().digest.hex()


def test_a_roster_of_others_gives_another_digest():
    strategy = planned().strategy
    other = draft(study(), strategy).plan(12, roster_digest=bytes([1]) * 32)
    assert other.digest != planned().digest


def test_a_draft_is_the_same_however_many_enrol():
    enrolled = study(aggregation={"participants": {"min": 10, "max": 30}})
    drafted = draft(enrolled, planned().strategy)
    plans = [drafted.plan(n) for n in (10, 20, 30)]
    assert drafted.digest == draft(enrolled, planned().strategy).digest
    assert len({plan.strategy.to_bytes() for plan in plans}) == 1
    assert len({plan.rho for plan in plans}) == 1


@pytest.mark.parametrize("count", [9, 31])
def test_refuses_participants_outside_the_studys_range(count):
    enrolled = study(aggregation={"participants": {"min": 10, "max": 30}})
    with pytest.raises(PrivacyError, match=f"{count} participants, the study allows 10 to 30"):
        draft(enrolled, planned().strategy).plan(count)


def test_a_preview_cannot_run():
    preview = make_plan(study(), strategy=planned().strategy)
    assert preview.roster_digest == NO_ROSTER
    with pytest.raises(PrivacyError, match="preview"):
        preview.round(bytes(16))


def test_refuses_a_graph_that_cannot_be_safe():
    with pytest.raises(PrivacyError, match="feasible with"):
        replanned(privacy={"corrupt_fraction": 0.4}, aggregation={"max_dropout": 0.4})


# ---- one encoding -------------------------------------------------------------------------------


def test_the_encoding_reads_back_as_the_same_plan():
    again = Plan.from_bytes(planned().to_bytes())
    assert again.to_bytes() == planned().to_bytes()
    assert again.digest == planned().digest
    for field in fields(Plan):
        if field.name not in ("study", "strategy"):
            assert getattr(again, field.name) == getattr(planned(), field.name)
    assert again.study.digest == planned().study.digest
    assert again.sensitivity_squared == planned().sensitivity_squared
    assert again.promise == planned().promise


def test_every_encoded_field_counts_for_the_digest():
    encoded = cbor2.loads(planned().to_bytes())
    assert set(encoded) == {
        *("version", "study", "strategy", "participants", "roster", "rho", "variance", "modulus"),
        *("degree", "threshold", "minimum_survivors", "corrupt", "margin", "dhdmm"),
    }
    assert not any(isinstance(value, float) for value in encoded.values())


def with_two_servers(**aggregation: object) -> Plan:
    changed = study(aggregation={"threat_model": "two-servers", **aggregation})
    return make_plan(changed, roster=roster_of(12), helper=bytes([7]) * 32)


def test_with_two_servers_a_plan_says_how_many_bits_are_sent_of_each_sum():
    """As many as tell all sums apart that a row can have, with noise."""
    plan = with_two_servers(max_records_per_participant=20)
    A, found = plan.strategy.to_sparse().toarray(), cbor2.loads(plan.to_bytes())["sum_bits"]
    reach = noise_reach(plan.participant_variance, 12, plan.strategy.rows)
    bits = np.repeat(found[1::2], found[::2])
    records = 12 * plan.study.aggregation.max_records_per_participant
    lows, highs = np.minimum(A.min(axis=1), 0) * records, np.maximum(A.max(axis=1), 0) * records
    assert bits.tolist() == [int(x).bit_length() for x in highs - lows + 2 * reach]
    assert max(bits) <= plan.modulus.bits
    assert plan.input_bytes < replace_bits(plan).input_bytes
    assert Plan.from_bytes(plan.to_bytes()).sum_ranges == plan.sum_ranges


def replace_bits(plan: Plan) -> Plan:
    """The plan as if all sums took the bits of the modulus."""
    whole = replace(plan)
    vars(whole)["sum_ranges"] = ()
    return whole


def test_other_bits_than_sums_take_are_no_plan(monkeypatch):
    encoded = cbor2.loads(with_two_servers().to_bytes())
    (rows, bits, *rest) = encoded["sum_bits"]
    wrong = {"sum_bits": [rows, bits - 1, *rest]}, {"sum_bits": []}, {"sum_bits": [True]}
    for change in (*wrong, {"modulus": encoded["modulus"] // 4}):
        with pytest.raises(PlanError) as error:
            Plan.from_bytes(cbor2.dumps(encoded | change, canonical=True))
        assert error.value.fault is PlanFault.FIELD
    del encoded["sum_bits"]
    with pytest.raises(PlanError, match="'sum_bits' is missing"):
        Plan.from_bytes(cbor2.dumps(encoded, canonical=True))


def test_validated_sums_take_the_bits_of_the_modulus():
    """A short vector of a liar need not keep to the range of any row."""
    plan = with_two_servers(validation="sum")
    assert "sum_bits" not in cbor2.loads(plan.to_bytes())
    assert Plan.from_bytes(plan.to_bytes()).sum_ranges == ()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda data: b"", PlanFault.NOT_CBOR),
        (lambda data: data[:-1], PlanFault.NOT_CBOR),
        (lambda data: data + b"\0", PlanFault.NOT_CANONICAL),
        (lambda data: cbor2.dumps(cbor2.loads(data) | {"version": 3}), PlanFault.VERSION),
        (lambda data: cbor2.dumps(cbor2.loads(data) | {"version": 1}), PlanFault.FIELD),
        (lambda data: cbor2.dumps(cbor2.loads(data) | {"dhdmm": "a\nb"}), PlanFault.FIELD),
        (lambda data: cbor2.dumps(cbor2.loads(data) | {"rho": 0.5}), PlanFault.FIELD),
    ],
)
def test_other_bytes_are_no_plan(change, fault):
    with pytest.raises(PlanError) as error:
        Plan.from_bytes(change(planned().to_bytes()))
    assert error.value.fault is fault


# ---- what is promised ---------------------------------------------------------------------------


@settings(max_examples=examples(8, 100))
@given(
    epsilon=st.floats(0.05, 8),
    log_delta=st.floats(-11, -4),
    participants=st.integers(12, 60),
    unit=st.sampled_from(["record", "participant"]),
    relation=st.sampled_from(["zero-out", "replace"]),
)
def test_promises_what_is_stated_and_wastes_next_to_nothing(
    epsilon, log_delta, participants, unit, relation
):
    delta = 10.0**log_delta
    plan = replanned(
        participants,
        privacy={"epsilon": epsilon, "delta": delta, "unit": unit, "relation": relation},
        aggregation={"participants": participants},
    )
    assert plan.promise.delta == delta
    assert epsilon * (1 - 1e-3) <= plan.promise.epsilon <= epsilon
    assert _cost(plan) <= plan.rho
    assert plan.participant_variance >= SMALLEST_PARTICIPANT_VARIANCE
    assert plan.modulus.value > plan.modulus_needed


def _cost(plan: Plan) -> Fraction:
    return release_rho(
        plan.sensitivity_squared,
        plan.participant_variance,
        plan.honest_floor,
        plan.strategy.rows,
    )


def test_a_stated_rho_is_the_plans_rho():
    plan = replanned(privacy={"epsilon": None, "rho": 0.1})
    assert plan.rho == Fraction(1, 10)
    assert _cost(plan) <= plan.rho


@pytest.mark.parametrize("participants", [12, 1000, 20_000])
def test_many_participants_or_small_entries_scale_the_strategy_up(participants):
    """With A′ = I, each of 20,000 participants would have σ = 0.02."""
    asked = study(privacy={"epsilon": None, "rho": 0.1}, aggregation={"participants": participants})
    unit = with_triangle(planned().strategy, np.eye(5, dtype=np.int64))
    plan = make_plan(asked, strategy=unit)
    assert plan.participant_variance >= SMALLEST_PARTICIPANT_VARIANCE
    scale = plan.strategy.to_sparse().toarray()[0, 0]
    assert (plan.strategy.to_sparse().toarray() == scale * np.eye(5)).all()


def test_a_floor_that_is_largest_before_the_end_of_the_range_still_has_enough_noise():
    """From 201 participants on graphs are sparse and need a margin: h(200) = 180, h(205) = 176."""
    asked = study(
        privacy={"epsilon": None, "rho": 4.0, "corrupt_fraction": 0.05},
        aggregation={"participants": {"min": 200, "max": 205}, "max_dropout": 0.05},
    )
    unit = with_triangle(planned().strategy, np.eye(5, dtype=np.int64))
    drafted = draft(asked, unit)
    floors = [drafted.plan(n).honest_floor for n in (200, 205)]
    assert floors[0] > floors[1]
    assert drafted.plan(200).participant_variance >= SMALLEST_PARTICIPANT_VARIANCE


def test_noise_beyond_the_sampler_is_refused():
    strategy = with_triangle(planned().strategy, np.eye(5, dtype=np.int64) * 2**30)
    with pytest.raises(PrivacyError, match="beyond the sampler"):
        make_plan(study(privacy={"epsilon": None, "rho": 1e-3}), strategy=strategy)


# ---- modulus ------------------------------------------------------------------------------------


@given(st.integers(3, 2**62))
def test_the_modulus_is_the_smallest_power_of_two_above_the_bound(bound):
    assert bound < modulus_above(bound).value <= 2 * bound


@pytest.mark.fault(29)
def test_refuses_a_modulus_beyond_63_bits():
    with pytest.raises(PrivacyError, match="max_records_per_participant"):
        modulus_above(2**63)


@pytest.mark.fault(29)
def test_the_bound_holds_truth_and_noise():
    """n·B·max|a′| on either side, and noise that exceeds its reach with probability 2⁻⁶⁴."""
    variance = Fraction(100)
    reach = noise_reach(variance, participants=50, rows=7)
    expected = np.sqrt(50 * 100 * 2 * np.log(2 * 7 * 2.0**64))
    assert expected <= reach <= expected + 2
    assert modulus_bound(variance, 50, 7, 3, 11) == 2 * 50 * 3 * 11 + 2 * reach + 1


# ---- expected error -----------------------------------------------------------------------------


def test_expected_error_is_that_of_least_squares():
    """√(survivors · σ_c² · diag W(A′ᵀA′)⁺Wᵀ), written out with dense matrices."""
    plan = planned()
    A, W = plan.strategy.to_sparse().toarray(), np.tril(np.ones((5, 5)))
    covariance = np.linalg.pinv(A.T @ A)
    for survivors in (None, 10):
        variance = float((survivors or 12) * plan.participant_variance)
        expected = np.sqrt(variance * np.diag(W @ covariance @ W.T))
        shown = plan.expected_error(survivors)
        np.testing.assert_allclose(shown.standard_errors, expected, rtol=1e-9)
        assert shown.rmse == pytest.approx(np.sqrt(np.mean(expected**2)))
        assert shown.by_item()["prefixes"].tolist() == shown.standard_errors.tolist()


# ---- presets ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_presets_plan(name):
    """Those whose strategy is found in a second; the soak has all."""
    _assert_plans(Study.load(ROOT / "examples" / name))


@pytest.mark.soak
@pytest.mark.parametrize("path", PRESETS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_preset_plans(path):
    _assert_plans(Study.load(path))


def _assert_plans(loaded: Study) -> None:
    plan = make_plan(loaded)
    stated = plan.study.privacy.epsilon
    assert stated * (1 - 1e-3) <= plan.promise.epsilon <= stated
    assert _cost(plan) <= plan.rho
    assert Plan.from_bytes(plan.to_bytes()).digest == plan.digest
    assert len(plan.expected_error().standard_errors) == loaded.workload.queries
