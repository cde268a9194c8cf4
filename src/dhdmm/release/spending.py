"""What several releases together tell about one unit: a record, a person or a participant.

ρ adds up over rounds (zCDP), whatever the studies asked. The (ε, δ) of all rounds follows from
their noise together and is less than the sum of their ε. It holds for a unit that was in every
round; who was in fewer has lost less. Budgets of different units or relations are not comparable
and are never added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

from dhdmm.privacy.excess import epsilon_promised
from dhdmm.release.release import Release
from dhdmm.study.models import PersonUnit


@dataclass(frozen=True)
class Spent:
    """The privacy cost of some rounds together."""

    rounds: int
    rho: Fraction
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Account:
    """Everything released about one kind of unit under one relation."""

    unit: str
    relation: str
    by_study: dict[str, Spent]
    together: Spent


def different_rounds(releases: Iterable[Release]) -> list[Release]:
    """Each round once: a copy of a release tells nothing new."""
    return list({release.round_id: release for release in releases}.values())


def accounts(releases: Iterable[Release]) -> list[Account]:
    """One account per unit and relation, its studies in alphabetical order."""
    ordered = sorted(different_rounds(releases), key=lambda r: (*_kind(r), r.plan.study.name))
    found = []
    for (unit, relation), group in groupby(ordered, key=_kind):
        members = list(group)
        studies = {
            name: spent(list(rounds))
            for name, rounds in groupby(members, key=lambda r: r.plan.study.name)
        }
        found.append(Account(unit, relation, studies, spent(members)))
    return found


def spent(releases: Sequence[Release]) -> Spent:
    """Σρ, and the ε of all at the largest δ that one of them states."""
    delta = max(release.plan.promise.delta for release in releases)
    noises = [release.plan.noise for release in releases]
    rho = sum((noise.rho for noise in noises), Fraction(0))
    return Spent(len(releases), rho, epsilon_promised(noises, delta), delta)


def _kind(release: Release) -> tuple[str, str]:
    privacy = release.plan.sections[0]
    unit = privacy.unit
    name = f"person ({unit.person.column})" if isinstance(unit, PersonUnit) else unit
    return name, privacy.relation
