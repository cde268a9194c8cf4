"""What a participant contributes: A′x + discrete Gaussian noise, in Z_m. Integers throughout."""

from __future__ import annotations

from collections.abc import Iterable

from dhdmm.aggregation.modulus import Vector
from dhdmm.errors import Refused
from dhdmm.planning.plan import Plan
from dhdmm.privacy.gaussian import DiscreteGaussian
from dhdmm.privacy.keystream import KeyStream
from dhdmm.study.division import divided
from dhdmm.study.histogram import Histogram


def measure(plan: Plan, histogram: Histogram, noise: KeyStream) -> Vector:
    """A′x + N_Z(0, σ_c²)^k modulo m, (k,). The key stream must be fresh: one measurement each.

    Noise that may be removed again is added by the way to add up, which is what removes it.
    A participant with more records than its bound stays out: nothing is clipped, since the modulus
    and, for `unit: participant`, the sensitivity rest on that bound.
    """
    bound = plan.study.aggregation.max_records_per_participant
    if histogram.records > bound:
        raise Refused(
            f"there are more records than max_records_per_participant = {bound:,}",
            hint="agree on a larger bound from public knowledge and plan the study anew",
        )
    exact = plan.strategy.measure(divided(plan.study.schema, histogram))
    drawn = DiscreteGaussian(plan.lasting_variance).sample(plan.strategy.rows, noise)
    return plan.modulus.residues(exact + drawn)


def measure_together(
    plan: Plan, histograms: Iterable[Histogram], noises: Iterable[KeyStream]
) -> Vector:
    """What all these measurements add up to, (k,): A′ is linear, so it is applied to their sum."""
    total = plan.strategy.measure(divided(plan.study.schema, Histogram.total(histograms)))
    gaussian = DiscreteGaussian(plan.lasting_variance)
    for noise in noises:
        total += gaussian.sample(plan.strategy.rows, noise)
    return plan.modulus.residues(total)
