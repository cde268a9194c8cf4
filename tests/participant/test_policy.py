"""Hostile plans: each is refused for its own reason, before anything is paid or said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
import pytest

from dhdmm.aggregation.modulus import Modulus
from dhdmm.errors import PolicyReason, PolicyRefusal, PrivacyError
from dhdmm.participant import policy
from dhdmm.planning import draft as drafts
from dhdmm.planning.draft import plan as make_plan
from dhdmm.planning.plan import NO_ROSTER
from dhdmm.privacy.chain import Kind
from dhdmm.privacy.protection import Protection
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.strategy import Strategy
from tests.participant.data_holder import POLICY, ROSTER, DataHolder
from tests.planning.studies import planned, replanned, study, with_triangle
from tests.protocol.network import roster_of


@pytest.fixture
def holder(tmp_path: Path) -> DataHolder:
    return DataHolder.with_budget(tmp_path / "ledger")


def refusal(holder: DataHolder, encoded: bytes, **expected: bytes) -> PolicyRefusal:
    with pytest.raises(PolicyRefusal) as caught:
        holder.take_part(encoded, **expected)
    assert holder.untouched
    return caught.value


def fields() -> dict[str, Any]:
    return cbor2.loads(planned().to_bytes())


def encoded(**changes: Any) -> bytes:
    """The agreed plan with some encoded fields changed, canonically encoded."""
    return cbor2.dumps(fields() | changes, canonical=True)


def changed(**changes: Any) -> bytes:
    return replace(planned(), **changes).to_bytes()


def graph(**changes: int) -> bytes:
    return changed(parameters=replace(planned().parameters, **changes))


def triangle(T: np.ndarray) -> bytes:
    return changed(strategy=with_triangle(planned().strategy, T))


def at_rho(factor: Fraction) -> bytes:
    """Consistent noise, for a budget that nobody agreed to."""
    plan = planned()
    return changed(rho=plan.rho * factor, participant_variance=plan.participant_variance / factor)


def zero_strategy() -> Strategy:
    """A′ = 0, written with a vector of zeros and a T that is the identity."""
    strategy = planned().strategy
    (axis,), (block,) = strategy.axes, strategy.blocks
    (side,) = block.sides
    orbits = len(axis.sizes)
    zero = replace(axis, extra=np.zeros((1, orbits), np.int64))
    basis = replace(side.basis, ids=np.full_like(side.basis.ids, 1 + orbits))
    sides = (replace(side, basis=basis, T=np.eye(orbits, dtype=np.int64)),)
    return replace(strategy, axes=(zero,), blocks=(replace(block, sides=sides),))


WINDOWS = {"of": "value", "kind": "width", "width": 4}
PAIRS = WINDOWS | {"width": 2}
HUGE = np.diag(np.full(5, np.iinfo(np.int64).min))

BYTES: dict[str, tuple[Callable[[], bytes], PolicyReason]] = {
    "empty": (lambda: b"", PolicyReason.UNREADABLE),
    "truncated": (lambda: planned().to_bytes()[:-1], PolicyReason.UNREADABLE),
    "trailing byte": (lambda: planned().to_bytes() + b"\0", PolicyReason.NOT_CANONICAL),
    "second plan behind it": (lambda: 2 * planned().to_bytes(), PolicyReason.NOT_CANONICAL),
    "not a map": (lambda: cbor2.dumps([fields()]), PolicyReason.UNREADABLE),
    "other version": (lambda: encoded(version=3), PolicyReason.UNREADABLE),
    "format 1 with a field of format 2": (lambda: encoded(version=1), PolicyReason.UNREADABLE),
    "maker with a line of its own": (lambda: encoded(dhdmm="0.2\n"), PolicyReason.UNREADABLE),
    "unknown field": (lambda: encoded(extra=1), PolicyReason.UNREADABLE),
    "keys in another order": (
        lambda: cbor2.dumps(dict(reversed(fields().items()))),
        PolicyReason.NOT_CANONICAL,
    ),
    "indefinite map": (
        lambda: b"\xbf" + planned().to_bytes()[1:] + b"\xff",
        PolicyReason.NOT_CANONICAL,
    ),
    "fraction not in lowest terms": (
        lambda: encoded(rho=[2 * part for part in fields()["rho"]]),
        PolicyReason.NOT_CANONICAL,
    ),
    "NaN budget": (lambda: encoded(rho=[float("nan"), 1]), PolicyReason.UNREADABLE),
    "infinite variance": (lambda: encoded(variance=float("inf")), PolicyReason.UNREADABLE),
    "float variance": (lambda: encoded(variance=[100.0, 1]), PolicyReason.UNREADABLE),
    "zero denominator": (lambda: encoded(variance=[1, 0]), PolicyReason.UNREADABLE),
    "negative budget": (lambda: encoded(rho=[-1, 10]), PolicyReason.UNREADABLE),
    "float participants": (lambda: encoded(participants=12.0), PolicyReason.UNREADABLE),
    "boolean threshold": (lambda: encoded(threshold=True), PolicyReason.UNREADABLE),
    "participants at 2^63": (lambda: encoded(participants=2**63), PolicyReason.UNREADABLE),
    "composite modulus": (lambda: encoded(modulus=15), PolicyReason.UNREADABLE),
    "prime modulus": (lambda: encoded(modulus=8191), PolicyReason.UNREADABLE),
    "short roster digest": (lambda: encoded(roster=bytes(31)), PolicyReason.UNREADABLE),
    "study that is none": (lambda: encoded(study=b"{}"), PolicyReason.UNUSABLE_STUDY),
    "study with NaN": (lambda: encoded(study=b'{"study":NaN}'), PolicyReason.UNUSABLE_STUDY),
    "study without privacy": (
        lambda: changed(study=replace(study(), model=_without_privacy())),
        PolicyReason.UNUSABLE_STUDY,
    ),
    "strategy that is none": (lambda: encoded(strategy=b"\x80"), PolicyReason.UNUSABLE_STRATEGY),
    "strategy of floats": (
        lambda: encoded(strategy=cbor2.dumps([b"dhdmm strategy", 1, [], [0.5]])),
        PolicyReason.UNUSABLE_STRATEGY,
    ),
    "entries at 2^63": (lambda: triangle(HUGE), PolicyReason.UNUSABLE_STRATEGY),
    "zero columns": (lambda: changed(strategy=zero_strategy()), PolicyReason.UNUSABLE_STRATEGY),
    "singular T": (
        lambda: triangle(np.zeros((5, 5), np.int64)),
        PolicyReason.UNUSABLE_STRATEGY,
    ),
    "strategy for another schema": (
        lambda: changed(study=study(schema={"value": {"type": "integer", "range": [0, 5]}})),
        PolicyReason.UNUSABLE_STRATEGY,
    ),
}


def _without_privacy() -> Any:
    return study().model.model_copy(update={"privacy": None})


@pytest.mark.fault(28)
@pytest.mark.parametrize("case", BYTES)
def test_refuses_bytes_that_are_no_plan(holder, case):
    make, reason = BYTES[case]
    assert refusal(holder, make()).reason is reason


NUMBERS: dict[str, tuple[Callable[[], bytes], PolicyReason]] = {
    "half the noise": (
        lambda: changed(participant_variance=planned().participant_variance / 2),
        PolicyReason.NOISE_TOO_SMALL,
    ),
    "noise without room for the sum": (
        lambda: changed(participant_variance=_exact_variance() * (1 - Fraction(1, 2**60))),
        PolicyReason.NOISE_TOO_SMALL,
    ),
    "σ below three": (
        lambda: changed(participant_variance=Fraction(899, 100)),
        PolicyReason.NOISE_TOO_SMALL,
    ),
    "column longer than the noise was made for": (
        lambda: triangle(np.diag([1, 1, 1, 1, 2000])),
        PolicyReason.NOISE_TOO_SMALL,
    ),
    "noise that cannot be drawn": (
        lambda: changed(participant_variance=Fraction(10**18 + 1)),
        PolicyReason.NOISE_TOO_LARGE,
    ),
    "price above the cost": (lambda: changed(rho=2 * planned().rho), PolicyReason.OVERCHARGED),
    "price a millionth above the cost": (
        lambda: changed(rho=planned().rho * (1 + Fraction(1, 10**6))),
        PolicyReason.OVERCHARGED,
    ),
    "price that empties the ledger": (lambda: changed(rho=Fraction(1)), PolicyReason.OVERCHARGED),
    "price beyond all bounds": (lambda: changed(rho=Fraction(2**200)), PolicyReason.BUDGET),
    "more than the study promises": (lambda: at_rho(Fraction(101, 100)), PolicyReason.PROMISE),
    "threshold one": (lambda: graph(threshold=1), PolicyReason.GRAPH),
    "threshold zero": (lambda: graph(threshold=0), PolicyReason.GRAPH),
    "nobody corrupt": (lambda: graph(corrupt=0), PolicyReason.GRAPH),
    "more survivors than there can be": (lambda: graph(minimum_survivors=12), PolicyReason.GRAPH),
    "fewer survivors": (lambda: graph(minimum_survivors=4), PolicyReason.GRAPH),
    "sparse graph": (lambda: graph(degree=4, threshold=3, complete=False), PolicyReason.GRAPH),
    "degree beyond the roster": (lambda: graph(degree=2**40, complete=False), PolicyReason.GRAPH),
    "margin beyond the survivors": (lambda: graph(margin=2**40), PolicyReason.GRAPH),
    "modulus too small": (
        lambda: changed(modulus=Modulus(planned().modulus.value // 2)),
        PolicyReason.MODULUS,
    ),
    "modulus of one bit": (lambda: changed(modulus=Modulus(2)), PolicyReason.MODULUS),
    "modulus twice as large as needed": (
        lambda: changed(modulus=Modulus(planned().modulus.value * 2)),
        PolicyReason.MODULUS,
    ),
    "modulus of 62 bits": (lambda: changed(modulus=Modulus(2**62)), PolicyReason.MODULUS),
    "all five values where one total is asked": (
        lambda: changed(study=study(workload=[{"name": "all", "total": True}])),
        PolicyReason.STRATEGY,
    ),
    "all five values where windows of four are asked": (
        lambda: changed(study=study(workload=[{"name": "wide", "ranges": WINDOWS}])),
        PolicyReason.STRATEGY,
    ),
    "one row more than the four that windows of two need": (
        lambda: changed(study=study(workload=[{"name": "pairs", "ranges": PAIRS}])),
        PolicyReason.STRATEGY,
    ),
    "as many rows as queries, of which some are repeated": (
        lambda: changed(study=study(workload=_windows_thrice())),
        PolicyReason.STRATEGY,
    ),
    "one total where all five values are asked": (
        lambda: with_strategy_of([{"name": "all", "total": True}]),
        PolicyReason.STRATEGY,
    ),
    "persons told apart by visits": (lambda: persons("visit"), PolicyReason.UNIT),
    "persons at fewer participants than may be": (
        lambda: persons("patient", max_participants=1),
        PolicyReason.UNIT,
    ),
    "preview": (lambda: changed(roster_digest=NO_ROSTER), PolicyReason.ROSTER_MISMATCH),
    "another roster": (
        lambda: changed(roster_digest=bytes([7]) * 32),
        PolicyReason.ROSTER_MISMATCH,
    ),
    "more participants than the roster": (
        lambda: changed(participants=2**62),
        PolicyReason.ROSTER_MISMATCH,
    ),
    "participants outside the study": (
        lambda: changed(study=study(aggregation={"participants": 13})),
        PolicyReason.WRONG_COUNT,
    ),
    "semi-honest": (
        lambda: replanned(aggregation={"threat_model": "semi-honest"}).to_bytes(),
        PolicyReason.THREAT_MODEL,
    ),
    "nobody may conspire": (
        lambda: replanned(privacy={"corrupt_fraction": 0.04}).to_bytes(),
        PolicyReason.CORRUPT_FRACTION,
    ),
    "large budget": (lambda: replanned(privacy={"epsilon": 1.01}).to_bytes(), PolicyReason.BUDGET),
    "large budget as ρ": (
        lambda: replanned(privacy={"epsilon": None, "rho": 0.5}).to_bytes(),
        PolicyReason.BUDGET,
    ),
    "small ε at a large δ": (
        lambda: replanned(privacy={"epsilon": 0.9, "delta": 1e-3}).to_bytes(),
        PolicyReason.BUDGET,
    ),
}


def _windows_thrice() -> list[Any]:
    return [{"name": name, "ranges": WINDOWS} for name in ("once", "again", "thrice")]


def with_strategy_of(workload: list[Any]) -> bytes:
    """The agreed study, and a sound plan for other questions."""
    other = make_plan(study(workload=workload), roster=ROSTER)
    return replace(other, study=study()).to_bytes()


def persons(column: str, **bounds: int) -> bytes:
    unit = {"column": column, "max_records": 1, "max_participants": 2} | bounds
    return make_plan(study({"unit": {"person": unit}}), roster=ROSTER).to_bytes()


def _exact_variance() -> Fraction:
    plan = planned()
    return Fraction(plan.sensitivity_squared) / (2 * plan.rho * plan.honest_floor)


@pytest.mark.fault(17, 29, 30)
@pytest.mark.parametrize("case", NUMBERS)
def test_refuses_numbers_that_do_not_hold(holder, case):
    make, reason = NUMBERS[case]
    assert refusal(holder, make()).reason is reason


LIMITS: dict[str, tuple[dict[str, Any], PolicyReason]] = {
    "unpinned roster": ({"rosters": []}, PolicyReason.UNPINNED_ROSTER),
    "another pinned roster": ({"rosters": ["ab" * 32]}, PolicyReason.UNPINNED_ROSTER),
    "study not agreed to": ({"studies": ["ab" * 32]}, PolicyReason.WRONG_STUDY),
    "unit not allowed": ({"units": ["person", "participant"]}, PolicyReason.UNIT),
    "rows": ({"max_rows": 4}, PolicyReason.TOO_LARGE),
    "bytes": ({"max_plan_bytes": 100}, PolicyReason.TOO_LARGE),
    "company": ({"min_participants": 13}, PolicyReason.TOO_FEW_PARTICIPANTS),
    "honest floor": ({"max_honest_floor": 9}, PolicyReason.HONEST_FLOOR),
    "corrupt fraction": ({"min_corrupt_fraction": 0.11}, PolicyReason.CORRUPT_FRACTION),
    "ε": ({"max_epsilon": 0.99}, PolicyReason.BUDGET),
    "δ": ({"max_delta": 1e-6}, PolicyReason.BUDGET),
}


@pytest.mark.fault(17, 19, 28)
@pytest.mark.parametrize("case", LIMITS)
def test_refuses_what_its_own_limits_exclude(holder, case):
    limits, reason = LIMITS[case]
    holder.policy = POLICY.model_copy(update=limits)
    assert refusal(holder, planned().to_bytes()).reason is reason


def test_refuses_another_plan_than_the_expected_one(holder):
    refused = refusal(holder, planned().to_bytes(), expected_digest=bytes(32))
    assert refused.reason is PolicyReason.WRONG_DIGEST


@pytest.mark.fault(19)
def test_refuses_a_plan_for_another_roster(holder):
    holder.roster = roster_of(11)
    assert refusal(holder, planned().to_bytes()).reason is PolicyReason.ROSTER_MISMATCH


@pytest.mark.fault(15, 17, 29, 30)
@pytest.mark.parametrize(
    ("case", "check"),
    [
        ("threshold one", "_graph"),
        ("modulus too small", "_modulus"),
        ("price above the cost", "_budget"),
        ("participants outside the study", "_company"),
        ("semi-honest", "_threat_model"),
        ("modulus of 62 bits", "_modulus"),
        ("all five values where windows of four are asked", "_measured"),
        ("one row more than the four that windows of two need", "_measured"),
        ("one total where all five values are asked", "_measured"),
        ("persons told apart by visits", "_unit"),
    ],
)
def test_without_its_check_the_hostile_plan_would_pass(monkeypatch, case, check):
    """The weakened participant: what stops each plan is the check that names it."""
    kept = tuple(each for each in policy._CHECKS if each.__name__ != check)
    monkeypatch.setattr(policy, "_CHECKS", kept)
    make, _ = NUMBERS[case]
    assert policy.review(make(), POLICY, ROSTER).plan


def test_refuses_validation_that_adds_more_to_delta_than_the_proofs_cover(monkeypatch):
    """ε = 30, as a coordinator would plan it that does not ask what validation adds."""
    monkeypatch.setattr(drafts, "LARGEST_VALIDATION_DELTA", 1.0)
    generous = study({"epsilon": 30.0}, {"validation": "sum"})
    encoded = make_plan(generous, roster=ROSTER).to_bytes()
    lenient = POLICY.model_copy(update={"max_epsilon": 30.0})
    with pytest.raises(PolicyRefusal, match="validation adds"):
        policy.review(encoded, lenient, ROSTER)
    monkeypatch.setattr(policy, "LARGEST_VALIDATION_DELTA", 1.0)
    assert policy.review(encoded, lenient, ROSTER).plan


def test_refuses_a_helper_that_it_does_not_know(monkeypatch):
    """One party may run both servers: the coordinator's word on the second does not count."""
    helper = bytes([7]) * 32
    encoded = make_plan(
        study({}, {"threat_model": "two-servers"}), roster=ROSTER, helper=helper
    ).to_bytes()
    known = {"threat_models": ["two-servers"], "helpers": {"B": helper.hex()}}
    assert policy.review(encoded, POLICY.model_copy(update=known), ROSTER).plan
    for helpers in ({}, {"B": "00" * 32}):
        limits = POLICY.model_copy(update=known | {"helpers": helpers})
        with pytest.raises(PolicyRefusal) as refused:
            policy.review(encoded, limits, ROSTER)
        assert refused.value.reason is PolicyReason.UNKNOWN_HELPER
    kept = tuple(each for each in policy._CHECKS if each is not policy._helper)
    monkeypatch.setattr(policy, "_CHECKS", kept)
    assert policy.review(encoded, limits, ROSTER).plan


