"""What a participant checks before it sends anything, from the encoded plan alone.

A plan is somebody else's word. Every number in it is recomputed here from the study and strategy it
carries, and compared with this participant's own limits. The first thing that does not hold is
the reason for staying out; nothing is debited and nothing is sent. Reasons: docs/policy.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from dhdmm.errors import StrategyError, StudyError
from dhdmm.participant.limits import Policy, PolicyRefusal, Reason
from dhdmm.planning.calibrate import (
    HEADROOM,
    SMALLEST_PARTICIPANT_VARIANCE,
    participants_allowed,
)
from dhdmm.planning.plan import NO_ROSTER, Plan, PlanError, PlanFault
from dhdmm.privacy.excess import epsilon_promised
from dhdmm.privacy.gaussian import LARGEST_VARIANCE
from dhdmm.privacy.zcdp import release_rho
from dhdmm.secagg import parameters
from dhdmm.secagg.parameters import ParameterError, ThreatModel
from dhdmm.secagg.round import Roster
from dhdmm.strategy.optimise import rank
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.workload import Workload

__all__ = ["Policy", "PolicyRefusal", "Reason", "Review", "review", "review_preview"]

LARGEST_ROUND_RHO = 1000
"""A round beyond it promises nothing, and its ε cannot be computed accurately."""


@dataclass(frozen=True)
class Review:
    """A plan that this participant is willing to follow."""

    plan: Plan

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is safe but strange, for people to judge; found when asked for."""
        return tuple(_warnings(self.plan.strategy, self.plan.study.workload))


def review(
    encoded: bytes, policy: Policy, roster: Roster, *, expected_digest: bytes | None = None
) -> Review:
    """The plan, if every check holds; otherwise `PolicyRefusal` with the first reason."""
    plan = _read(encoded, policy)
    if expected_digest is not None and plan.digest != expected_digest:
        raise PolicyRefusal(Reason.WRONG_DIGEST, "this is not the plan with the expected digest")
    for check in _CHECKS:
        check(plan, policy, roster)
    return Review(plan)


def review_preview(encoded: bytes, policy: Policy) -> Review:
    """The same before anybody knows who takes part: every check but that of the roster."""
    plan, nobody = _read(encoded, policy), Roster((), ())
    for check in _CHECKS:
        if check is not _roster:
            check(plan, policy, nobody)
    return Review(plan)


def _read(encoded: bytes, policy: Policy) -> Plan:
    if len(encoded) > policy.max_plan_bytes:
        raise PolicyRefusal(Reason.TOO_LARGE, f"the plan has {len(encoded):,} bytes")
    try:
        return Plan.from_bytes(encoded)
    except PlanError as error:
        canonical = error.fault is not PlanFault.NOT_CANONICAL
        reason = Reason.UNREADABLE if canonical else Reason.NOT_CANONICAL
        raise PolicyRefusal(reason, error.what, error.hint) from None
    except StudyError as error:
        raise PolicyRefusal(Reason.UNUSABLE_STUDY, str(error)) from None
    except StrategyError as error:
        raise PolicyRefusal(Reason.UNUSABLE_STRATEGY, str(error)) from None


def _require(holds: bool, reason: Reason, what: str, hint: str | None = None) -> None:
    if not holds:
        raise PolicyRefusal(reason, what, hint)


def _size(plan: Plan, policy: Policy, roster: Roster) -> None:
    rows = plan.strategy.rows
    _require(rows <= policy.max_rows, Reason.TOO_LARGE, f"the strategy has {rows:,} rows")


def _study(plan: Plan, policy: Policy, roster: Roster) -> None:
    digest = plan.study.digest.hex()
    _require(
        not policy.studies or digest in policy.studies,
        Reason.WRONG_STUDY,
        f"the study has digest {digest}, which this policy does not list",
        "compare the study with what was agreed; list its digest under 'studies' if it is the same",
    )


def _roster(plan: Plan, policy: Policy, roster: Roster) -> None:
    _require(plan.roster_digest != NO_ROSTER, Reason.ROSTER_MISMATCH, "the plan is a preview")
    _require(
        plan.roster_digest == roster.digest and plan.participants == len(roster),
        Reason.ROSTER_MISMATCH,
        "the plan is made for another roster",
    )
    _require(
        plan.threat_model is not ThreatModel.MALICIOUS or roster.digest.hex() in policy.rosters,
        Reason.UNPINNED_ROSTER,
        f"the roster {roster.digest.hex()} is not pinned",
        "compare this fingerprint with the other participants and list it under 'rosters'",
    )


def _threat_model(plan: Plan, policy: Policy, roster: Roster) -> None:
    _require(
        plan.threat_model.value in policy.threat_models,
        Reason.THREAT_MODEL,
        f"the plan is {plan.threat_model}, this policy allows {' or '.join(policy.threat_models)}",
    )


def _graph(plan: Plan, policy: Policy, roster: Roster) -> None:
    privacy, aggregation = plan.sections
    try:
        parameters.check(
            plan.graph,
            plan.participants,
            privacy.corrupt_fraction,
            aggregation.max_dropout,
            plan.threat_model,
        )
    except ParameterError as error:
        raise PolicyRefusal(Reason.GRAPH, str(error)) from None


