"""What several releases together tell about one unit: a record, a person or a participant.

ρ adds up over rounds (zCDP), whatever the studies asked. Read as (ε, δ) in two ways
(docs/accounting.md):

- `epsilon`, if it was settled before the first release how many rounds there would be, with what
  noise. It follows from the noise of all rounds and is less than the sum of their ε.
- `epsilon_adaptive`, if each round was chosen in view of earlier releases, but within a total ρ
  that was fixed beforehand, as a ledger's budget is, and that these rounds have used up.

Both hold for a unit that was in every round; who was in fewer has lost less. ρ of different units
or relations is not one quantity and is never added here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

from dhdmm.privacy.budgets import epsilon_within
from dhdmm.privacy.excess import epsilon_promised
from dhdmm.privacy.protection import Protection
from dhdmm.release.release import Release


@dataclass(frozen=True)
class Spent:
    """The privacy cost of some rounds together.

    Attributes:
        rounds: How many rounds.
        rho: The sum of their ρ.
        epsilon: ε, if the number of rounds and their noise were settled before the first.
        epsilon_adaptive: ε, if each round was chosen in view of earlier releases.
        delta: δ of both.
    """

    rounds: int
    rho: Fraction
    epsilon: float
    epsilon_adaptive: float
    delta: float


@dataclass(frozen=True)
class UnitSpending:
    """Everything released about one kind of unit under one relation."""

    unit: str
    relation: str
    by_study: dict[str, Spent]
    together: Spent


def different_rounds(releases: Iterable[Release]) -> list[Release]:
    """Each round once: a copy of a release tells nothing new."""
    return list({release.round_id: release for release in releases}.values())


def accounts(releases: Iterable[Release]) -> list[UnitSpending]:
    """One account per unit and relation, its studies in alphabetical order."""
    ordered = sorted(different_rounds(releases), key=lambda r: (*_kind(r), r.plan.study.name))
    found = []
    for (unit, relation), group in groupby(ordered, key=_kind):
        members = list(group)
        studies = {
            name: spent(list(rounds))
            for name, rounds in groupby(members, key=lambda r: r.plan.study.name)
        }
        found.append(UnitSpending(unit, relation, studies, spent(members)))
    return found


def spent(releases: Sequence[Release]) -> Spent:
    """Add up the privacy cost of releases about the same units.

    Args:
        releases: Releases of different rounds, at least one.

    Returns:
        Σρ, and ε at the largest δ that one of them states.
    """
    delta = max(release.plan.promise.delta for release in releases)
    noises = [release.plan.noise for release in releases]
    rho = sum((noise.rho for noise in noises), Fraction(0))
    adaptive = epsilon_within(sum((noise.cost for noise in noises), Fraction(0)), delta)
    return Spent(len(releases), rho, epsilon_promised(noises, delta), adaptive, delta)


def _kind(release: Release) -> tuple[str, str]:
    protection = Protection.of(release.plan.study)
    return str(protection.subject), protection.relation
