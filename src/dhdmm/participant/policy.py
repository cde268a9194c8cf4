"""What a participant checks before it sends anything, from the encoded plan alone.

A plan is somebody else's word. Every number in it is recomputed here from the study and strategy it
carries, and compared with this participant's own limits. The first thing that does not hold is
the reason for staying out; nothing is debited and nothing is sent. Reasons: docs/policy.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from typing import Protocol

from dhdmm.aggregation.method import ParameterError
from dhdmm.aggregation.roster import KnownRoster, PartOfRoster
from dhdmm.effort import Limit, borrow, limited
from dhdmm.errors import (
    PlanError,
    PlanFault,
    PolicyReason,
    PolicyRefusal,
    StrategyError,
    StudyError,
    TooCostly,
)
from dhdmm.formats import this_version
from dhdmm.participant.limits import Policy
from dhdmm.planning.calibrate import (
    HEADROOM,
    LARGEST_VALIDATION_DELTA,
    SMALLEST_PARTICIPANT_VARIANCE,
    modulus_above,
    participants_allowed,
)
from dhdmm.planning.plan import NO_HELPER, NO_ROSTER, Plan, encoded_study
from dhdmm.privacy.excess import epsilon_promised
from dhdmm.privacy.gaussian import LARGEST_VARIANCE
from dhdmm.strategy.asked import nothing_more
from dhdmm.strategy.membership import Membership
from dhdmm.strategy.optimise import rank
from dhdmm.threads import one_blas_thread

__all__ = ["Policy", "PolicyReason", "PolicyRefusal", "Review", "review", "review_preview"]

UNKNOWN_STUDY = Limit(megabytes=300, seconds=2)
"""What checking a plan may cost while nobody here has agreed to its study."""
AGREED_STUDY = Limit(megabytes=8_000, seconds=600)
"""The same for a study that the policy lists."""

CHECKS = 1
"""Counts the versions of the checks below within a version of dhdmm."""

LARGEST_ROUND_RHO = 1000
"""A round beyond it promises nothing, and its ε cannot be computed accurately."""


@dataclass(frozen=True)
class Review:
    """A plan that this participant is willing to follow."""

    plan: Plan

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is safe but strange, for people to judge; found when asked for."""
        return tuple(_warnings(self.plan))


def review(
    encoded: bytes,
    policy: Policy,
    roster: KnownRoster,
    *,
    expected_digest: bytes | None = None,
    preview: Review | None = None,
) -> Review:
    """The plan, if every check holds; otherwise `PolicyRefusal` with the first reason.

    What the strategy measures depends on the study and the strategy alone, and is not checked again
    if the reviewed `preview` has the same bytes of both.
    """
    with _refusing(), limited(_limit_of(encoded, policy)):
        plan = Plan.from_bytes(encoded, None if preview is None else preview.plan)
        if expected_digest is not None and plan.digest != expected_digest:
            raise PolicyRefusal(PolicyReason.WRONG_DIGEST, "this is not the plan that was expected")
        known = preview is not None and _same_measurements(preview.plan, plan)
        for check in _CHECKS:
            if not (known and check is _measured):
                check(plan, policy, roster)
    return Review(plan)


def _same_measurements(one: Plan, other: Plan) -> bool:
    """Whether both plans have the same study and strategy, byte for byte and as they are read."""
    study, strategy = other.study.canonical_bytes(), other.strategy.to_bytes()
    return one.has_draft(study, strategy, other.made_by)


class Checked(Protocol):
    """Keeps what was found out about the bytes of a study and a strategy, across restarts."""

    def known(self, key: bytes) -> int | None:
        """Δ′², if they passed the check of what is measured."""

    def keep(self, key: bytes, sensitivity_squared: int) -> None:
        """They have passed it."""


def review_preview(encoded: bytes, policy: Policy, checked: Checked | None = None) -> Review:
    """The same before anybody knows who takes part: every check but that of the roster.

    What follows from study and strategy alone is not computed again if it is known to `checked`.
    """
    nobody = PartOfRoster(0, NO_ROSTER)
    with _refusing(), limited(_limit_of(encoded, policy)):
        plan = Plan.from_bytes(encoded)
        key = _checked_key(plan)
        known = None if checked is None else checked.known(key)
        if known is not None:
            vars(plan)["sensitivity_squared"] = known
        for check in _CHECKS:
            if check is not _roster and not (known is not None and check is _measured):
                check(plan, policy, nobody)
    if checked is not None and known is None:
        checked.keep(key, plan.sensitivity_squared)
    return Review(plan)


