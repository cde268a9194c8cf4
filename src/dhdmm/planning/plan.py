"""The plan: everything a round needs, in one immutable value with one encoding and one digest.

Plan = f(draft, participants, roster) is a pure function that every party computes for itself. The
digest is bound into every key of the aggregation, so parties with different plans learn nothing
from each other's messages. The encoding carries the derived numbers too, and a participant believes
none of them: `dhdmm.participant.policy` recomputes each from the study and the strategy.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, TypeGuard

import cbor2
import numpy as np
from numpy.typing import NDArray

from dhdmm import formats
from dhdmm.aggregation.errors import AggregationError
from dhdmm.aggregation.method import Method, Parameters, RoundParameters, RoundTerms, ThreatModel
from dhdmm.aggregation.modulus import Modulus, SumRange
from dhdmm.errors import PlanError, PlanFault, PrivacyError
from dhdmm.planning.calibrate import (
    modulus_bound,
    norm_bound,
    parts_of_one_participant,
    sum_ranges,
    unit_sensitivity_squared,
    validation_delta,
)
from dhdmm.planning.methods import method_for
from dhdmm.privacy.excess import NoisyRelease, epsilon_promised
from dhdmm.privacy.removable import RemovableNoise
from dhdmm.strategy.objective import objective_of
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.spec import Study
from dhdmm.summary import Summarised

LARGEST_PLAN_BYTES = 64 * 2**20
NO_ROSTER = bytes(32)
"""The roster digest of a preview: no round can run under it."""
NO_HELPER = bytes(32)
"""The helper of a preview that names none: whoever runs all parties makes its own."""


REPORTED_DELTA = 1e-6
"""For which δ the ε of a study is shown that states only ρ."""


@dataclass(frozen=True)
class Promise:
    """The round is (ε, δ)-differentially private.

    Attributes:
        epsilon: ε.
        delta: δ.
    """

    epsilon: float
    delta: float


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Summarised):
    """What all parties of a round agree on. Make one with `dhdmm.plan`.

    Attributes:
        study: The study.
        strategy: The integer strategy that participants measure.
        participants: How many participants the round has.
        roster_digest: Of the participants' names and keys; zeros in a preview, which cannot run.
        rho: The cost of the round in zCDP's ρ.
        parameters: Of the way to add up.
        participant_variance: The variance of each participant's noise.
        modulus: Measurements are added modulo this number.
        helper: The Ed25519 key of the second server; empty where there is one server. Zeros in a
            preview that names none, which `dhdmm.run` and `dhdmm.simulate` can use.
        made_by: The version of dhdmm that made its draft. Format 1 does not say it: what follows
            from a draft of format 1 is of format 1, as it was when the draft was agreed on.

    Example:
        >>> made = dhdmm.plan(study)  # doctest: +SKIP
        >>> made.expected_error().rmse, made.promise.epsilon  # doctest: +SKIP
    """

    study: Study
    strategy: Strategy
    participants: int
    roster_digest: bytes
    rho: Fraction
    parameters: Parameters
    participant_variance: Fraction
    modulus: Modulus
    helper: bytes = b""
    made_by: str | None = field(default_factory=formats.this_version)

    def _summary(self) -> dict[str, Any]:
        return {
            "study": self.study.name,
            "participants": self.participants,
            "measurements": self.strategy.rows,
            "rho": float(self.rho),
            "preview": self.roster_digest == NO_ROSTER,
        }

    @property
    def format(self) -> int:
        """The number of the format that its bytes are in."""
        return 1 if self.made_by is None else 2

    @property
    def honest_floor(self) -> int:
        """How many participants' noise is certain to be in the sum and unknown to adversaries."""
        return self.parameters.honest_floor

    @property
    def threat_model(self) -> ThreatModel:
        """Against whom the aggregation protects."""
        return ThreatModel(self.study.aggregation.threat_model)

    @property
    def method(self) -> Method:
        """The implementation of the aggregation."""
        return method_for(self.study.aggregation)

    @cached_property
    def sensitivity_squared(self) -> int:
        """Δ′² for the study's unit and relation."""
        return unit_sensitivity_squared(self.study, self.strategy)

    @property
    def modulus_needed(self) -> int:
        """What the modulus must exceed, so that no sum wraps around."""
        return modulus_bound(
            self.participant_variance,
            self.participants,
            self.strategy.rows,
            parts_of_one_participant(self.study),
            self.strategy.max_entry,
        )

    @cached_property
    def sum_ranges(self) -> tuple[SumRange, ...]:
        """In which range each sum lies, where no more bits of it are sent than that takes.

        It is so with two servers, unless inputs are validated: one that is short enough to be
        counted, and no honest one, need not keep to the ranges of single sums.
        """
        if not self.method.has_helper or self.study.aggregation.validation != "none":
            return ()
        return sum_ranges(
            self.participant_variance,
            self.participants,
            parts_of_one_participant(self.study),
            self.strategy.row_ranges,
        )

    @property
    def sum_bits(self) -> list[int]:
        """How many bits are sent of each sum: rows, bits, rows, bits, … of all runs of rows."""
        runs = groupby(self.sum_ranges, key=attrgetter("bits"))
        found = ((sum(one.rows for one in run), bits) for bits, run in runs)
        return list(chain.from_iterable(found))

    @cached_property
    def norm_bound(self) -> int:
        """B: what an honest input's length is never above, and a lying one's with validation."""
        return norm_bound(
            self.participant_variance,
            self.strategy.rows,
            parts_of_one_participant(self.study),
            self.strategy.sensitivity_squared,
        )

    @property
    def validation_delta(self) -> float:
        """What validation adds to δ, 0 without it: at most 2⁻⁴⁴ in a plan that is agreed to."""
        if self.study.aggregation.validation == "none":
            return 0.0
        return validation_delta(self.promise.epsilon, self.participants)

    @property
    def input_bytes(self) -> int:
        """What a participant sends as its input: masked sums, and what is attached to them."""
        size: int = self.method.round(self.parameters, self.terms(bytes(16))).input_bytes
        return size

    @cached_property
    def removable(self) -> RemovableNoise | None:
        """How noise is divided, where what is in excess is removed."""
        if self.study.aggregation.excess_noise == "keep":
            return None
        return RemovableNoise(
            self.participant_variance,
            self.participants,
            self.parameters.minimum_survivors,
            self.honest_floor,
        )

    @property
    def lasting_variance(self) -> Fraction:
        """Of the noise that is in a participant's sums for good."""
        return self.removable.base if self.removable else self.participant_variance

    @property
    def noise(self) -> NoisyRelease:
        """What the accounting needs to know of this plan: the least that is left, at any level."""
        divided = self.removable
        return NoisyRelease(
            self.sensitivity_squared,
            self.participant_variance,
            self.honest_floor,
            self.strategy.rows,
            divided.smallest if divided else None,
            divided.honest_parts if divided else None,
        )

    @cached_property
    def promise(self) -> Promise:
        """(ε, δ) of the round, computed from the noise and not taken from the study."""
        delta = self.study.privacy.delta or REPORTED_DELTA
        return Promise(epsilon_promised([self.noise], delta), delta)

    def noise_variance(self, survivors: int, unremoved: int = 0) -> Fraction:
        """The variance of the noise in every sum.

        Args:
            survivors: How many participants' inputs are in it.
            unremoved: How many of them did not remove what was in excess, where that is removed.

        Returns:
            |survivors|·σ_c²; where excess noise is removed, |survivors|·V_ℓ and V − V_ℓ for each
            who did not remove it.
        """
        if self.removable is None:
            return survivors * self.participant_variance
        left = self.removable.kept(self.removable.level(survivors))
        return survivors * left + unremoved * (self.participant_variance - left)

    def expected_error(self, survivors: int | None = None, unremoved: int = 0) -> ExpectedError:
        """Error bars of the answers, before any budget is spent.

        Args:
            survivors: How many participants stay to the end; None for all of them.
            unremoved: How many of them do not remove what is in excess, where that is removed.

        Returns:
            The standard errors of all answers, from `noise_variance`·diag(W(A′ᵀA′)⁺Wᵀ).
        """
        count = self.participants if survivors is None else survivors
        variance = float(self.noise_variance(count, unremoved))
        return ExpectedError(self.study, np.sqrt(variance * self.strategy.variances()))

    def round(self, round_id: bytes) -> RoundParameters:
        """The aggregation's parameters for one round of this plan.

        Args:
            round_id: 16 random bytes that no other round has.

        Returns:
            The parameters.

        Raises:
            PrivacyError: The plan is a preview.
        """
        if self.roster_digest == NO_ROSTER:
            raise PrivacyError("a preview cannot run", hint="make the plan with a roster")
        if self.helper == NO_HELPER:
            raise PrivacyError("a preview cannot run", hint="make the plan with a helper")
        terms = self.terms(round_id)
        round_parameters: RoundParameters = self.method.round(self.parameters, terms)
        return round_parameters

    def terms(self, round_id: bytes) -> RoundTerms:
        """What any way to add up needs to know of one round of this plan.

        Args:
            round_id: 16 bytes.

        Returns:
            The terms.
        """
        return RoundTerms(
            plan_digest=self.digest,
            round_id=round_id,
            roster_digest=self.roster_digest,
            participants=self.participants,
            modulus=self.modulus,
            length=self.strategy.rows,
            sum_ranges=self.sum_ranges,
            norm_bound=self.norm_bound,
            helper=self.helper,
            noise_variance=self.participant_variance,
        )

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the encoding, by which the parties recognise the plan."""
        return hashlib.sha256(b"dhdmm plan" + self.to_bytes()).digest()

    @cached_property
    def _encoded(self) -> bytes:
        fields: dict[str, Any] = {
            "version": self.format,
            "study": self.study.canonical_bytes(),
            "strategy": self.strategy.to_bytes(),
            "participants": self.participants,
            "roster": self.roster_digest,
            "rho": list(self.rho.as_integer_ratio()),
            "variance": list(self.participant_variance.as_integer_ratio()),
            "modulus": self.modulus.value,
            **self.parameters.fields(),
            **({"helper": self.helper} if self.method.has_helper else {}),
            **({"sum_bits": self.sum_bits} if self.sum_ranges else {}),
        }
        return _canonical(fields if self.made_by is None else fields | {"dhdmm": self.made_by})

    def to_bytes(self) -> bytes:
        """Encode the plan.

        Returns:
            Canonical CBOR, see docs/planning.md; for a plan that was read from bytes, those bytes.
        """
        return self._encoded

    @classmethod
    def from_bytes(cls, encoded: bytes, known: Plan | None = None) -> Plan:
        """Read an encoded plan. This is no review: its numbers may still be wrong for the study.

        Args:
            encoded: What `to_bytes` returned.
            known: A plan that was read before. If it has the same study and strategy, byte for
                byte, they are not read and analysed again.

        Returns:
            The plan.

        Raises:
            PlanError: The bytes are not a plan.
            StudyError: The study in it is not valid.
            StrategyError: The strategy in it is not valid.
        """
        fields = _decode_fields(encoded)
        try:
            modulus = Modulus(fields["modulus"])
        except AggregationError as error:
            raise PlanError(PlanFault.FIELD, str(error)) from None
        made_by = fields.get("dhdmm")
        if known is not None and known.has_draft(fields["study"], fields["strategy"], made_by):
            study, strategy = known.study, known.strategy
        else:
            known, study = None, Study.from_canonical_bytes(fields["study"], made_by)
            read = Strategy.from_bytes(fields["strategy"], made_by)
            strategy = read.over(study.workload, objective_of(study))
        _ = study.privacy  # refuses a study that only asks
        method = method_for(study.aggregation)
        named = {*_FIELDS[fields["version"]], *method.parameter_names}
        if method.has_helper:
            named |= {"helper"} if study.aggregation.validation != "none" else _HELPER.keys()
        _require_fields(fields.keys() ^ named)
        plan = cls(
            study=study,
            strategy=strategy,
            participants=fields["participants"],
            roster_digest=fields["roster"],
            rho=Fraction(*fields["rho"]),
            parameters=method.parameters_of(fields, fields["participants"]),
            participant_variance=Fraction(*fields["variance"]),
            modulus=modulus,
            helper=fields.get("helper", b""),
            made_by=made_by,
        )
        vars(plan)["_encoded"] = encoded
        if known is not None:
            vars(plan)["sensitivity_squared"] = known.sensitivity_squared
        if plan.sum_bits != fields.get("sum_bits", []):
            raise PlanError(PlanFault.FIELD, "field 'sum_bits' is not what follows from the others")
        if any(one.bits > modulus.bits for one in plan.sum_ranges):
            raise PlanError(PlanFault.FIELD, "field 'modulus' does not hold the sums")
        return plan

    def has_draft(self, study: bytes, strategy: bytes, made_by: str | None) -> bool:
        """Whether these are its study and strategy, byte for byte and as they are read.

        Args:
            study: An encoded study.
            strategy: An encoded strategy.
            made_by: The dhdmm that made the plan they stand in, if it is known.

        Returns:
            Whether nothing differs.
        """
        mine = self.study.canonical_bytes(), self.strategy.to_bytes(), self.made_by
        return mine == (study, strategy, made_by)


def encoded_study(encoded: bytes) -> bytes:
    """The study's bytes in an encoded plan, of which nothing else is built."""
    return bytes(_decode_fields(encoded)["study"])