def test_every_reason_has_a_case():
    shown = {reason for cases in (BYTES, NUMBERS, LIMITS) for _, reason in cases.values()}
    elsewhere = {PolicyReason.WRONG_DIGEST, PolicyReason.UNKNOWN_HELPER}
    assert shown | elsewhere == set(PolicyReason)


def test_agrees_with_the_honest_plan(holder):
    reviewed = holder.take_part(planned().to_bytes(), planned().digest)
    assert reviewed.plan.digest == planned().digest
    assert reviewed.warnings == ()
    assert holder.ledger.state().amounts(Kind.RESERVE) == [
        (Protection.of(planned().study), planned().rho)
    ]
    assert len(holder.sent) == 1


def test_agrees_with_persons_told_apart_as_the_policy_says(holder):
    assert holder.take_part(persons("patient")).plan.study.privacy.unit.person.column == "patient"


def test_a_study_may_allow_that_more_is_measured_than_asked(holder):
    """Windows of four values are asked for, and all five values are measured."""
    asked = study(workload=[{"name": "wide", "ranges": WINDOWS}])
    with pytest.raises(PrivacyError, match="measures 5 sums, where 2 would do"):
        make_plan(asked, strategy=planned().strategy)
    allowed = replace(asked, model=asked.model.model_copy(update={"extra_measurements": True}))
    plan = make_plan(allowed, roster=ROSTER, strategy=planned().strategy)
    (warning,) = holder.take_part(plan.to_bytes()).warnings
    assert "more than it asks for: 5 sums" in warning


def test_a_strategy_that_does_not_answer_the_study_is_not_planned():
    lesser = optimise(study(workload=[{"name": "w", "ranges": WINDOWS}]).workload)
    with pytest.raises(PrivacyError, match="does not measure all"):
        make_plan(study(), strategy=lesser)


def test_a_refusal_says_why(holder):
    refused = refusal(holder, graph(threshold=1))
    assert str(refused).startswith("policy: graph-parameters: degree 11, threshold 1 violate E4")


def test_a_preview_is_reviewed_like_a_plan_but_for_its_roster() -> None:
    preview = changed(roster_digest=NO_ROSTER)
    assert policy.review_preview(preview, POLICY).plan.to_bytes() == preview
    with pytest.raises(PolicyRefusal) as caught:
        policy.review(preview, POLICY, ROSTER)
    assert caught.value.reason is PolicyReason.ROSTER_MISMATCH
    frugal = POLICY.model_copy(update={"max_epsilon": 0.01})
    with pytest.raises(PolicyRefusal) as caught:
        policy.review_preview(preview, frugal)
    assert caught.value.reason is PolicyReason.BUDGET