def _checked_key(plan: Plan) -> bytes:
    """Names the bytes of study and strategy, and which version of these checks they passed."""
    parts = plan.study.canonical_bytes(), plan.strategy.to_bytes(), (plan.made_by or "").encode()
    digests = b"".join(sha256(part).digest() for part in parts)
    return sha256(f"dhdmm checked {CHECKS} {this_version()} ".encode() + digests).digest()


@contextmanager
def within_limits(plan: Plan, policy: Policy) -> Iterator[None]:
    """Whatever else is computed from a reviewed plan: what costs too much is refused as well."""
    with _refusing(), limited(_limit(plan.study.digest, policy)):
        yield


def _limit_of(encoded: bytes, policy: Policy) -> Limit:
    if len(encoded) > policy.max_plan_bytes:
        raise PolicyRefusal(PolicyReason.TOO_LARGE, f"the plan has {len(encoded):,} bytes")
    return _limit(sha256(encoded_study(encoded)).digest(), policy)


def _limit(study_digest: bytes, policy: Policy) -> Limit:
    """Little, unless the study is one that was agreed to."""
    return AGREED_STUDY if study_digest.hex() in policy.studies else UNKNOWN_STUDY


@contextmanager
def _refusing() -> Iterator[None]:
    """Whatever is wrong with a plan is a reason to stay out."""
    try:
        with one_blas_thread():
            yield
    except PlanError as error:
        canonical = error.fault is not PlanFault.NOT_CANONICAL
        reason = PolicyReason.UNREADABLE if canonical else PolicyReason.NOT_CANONICAL
        raise PolicyRefusal(reason, error.what, error.hint) from None
    except StudyError as error:
        raise PolicyRefusal(PolicyReason.UNUSABLE_STUDY, str(error)) from None
    except StrategyError as error:
        raise PolicyRefusal(PolicyReason.UNUSABLE_STRATEGY, str(error)) from None
    except TooCostly as error:
        raise PolicyRefusal(
            PolicyReason.TOO_LARGE,
            f"checking the plan is too costly: {error.what}",
            "more is allowed for a study whose fingerprint is listed under 'studies'",
        ) from None


def _require(holds: bool, reason: PolicyReason, what: str, hint: str | None = None) -> None:
    if not holds:
        raise PolicyRefusal(reason, what, hint)


def _size(plan: Plan, policy: Policy, roster: KnownRoster) -> None:
    """Rows of the strategy, answers of the study, and what measuring will need."""
    rows, queries = plan.strategy.rows, plan.study.workload.queries
    _require(rows <= policy.max_rows, PolicyReason.TOO_LARGE, f"the strategy has {rows:,} rows")
    values = sum(len(axis.orbit) for axis in plan.strategy.axes)
    borrow(4 * queries + rows + len(plan.strategy.blocks) * values / 8)


def _study(plan: Plan, policy: Policy, roster: KnownRoster) -> None:
    digest = plan.study.digest.hex()
    _require(
        not policy.studies or digest in policy.studies,
        PolicyReason.WRONG_STUDY,
        f"the study has digest {digest}, which this policy does not list",
        "compare the study with what was agreed; list its digest under 'studies' if it is the same",
    )


def _roster(plan: Plan, policy: Policy, roster: KnownRoster) -> None:
    _require(plan.roster_digest != NO_ROSTER, PolicyReason.ROSTER_MISMATCH, "the plan is a preview")
    _require(
        plan.roster_digest in roster.fingerprints and plan.participants == len(roster),
        PolicyReason.ROSTER_MISMATCH,
        "the plan is made for another roster",
    )
    names = [fingerprint.hex() for fingerprint in roster.fingerprints]
    _require(
        not plan.method.needs_pinned_roster or not set(names).isdisjoint(policy.rosters),
        PolicyReason.UNPINNED_ROSTER,
        f"the roster {names[0]} is not pinned",
        "compare this fingerprint with the other participants and list it under 'rosters'",
    )