_OF_THE_DRAFT = ("study", "strategy")
"""The fields of a plan that do not depend on who takes part, and nearly all of its bytes."""


def terms_of(plan: Plan) -> bytes:
    """The encoded plan without what its preview has in the same bytes."""
    fields = cbor2.loads(plan.to_bytes())
    return _canonical({name: fields[name] for name in fields.keys() - _OF_THE_DRAFT})


def under_terms(preview: Plan, terms: bytes) -> bytes:
    """The encoded plan with these terms and the preview's study and strategy, yet to be reviewed.

    Raises:
        PlanError: The terms are none.
    """
    fields = _decode_terms(terms)
    study, strategy = preview.study.canonical_bytes(), preview.strategy.to_bytes()
    return _canonical(fields | {"study": study, "strategy": strategy})


def roster_named_in(terms: bytes) -> tuple[int, bytes]:
    """How many participants these terms are for, and the digest of their roster."""
    fields = _decode_terms(terms)
    return fields["participants"], fields["roster"]


def _decode_terms(terms: bytes) -> dict[str, Any]:
    try:
        fields = cbor2.loads(terms)
    except (cbor2.CBORDecodeError, ValueError, RecursionError, OverflowError, MemoryError):
        fields = None
    if type(fields) is not dict or not fields.keys().isdisjoint(_OF_THE_DRAFT):
        raise PlanError(PlanFault.FIELD, "not the terms of a plan")
    for name in ("participants", "roster"):
        if not _FIELDS_1[name](fields.get(name)):
            raise PlanError(PlanFault.FIELD, f"field {name!r} is not what it should be")
    return fields


