"""What a study's privacy means for one person's record, in words without symbols."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from dhdmm.planning.figures import rounded_up
from dhdmm.planning.plan import Plan
from dhdmm.study.describe import UNITS
from dhdmm.study.models import PersonUnit


@dataclass(frozen=True)
class Explained:
    """A symbol, its value here, and what the value means."""

    symbol: str
    value: str
    meaning: str


def explained(plan: Plan) -> list[Explained]:
    """ρ, ε and θ of this plan; docs/how-to/choosing-privacy.md derives the sentences."""
    privacy = plan.study.privacy
    rho, promise = float(plan.rho), plan.promise
    itself = " One participant is always counted as conspiring: itself."
    return [
        Explained(
            "ρ",
            f"{rho:.6g}",
            "What the release takes from a privacy budget; the budgets of several releases are"
            f" added. Somebody who knows everything but {_unit(plan)}, and guesses whether it was"
            f" counted, is right {_percent(best_guess(rho))} of the time after reading the whole"
            " release. Without it: 50 %.",
        ),
        Explained(
            "ε",
            f"{rounded_up(promise.epsilon):g} at δ = {promise.delta:g}",
            f"Whatever anybody concludes from the release, {_unit(plan)} makes it at most"
            f" {_times(promise.epsilon)} as likely, except with a probability of {promise.delta:g}."
            " Smaller is more private, and makes the answers less exact.",
        ),
        Explained(
            "θ",
            _percent(privacy.corrupt_fraction),
            "This share of the participants may conspire with the coordinator, and take their own"
            f" noise off. The noise of {plan.honest_floor:,} others keeps the promise."
            + ("" if privacy.corrupt_fraction else itself),
        ),
    ]


def best_guess(rho: float) -> float:
    """Φ(√(ρ/2)): how often the best guess is right about one unit in Gaussian noise.

    >>> round(best_guess(0.028), 3)
    0.547
    """
    return NormalDist().cdf(math.sqrt(rho / 2))


def _unit(plan: Plan) -> str:
    unit = plan.study.privacy.unit
    return (
        "one person's records"
        if isinstance(unit, PersonUnit)
        else UNITS[unit].replace("any one", "one")
    )


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _times(epsilon: float) -> str:
    """e^ε, rounded up."""
    factor = math.exp(min(epsilon, 50.0))
    return f"{math.ceil(factor * 100) / 100:g} times" if factor < 1000 else f"{factor:.1e} times"