def _threat_model(plan: Plan, policy: Policy, roster: KnownRoster) -> None:
    _require(
        plan.threat_model.value in policy.threat_models,
        PolicyReason.THREAT_MODEL,
        f"the plan is {plan.threat_model}, this policy allows {' or '.join(policy.threat_models)}",
    )


def _helper(plan: Plan, policy: Policy, roster: KnownRoster) -> None:
    """Who runs the second server is for this participant to know, not for the coordinator."""
    if not plan.method.has_helper or policy.helpers == "any":
        return
    _require(plan.helper != NO_HELPER, PolicyReason.UNKNOWN_HELPER, "the plan names no helper")
    _require(
        plan.helper.hex() in policy.helpers.values(),
        PolicyReason.UNKNOWN_HELPER,
        f"the helper has the key {plan.helper.hex()}, which this policy does not list",
        "ask whoever runs the second server for its key, not the coordinator; if it is this one,"
        " list it under 'helpers'",
    )


def helper_name(plan: Plan, policy: Policy) -> str | None:
    """What this participant calls the second server; None where there is none."""
    if not plan.method.has_helper:
        return None
    known = {} if policy.helpers == "any" else policy.helpers
    names = [name for name, key in known.items() if key == plan.helper.hex()]
    return names[0] if names else f"the helper with the key {plan.helper.hex()}"


def _graph(plan: Plan, policy: Policy, roster: KnownRoster) -> None:
    try:
        plan.method.check(
            plan.parameters,
            plan.participants,
            plan.study.privacy.corrupt_fraction,
            plan.study.aggregation.max_dropout,
        )
    except ParameterError as error:
        raise PolicyRefusal(PolicyReason.GRAPH, str(error)) from None


def _company(plan: Plan, policy: Policy, roster: KnownRoster) -> None:
    """How many others this participant's privacy leans on."""
    fewest, most = participants_allowed(plan.study.aggregation)
    _require(
        fewest <= plan.participants <= most,
        PolicyReason.WRONG_COUNT,
        f"{plan.participants} participants, the study says {fewest} to {most}",
    )
    _require(
        plan.participants >= policy.min_participants,
        PolicyReason.TOO_FEW_PARTICIPANTS,
        f"{plan.participants} participants, this policy wants {policy.min_participants}",
    )
    _require(
        plan.honest_floor <= policy.max_honest_floor,
        PolicyReason.HONEST_FLOOR,
        f"the noise relies on {plan.honest_floor:,} honest others,"
        f" this policy on at most {policy.max_honest_floor:,}",
        "a long roster shrinks everybody's noise: only if you know who is on it, write"
        f" 'max_honest_floor: {plan.honest_floor}' in your policy",
    )
    stated = plan.study.privacy.corrupt_fraction
    _require(
        stated >= policy.min_corrupt_fraction,
        PolicyReason.CORRUPT_FRACTION,
        f"the plan withstands a corrupt fraction of {stated:g},"
        f" this policy wants {policy.min_corrupt_fraction:g}",
    )


def _unit(plan: Plan, policy: Policy, roster: KnownRoster) -> None:
    unit = plan.study.privacy.unit
    name = unit if isinstance(unit, str) else "person"
    _require(name in policy.units, PolicyReason.UNIT, f"the unit '{name}' is not in this policy")
    if isinstance(unit, str):
        return
    person = unit.person
    _require(
        policy.person_columns == "any" or person.column in policy.person_columns,
        PolicyReason.UNIT,
        f"persons are told apart by '{person.column}', which is not among 'person_columns'",
        "list it if it identifies a person, and not a visit or a record",
    )
    least = policy.min_person_participants
    _require(
        person.max_participants >= least,
        PolicyReason.UNIT,
        f"a person is assumed to be at {person.max_participants} participants at the most,"
        f" this policy wants {least}",
    )


