"""From a study to a draft that people consent to, and from the draft to the plan of a round.

A draft is what does not depend on who enrols: study, integer strategy, ρ. When enrolment closes
with n participants, everybody computes the same plan from it. The strategy's scale is chosen for
the most participants the study allows, as if all were honest: no honest floor is larger, so whoever
enrols, every participant's noise is large enough.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from dhdmm import formats
from dhdmm.aggregation.method import ParameterError, Parameters
from dhdmm.aggregation.roster import Roster
from dhdmm.errors import PrivacyError
from dhdmm.planning.calibrate import (
    LARGEST_VALIDATION_DELTA,
    SMALLEST_PARTICIPANT_VARIANCE,
    calibrated_variance,
    modulus_above,
    modulus_bound,
    participants_allowed,
    parts_of_one_participant,
    parts_of_one_unit,
    unit_sensitivity_squared,
)
from dhdmm.planning.methods import method_for
from dhdmm.planning.plan import NO_HELPER, NO_ROSTER, REPORTED_DELTA, Plan
from dhdmm.privacy.excess import NoisyRelease, epsilon_promised, rho_for
from dhdmm.privacy.removable import variance_wanted
from dhdmm.privacy.zcdp import Conversion
from dhdmm.strategy.objective import objective_of
from dhdmm.strategy.optimise import optimise, rank
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.models import AggregationModel, PrivacyModel
from dhdmm.study.spec import Study

ALLOWED_EXCESS = 1e-4
"""How much of ε the discreteness of the noise may cost before the scale is raised."""


@dataclass(frozen=True, eq=False)
class Draft:
    """What a data holder reviews and consents to before it is known who else takes part."""

    study: Study
    strategy: Strategy
    rho: Fraction
    helper: bytes = b""
    """The key of the second server, where there is one."""
    made_by: str | None = field(default_factory=formats.this_version)
    """No part of the digest: people consent to questions, not to a version."""

    @classmethod
    def of(cls, plan: Plan) -> Draft:
        """What a plan, or its preview, was made from."""
        return cls(plan.study, plan.strategy, plan.rho, plan.helper, plan.made_by)

    @cached_property
    def digest(self) -> bytes:
        parts = self.study.digest, self.strategy.to_bytes(), str(self.rho).encode()
        return hashlib.sha256(b"dhdmm draft" + b"".join(parts) + self.helper).digest()

    def plan_for(self, roster: Roster) -> Plan:
        """The plan for this roster, which a draft of dhdmm 0.1.0 names as that version did."""
        digest = roster.flat_digest if self.made_by is None else roster.digest
        return self.plan(len(roster), digest)

    def plan(self, participants: int, roster_digest: bytes = NO_ROSTER) -> Plan:
        """The plan for so many participants of this roster: a pure function of its arguments."""
        privacy, aggregation = self.study.privacy, self.study.aggregation
        fewest, most = participants_allowed(aggregation)
        if not fewest <= participants <= most:
            raise PrivacyError(
                f"{participants} participants, the study allows {fewest} to {most}",
                hint="change 'aggregation.participants' in the study",
            )
        parameters = parameters_for(participants, privacy, aggregation)
        sensitivity_squared = unit_sensitivity_squared(self.study, self.strategy)
        variance = calibrated_variance(sensitivity_squared, self.rho, parameters.honest_floor)
        bound = modulus_bound(
            variance,
            participants,
            self.strategy.rows,
            parts_of_one_participant(self.study),
            self.strategy.max_entry,
        )
        made = Plan(
            study=self.study,
            strategy=self.strategy,
            participants=participants,
            roster_digest=roster_digest,
            rho=self.rho,
            parameters=parameters,
            participant_variance=variance,
            modulus=modulus_above(bound),
            helper=self.helper,
            made_by=self.made_by,
        )
        try:
            made.method.round(parameters, made.terms(bytes(16)))
        except ParameterError as error:
            raise PrivacyError(str(error), where="aggregation") from None
        if made.validation_delta > LARGEST_VALIDATION_DELTA:
            raise PrivacyError(
                f"validation would add {made.validation_delta:.2g} to δ with"
                f" ε = {made.promise.epsilon:.3g} and {participants:,} participants;"
                f" {LARGEST_VALIDATION_DELTA:.2g} are covered by the proofs",
                where="aggregation.validation",
                hint="lower the budget, ask fewer participants, or choose 'validation: none'",
            )
        return made


def plan(
    study: Study,
    participants: int | None = None,
    roster: Roster | None = None,
    strategy: Strategy | None = None,
    helper: bytes | None = None,
    *,
    objective: str | None = None,
    targets: Mapping[str, float] | None = None,
) -> Plan:
    """Plan a round of a study: optimise the strategy and calibrate the noise. Touches no data.

    Args:
        study: The study, with its sections `privacy` and `aggregation`.
        participants: How many take part; by default as many as the roster has, or the most that
            the study allows.
        roster: Who takes part. Without a roster the plan is a preview that only `dhdmm.run` and
            `dhdmm.simulate` can use: they make their own roster.
        strategy: A strategy to use instead of the optimised one.
        helper: The Ed25519 key of the second server, for a study with `threat_model: two-servers`.
            Without it the plan is a preview, as without a roster.
        objective: Another objective than the study's: "total", "per-table" or "max".
        targets: The largest standard error that answers of a table may have, by the table's name.
            The plan has the smallest ε that reaches them, in place of the study's.

    Returns:
        The plan.

    Raises:
        StudyError: The study lacks a section that a plan needs, or there is no such objective or
            table.
        PrivacyError: No plan can keep the study's promise.
        StrategyError: The workload cannot be measured.

    Example:
        >>> from dhdmm import Study
        >>> study = Study.from_text('''
        ... study: answers
        ... schema: {answer: {type: category, values: ["yes", "no"]}}
        ... workload: [{name: answers, by: [answer]}]
        ... privacy: {unit: record, rho: 0.125, corrupt_fraction: 0.2}
        ... aggregation: {participants: 10, max_records_per_participant: 100}
        ... ''')
        >>> plan(study)
        <Plan study='answers' participants=10 measurements=2 rho=0.125 preview=True>
    """
    if participants is None:
        participants = len(roster) if roster else participants_allowed(study.aggregation)[1]
    if objective is not None:
        study = study.with_objective(objective)
    if targets:
        from dhdmm.planning.targets import Targets, study_for  # which makes drafts itself

        study = study.with_targets(targets)
        strategy = strategy or optimise(study.workload, objective=objective_of(study))
        study = study_for(study, strategy, Targets(targets), participants)
    drafted = draft(study, strategy, helper)
    return drafted.plan(participants, roster.digest if roster else NO_ROSTER)


def draft(study: Study, strategy: Strategy | None = None, helper: bytes | None = None) -> Draft:
    """Optimise the strategy, choose its scale, and turn (ε, δ) into ρ."""
    privacy, aggregation = study.privacy, study.aggregation
    helped = method_for(aggregation).has_helper
    if helper is not None and not helped:
        raise PrivacyError(
            "a helper for a study with one server", hint="write 'threat_model: two-servers'"
        )
    named = (helper or NO_HELPER) if helped else b""
    if strategy is not None and not strategy.contains(study.workload):
        raise PrivacyError("the strategy does not measure all that the study asks for")
    strategy = strategy or optimise(study.workload, objective=objective_of(study))
    _require_nothing_more(study, strategy)
    most = participants_allowed(aggregation)[1]
    parameters = parameters_for(most, privacy, aggregation)  # refuses what could never be planned
    floor = most  # floors do not grow steadily with n: sparse graphs, from some n on, need a margin
    parts = parts_of_one_unit(study)
    # σ_c ≥ 3 needs Δ′² ≥ 18ρh, and the curve's ρ is at least the promised one
    needed = math.sqrt(2 * SMALLEST_PARTICIPANT_VARIANCE * float(_curve_rho(privacy)) * floor)
    if aggregation.excess_noise == "remove":  # and every part of the noise must be as large
        fewest, honest = parameters.minimum_survivors, parameters.honest_floor
        divided = 2 * float(_curve_rho(privacy) * variance_wanted(most, fewest, honest))
        needed = max(needed, math.sqrt(divided))
    while True:
        strategy = strategy.rescaled(needed * (1 + 1e-9) / parts)
        sensitivity_squared = unit_sensitivity_squared(study, strategy)
        rho = promised_rho(privacy, sensitivity_squared, floor, strategy.rows)
        shortfall = _excess_ratio(privacy, rho, sensitivity_squared, floor, strategy.rows)
        if shortfall <= 1:
            return Draft(study, strategy, rho, named)
        # the excess falls with the square of the scale
        needed = math.sqrt(sensitivity_squared * shortfall)


def _require_nothing_more(study: Study, strategy: Strategy) -> None:
    """Participants refuse a strategy that measures more than is asked, unless the study says so."""
    if study.model.extra_measurements:
        return
    asked = rank(study.workload)
    if asked is None or strategy.rows > asked:
        known = "" if asked is None else f", where {asked:,} would do"
        raise PrivacyError(
            f"the strategy measures {strategy.rows:,} sums{known}: more than the workload asks for",
            hint="if that is acceptable, write 'extra_measurements: true' into the study",
        )


def promised_rho(
    privacy: PrivacyModel, sensitivity_squared: int, honest_floor: int, rows: int
) -> Fraction:
    """ρ as stated, or the largest that keeps the stated (ε, δ) with its certified excess."""
    if privacy.rho is not None:
        return Fraction(repr(privacy.rho))
    return rho_for(*_target(privacy), sensitivity_squared, honest_floor, rows)


def parameters_for(
    participants: int, privacy: PrivacyModel, aggregation: AggregationModel
) -> Parameters:
    """Of the way to add up; refused if none are safe."""
    method, corrupt = method_for(aggregation), privacy.corrupt_fraction
    try:
        chosen: Parameters = method.choose(participants, corrupt, aggregation.max_dropout)
        return chosen
    except ParameterError as error:
        raise PrivacyError(str(error), where="aggregation") from None


def _curve_rho(privacy: PrivacyModel) -> Fraction:
    """What `promised_rho` would be without an excess: never less than it."""
    if privacy.rho is not None:
        return Fraction(repr(privacy.rho))
    return Conversion.GAUSSIAN.rho(*_target(privacy))


def _target(privacy: PrivacyModel) -> tuple[float, float]:
    """(ε, δ) of a study that states no ρ; the model has checked that both are there."""
    assert privacy.epsilon is not None
    assert privacy.delta is not None
    return privacy.epsilon, privacy.delta


def _excess_ratio(
    privacy: PrivacyModel, rho: Fraction, sensitivity_squared: int, floor: int, rows: int
) -> float:
    """How many times the allowed excess the promise exceeds the Gaussian curve by."""
    delta = privacy.delta or REPORTED_DELTA
    variance = calibrated_variance(sensitivity_squared, rho, floor)
    curve = Conversion.GAUSSIAN.epsilon(rho, delta)
    promised = epsilon_promised([NoisyRelease(sensitivity_squared, variance, floor, rows)], delta)
    return (promised / curve - 1) / ALLOWED_EXCESS