def _natural(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 2**63


def _positive_ratio(value: Any) -> bool:
    return (
        type(value) is list
        and len(value) == 2
        and all(type(part) is int and 0 < part < 2**256 for part in value)
    )


Fields = dict[str, Callable[[Any], bool]]
_FIELDS_1: Fields = {
    "version": _natural,
    "study": lambda value: type(value) is bytes,
    "strategy": lambda value: type(value) is bytes,
    "participants": _natural,
    "roster": lambda value: type(value) is bytes and len(value) == 32,
    "rho": _positive_ratio,
    "variance": _positive_ratio,
    "modulus": _natural,
}
_HELPER: Fields = {
    "helper": lambda value: type(value) is bytes and len(value) == 32,
    "sum_bits": lambda value: type(value) is list and all(map(_natural, value)),
}
_FIELDS: dict[int, Fields] = {1: _FIELDS_1, 2: {**_FIELDS_1, "dhdmm": formats.is_maker}}
"""By format; there are also the parameters of the way to add up, which are natural numbers, and
the helper where there is one, and the bits of its sums."""


def _decode_fields(encoded: bytes) -> dict[str, Any]:
    if len(encoded) > LARGEST_PLAN_BYTES:
        raise PlanError(PlanFault.SIZE, f"larger than {LARGEST_PLAN_BYTES:,} bytes")
    try:
        fields = cbor2.loads(encoded)
    except (cbor2.CBORDecodeError, ValueError, RecursionError, OverflowError, MemoryError):
        raise PlanError(PlanFault.NOT_CBOR, "not a CBOR value") from None
    if type(fields) is not dict or not all(type(name) is str for name in fields):
        raise PlanError(PlanFault.FIELD, "not a map of named fields")
    refusal = partial(PlanError, PlanFault.VERSION)
    number = formats.readable(formats.PLAN, fields.get("version"), refusal, fields.get("dhdmm"))
    known = _FIELDS[number]
    _require_fields(known.keys() - fields.keys())
    for name, value in fields.items():
        if not (known | _HELPER).get(name, _natural)(value):
            raise PlanError(PlanFault.FIELD, f"field {name!r} is not what it should be")
    in_lowest_terms = all(math.gcd(*fields[name]) == 1 for name in ("rho", "variance"))
    if not in_lowest_terms or _canonical(fields) != encoded:  # before anything is built from it
        raise PlanError(PlanFault.NOT_CANONICAL, "the encoding is not the canonical one")
    return fields


def _require_fields(wrong: Set[str]) -> None:
    for name in sorted(wrong):
        raise PlanError(PlanFault.FIELD, f"field {name!r} is missing or unknown")


def _canonical(fields: dict[str, Any]) -> bytes:
    return bytes(cbor2.dumps(fields, canonical=True))


@dataclass(frozen=True, eq=False)
class ExpectedError:
    """Standard errors of the unweighted answers, in the order of the workload's queries.

    Attributes:
        study: The study.
        standard_errors: One per query.
    """

    study: Study
    standard_errors: NDArray[np.float64]

    @property
    def rmse(self) -> float:
        """The root mean square error: √(mean variance) over all counts.

        Sums, which have units of their own, are left out unless nothing else is asked.
        """
        counts = self.study.workload.counts
        chosen = self.standard_errors[counts] if counts.any() else self.standard_errors
        return float(np.sqrt(np.mean(chosen**2)))

    def by_item(self) -> dict[str, NDArray[np.float64]]:
        """The standard errors of each table of the release.

        Returns:
            An array per table, by the table's name.
        """
        rows = self.study.workload.rows
        return {name: self.standard_errors[part] for name, part in rows.items()}