def _noise(plan: Plan, policy: Policy, roster: KnownRoster) -> None:
    """σ_c ≥ 3 and Δ′²/(2hσ_c²) + τk ≤ ρ, with Δ′ recomputed over all columns."""
    variance, smallest = plan.participant_variance, plan.noise.smallest
    _require(
        (smallest or variance) >= SMALLEST_PARTICIPANT_VARIANCE,
        PolicyReason.NOISE_TOO_SMALL,
        f"σ = {float(variance) ** 0.5:.3g} a participant is below 3",
    )
    _require(
        variance <= LARGEST_VARIANCE,
        PolicyReason.NOISE_TOO_LARGE,
        f"σ = {float(variance) ** 0.5:.3g} a participant cannot be drawn exactly",
    )
    cost = plan.noise.cost
    _require(
        cost <= plan.rho,
        PolicyReason.NOISE_TOO_SMALL,
        f"with this noise the round costs ρ = {float(cost):.6g}, not {float(plan.rho):.6g}",
    )


def _modulus(plan: Plan, policy: Policy, roster: KnownRoster) -> None:
    """The smallest that holds every sum: a larger one costs traffic and hides nothing more."""
    needed = plan.modulus_needed
    _require(
        plan.modulus == modulus_above(needed),
        PolicyReason.MODULUS,
        f"sums need a modulus just above {needed}, the plan has {plan.modulus.value}",
    )


def _measured(plan: Plan, policy: Policy, roster: KnownRoster) -> None:
    """The strategy measures what the study asks for, and nothing else.

    A row space that contains the workload's and has no more dimensions is the workload's.
    """
    strategy, workload = plan.strategy, plan.study.workload
    membership = Membership(strategy.axes, strategy.blocks, plan.digest)
    complete = membership.contains(*workload.terms)
    _require(
        complete,
        PolicyReason.STRATEGY,
        "the strategy does not measure all that the study asks for",
    )
    if plan.study.model.extra_measurements or nothing_more(membership, workload.terms):
        return
    asked = rank(workload)
    known = "" if asked is None else f", where {asked:,} would do"
    _require(
        asked is not None and strategy.rows <= asked,
        PolicyReason.STRATEGY,
        f"the strategy measures {strategy.rows:,} sums{known}: more than the study asks for",
        "a study that allows it says 'extra_measurements: true'",
    )


def _budget(plan: Plan, policy: Policy, roster: KnownRoster) -> None:
    """What the ledger is asked for is what the round costs, and no more than anybody agreed to.

    ε is this participant's own, from the noise and at its own δ, whatever the study says.
    """
    rho = float(plan.rho)
    _require(plan.rho <= LARGEST_ROUND_RHO, PolicyReason.BUDGET, f"the round costs ρ = {rho:.4g}")
    _require(
        plan.rho * HEADROOM <= plan.noise.cost,
        PolicyReason.OVERCHARGED,
        f"the plan charges ρ = {rho:.6g} for a round that costs {float(plan.noise.cost):.6g}",
    )
    promised = plan.study.privacy
    _require(
        promised.rho is None or plan.rho <= Fraction(repr(promised.rho)),
        PolicyReason.PROMISE,
        f"the round costs ρ = {rho:.6g}, the study promises {promised.rho}",
    )
    _require(
        promised.epsilon is None or plan.promise.epsilon <= promised.epsilon,
        PolicyReason.PROMISE,
        f"the round costs ε = {plan.promise.epsilon:.6g}, the study promises {promised.epsilon}",
    )
    epsilon = epsilon_promised([plan.noise], policy.max_delta)
    _require(
        epsilon <= policy.max_epsilon,
        PolicyReason.BUDGET,
        f"the round costs ε = {epsilon:.4g} at δ = {policy.max_delta:g},"
        f" this policy allows {policy.max_epsilon:g}",
    )


def _validation(plan: Plan, policy: Policy, roster: KnownRoster) -> None:
    _require(
        plan.validation_delta <= LARGEST_VALIDATION_DELTA,
        PolicyReason.PROMISE,
        f"validation adds {plan.validation_delta:.2g} to δ,"
        f" {LARGEST_VALIDATION_DELTA:.2g} are covered by the proofs",
    )


Check = Callable[[Plan, Policy, KnownRoster], None]
_CHECKS: tuple[Check, ...] = (
    _size,
    _study,
    _roster,
    _threat_model,
    _helper,
    _graph,
    _company,
    _unit,
    _noise,
    _modulus,
    _budget,
    _validation,
    _measured,
)


def _warnings(plan: Plan) -> Iterator[str]:
    if plan.study.model.extra_measurements:
        rows = plan.strategy.rows
        yield f"the study allows to measure more than it asks for: {rows:,} sums are measured"