def _company(plan: Plan, policy: Policy, roster: Roster) -> None:
    """How many others this participant's privacy leans on."""
    fewest, most = participants_allowed(plan.sections[1])
    _require(
        fewest <= plan.participants <= most,
        Reason.WRONG_COUNT,
        f"{plan.participants} participants, the study says {fewest} to {most}",
    )
    _require(
        plan.participants >= policy.min_participants,
        Reason.TOO_FEW_PARTICIPANTS,
        f"{plan.participants} participants, this policy wants {policy.min_participants}",
    )
    _require(
        plan.honest_floor <= policy.max_honest_floor,
        Reason.HONEST_FLOOR,
        f"the noise relies on {plan.honest_floor:,} honest others,"
        f" this policy on at most {policy.max_honest_floor:,}",
        "a long roster shrinks everybody's noise: raise max_honest_floor only if you know them",
    )
    stated = plan.sections[0].corrupt_fraction
    _require(
        stated >= policy.min_corrupt_fraction,
        Reason.CORRUPT_FRACTION,
        f"the plan withstands a corrupt fraction of {stated:g},"
        f" this policy wants {policy.min_corrupt_fraction:g}",
    )


def _unit(plan: Plan, policy: Policy, roster: Roster) -> None:
    unit = plan.sections[0].unit
    name = unit if isinstance(unit, str) else "person"
    _require(name in policy.units, Reason.UNIT, f"the unit '{name}' is not in this policy")


def _noise(plan: Plan, policy: Policy, roster: Roster) -> None:
    """σ_c ≥ 3 and Δ′²/(2hσ_c²) + τk ≤ ρ, with Δ′ recomputed over all columns."""
    variance = plan.participant_variance
    _require(
        variance >= SMALLEST_PARTICIPANT_VARIANCE,
        Reason.NOISE_TOO_SMALL,
        f"σ = {float(variance) ** 0.5:.3g} a participant is below 3",
    )
    _require(
        variance <= LARGEST_VARIANCE,
        Reason.NOISE_TOO_LARGE,
        f"σ = {float(variance) ** 0.5:.3g} a participant cannot be drawn exactly",
    )
    cost = _cost(plan)
    _require(
        cost <= plan.rho,
        Reason.NOISE_TOO_SMALL,
        f"with this noise the round costs ρ = {float(cost):.6g}, not {float(plan.rho):.6g}",
    )


def _cost(plan: Plan) -> Fraction:
    """ρ′ of the round in this participant's own arithmetic."""
    return release_rho(
        plan.sensitivity_squared,
        plan.participant_variance,
        plan.honest_floor,
        plan.strategy.rows,
    )


def _modulus(plan: Plan, policy: Policy, roster: Roster) -> None:
    _require(
        plan.modulus.value > plan.modulus_needed,
        Reason.MODULUS,
        f"sums need a modulus above {plan.modulus_needed}, the plan has {plan.modulus.value}",
    )


def _budget(plan: Plan, policy: Policy, roster: Roster) -> None:
    """What the ledger is asked for is what the round costs, and no more than anybody agreed to.

    ε is this participant's own, from the noise and at its own δ, whatever the study says.
    """
    rho = float(plan.rho)
    _require(plan.rho <= LARGEST_ROUND_RHO, Reason.BUDGET, f"the round costs ρ = {rho:.4g}")
    _require(
        plan.rho * HEADROOM <= _cost(plan),
        Reason.OVERCHARGED,
        f"the plan charges ρ = {rho:.6g} for a round that costs {float(_cost(plan)):.6g}",
    )
    promised = plan.sections[0]
    _require(
        promised.rho is None or plan.rho <= Fraction(repr(promised.rho)),
        Reason.PROMISE,
        f"the round costs ρ = {rho:.6g}, the study promises {promised.rho}",
    )
    _require(
        promised.epsilon is None or plan.promise.epsilon <= promised.epsilon,
        Reason.PROMISE,
        f"the round costs ε = {plan.promise.epsilon:.6g}, the study promises {promised.epsilon}",
    )
    epsilon = epsilon_promised([plan.noise], policy.max_delta)
    _require(
        epsilon <= policy.max_epsilon,
        Reason.BUDGET,
        f"the round costs ε = {epsilon:.4g} at δ = {policy.max_delta:g},"
        f" this policy allows {policy.max_epsilon:g}",
    )


Check = Callable[[Plan, Policy, Roster], None]
_CHECKS: tuple[Check, ...] = (
    _size,
    _study,
    _roster,
    _threat_model,
    _graph,
    _company,
    _unit,
    _noise,
    _modulus,
    _budget,
)


def _warnings(strategy: Strategy, workload: Workload) -> Iterator[str]:
    if not strategy.contains(workload):
        yield "the strategy does not answer all the workload's queries"
    asked = rank(workload) or workload.queries
    if strategy.rows > asked:
        yield f"the strategy measures more than the workload asks for ({asked:,} rows would do)"
