"""From a budget to noise and modulus. Each function is one formula of docs/planning.md.

Δ′²   squared sensitivity of A′ for the study's unit and relation, an exact integer
h     honest floor: noise shares that are certain to be in the sum and unknown to any adversary
σ_c²  variance of one participant's discrete Gaussian
k     rows of A′;  n participants;  B records a participant may have, in parts (ADR 30)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from dhdmm.aggregation.modulus import Modulus, SumRange
from dhdmm.errors import PrivacyError
from dhdmm.privacy.gaussian import LARGEST_VARIANCE
from dhdmm.privacy.zcdp import honest_variance
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.models import AggregationModel, PrivacyModel
from dhdmm.study.spec import Study

SMALLEST_PARTICIPANT_VARIANCE = 9
"""σ_c ≥ 3: below it a sum of discrete Gaussians is measurably not one (docs/accounting.md)."""

WRAP_BITS = 64
"""A coordinate leaves the modulus with probability at most 2⁻⁶⁴ in all."""

LARGEST_MODULUS_BITS = 63

HEADROOM = 1 - Fraction(1, 2**40)
"""Noise is calibrated to this much of ρ, so that τk of the accounting fits into ρ too."""


def calibrated_variance(sensitivity_squared: int, rho: Fraction, honest_floor: int) -> Fraction:
    """σ_c² = Δ′²/(2ρh) with headroom; refused where no exact sampler reaches it."""
    variance = honest_variance(sensitivity_squared, rho * HEADROOM, honest_floor)
    if variance > LARGEST_VARIANCE:
        raise PrivacyError(
            f"a participant's noise would have σ = {math.sqrt(variance):.3g}, beyond the sampler",
            hint="raise the budget, or bound the records of one unit more tightly",
        )
    return variance


def noise_reach(participant_variance: Fraction, participants: int, rows: int) -> int:
    """What |noise| stays below in all k coordinates but for probability 2⁻⁶⁴.

    A discrete Gaussian is σ²-subgaussian (Canonne, Kamath, Steinke 2020), hence so is a sum of n
    with nσ_c²: √n·σ_c·√(2 ln(2k·2⁶⁴)), rounded up.
    """
    log_term = Fraction(2 * (math.log(2 * rows) + WRAP_BITS * math.log(2)) * (1 + 1e-9))
    return math.isqrt(math.ceil(participants * participant_variance * log_term)) + 1


def modulus_bound(
    participant_variance: Fraction,
    participants: int,
    rows: int,
    parts_per_participant: int,
    largest_entry: int,
) -> int:
    """The modulus must exceed 2·n·B·max|a′| + 2·noise + 1 so that no sum wraps around."""
    truth = participants * parts_per_participant * largest_entry
    return 2 * truth + 2 * noise_reach(participant_variance, participants, rows) + 1


def sum_ranges(
    participant_variance: Fraction,
    participants: int,
    parts_per_participant: int,
    row_ranges: Sequence[tuple[int, int, int]],
) -> tuple[SumRange, ...]:
    """Of runs of rows with entries in [a, b]: n·B·a − noise and n·B·b + noise, of which every
    integer between has bits enough."""
    most = participants * parts_per_participant
    noise = noise_reach(participant_variance, participants, sum(row for row, _, _ in row_ranges))
    found = []
    for rows, low, high in row_ranges:
        width = most * (high - low) + 2 * noise
        found.append(SumRange(rows, most * low - noise, width.bit_length()))
    return tuple(found)


def modulus_above(bound: int) -> Modulus:
    """The smallest 2^b > bound.

    >>> modulus_above(1000).value
    1024
    """
    if bound.bit_length() <= LARGEST_MODULUS_BITS:
        return Modulus(1 << bound.bit_length())
    raise PrivacyError(
        f"sums need a modulus of {bound.bit_length()} bits, {LARGEST_MODULUS_BITS} are supported",
        hint="lower max_records_per_participant, the number of participants, or the number of"
        " steps of measured columns",
    )


TOO_LONG_BITS = 80
"""An honest input is longer than its bound with probability at most 2⁻⁸⁰."""


def norm_bound(
    participant_variance: Fraction, rows: int, parts: int, part_sensitivity_squared: int
) -> int:
    """B = (parts)·max‖a′_u‖ + t with t² = σ_c²(k + 2√(kx) + 2x), x = 80 ln 2, all rounded up.

    Integers and fractions only: everybody must find the same. docs/proofs-validation.md.
    """
    noise = noise_length(participant_variance, rows)
    return math.isqrt(parts**2 * part_sensitivity_squared) + 1 + noise


def noise_length(variance: Fraction, rows: int) -> int:
    """t of `norm_bound`: noise is longer with probability at most 2⁻⁸⁰."""
    x = Fraction(TOO_LONG_BITS * 6932, 10_000)  # ln 2 < 0.6932
    root = math.isqrt(math.ceil(rows * x)) + 1
    return math.isqrt(math.ceil(variance * (rows + 2 * root + 2 * x))) + 1


REDUCED_BITS = 128
"""A blinding, or a mask of one, is within 2⁻¹²⁸ of uniform."""

LARGEST_VALIDATION_DELTA = 2.0**-44
"""What of the 2⁻⁴⁰ that a session may add to δ the conditions on its graph leave."""


def validation_delta(epsilon: float, participants: int) -> float:
    """(1 + e^ε)(n·2⁻⁸⁰ + n²·2⁻¹²⁸): what validation adds to δ (docs/proofs-validation.md)."""
    failure = participants * 2.0**-TOO_LONG_BITS + participants**2 * 2.0**-REDUCED_BITS
    return (1 + math.exp(min(epsilon, 700))) * failure


def participants_allowed(aggregation: AggregationModel) -> tuple[int, int]:
    """(fewest, most)."""
    count = aggregation.participants
    return (count, count) if isinstance(count, int) else (count.min, count.max)


def parts_of_one_participant(study: Study) -> int:
    """What all records that it may have count together."""
    return study.aggregation.max_records_per_participant * study.schema.units


def records_of_one_unit(privacy: PrivacyModel, aggregation: AggregationModel) -> int:
    """How many records one protected unit may have in all."""
    if privacy.unit == "record":
        return 1
    if privacy.unit == "participant":
        return aggregation.max_records_per_participant
    person = privacy.unit.person
    return person.max_records * person.max_participants


def parts_of_one_unit(study: Study) -> int:
    """What all its records count together."""
    return records_of_one_unit(study.privacy, study.aggregation) * study.schema.units


def unit_sensitivity_squared(study: Study, strategy: Strategy) -> int:
    """Δ′² = (parts of a unit)² · max‖a′_u‖², or for `replace` · max(‖a′_u‖², ‖a′_u − a′_v‖²).

    A record that measured columns divide is a convex combination of cells, in parts: no norm, and
    no distance, of combinations exceeds the largest of the cells themselves.
    """
    column = (
        strategy.replace_sensitivity_squared
        if study.privacy.relation == "replace"
        else strategy.sensitivity_squared
    )
    return parts_of_one_unit(study) ** 2 * column
