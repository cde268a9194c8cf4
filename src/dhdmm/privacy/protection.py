"""Whom a round's ρ protects, and what the ρ of several rounds bounds for one record or person.

k   how many records of somebody were counted in a round, at all its participants together

ρ of different units or relations is not one quantity. It is converted where a theorem allows it,
always upwards:

- A promise for a unit covers each part of it: a participant's covers every record, and every person
  whose records are all with that participant; a person's covers each of her records.
- A promise for a part says of the whole what group privacy says: ρ for one record is k²ρ for k
  records together, and nothing if k has no bound.
- `replace` covers `zero-out`, since our Δ'² for it is the maximum of both. A replacement is at most
  two zero-outs: ρ under `zero-out` is at most 4ρ under `replace`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from dhdmm.study.models import PersonUnit
from dhdmm.study.spec import Study

ZERO_OUT, REPLACE = "zero-out", "replace"
LARGEST_BOUND = 2**63 - 1
TWO_ZERO_OUTS = 4  # squared, as every factor in sensitivity is in ρ


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """Who or what is protected; `identifier` is the column that tells persons apart."""

    unit: str
    identifier: str = ""

    def __str__(self) -> str:
        return f"{self.unit} ({self.identifier})" if self.identifier else self.unit

    def is_covered_by(self, promised: Subject) -> bool:
        """Persons by two columns are different persons: either may be several of the other."""
        wider = {
            "record": promised.unit in ("record", "person", "participant", ""),
            "person": promised == self or promised.unit == "participant",
            "participant": promised.unit == "participant",
        }
        return wider[self.unit]


@dataclass(frozen=True, slots=True, order=True)
class Protection:
    """What a study promises to hide: a unit of at most so many records at so many participants."""

    unit: str
    relation: str
    identifier: str
    max_records: int
    max_participants: int

    @classmethod
    def of(cls, study: Study) -> Protection:
        privacy = study.privacy
        if isinstance(privacy.unit, PersonUnit):
            person = privacy.unit.person
            bounds = person.max_records, person.max_participants
            return cls("person", privacy.relation, person.column, *bounds)
        records = 1 if privacy.unit == "record" else study.aggregation.max_records_per_participant
        return cls(privacy.unit, privacy.relation, "", records, 1)

    @property
    def subject(self) -> Subject:
        return Subject(self.unit, self.identifier)

    @property
    def fields(self) -> tuple[str, str, str, int, int]:
        bounds = self.max_records, self.max_participants
        return self.unit, self.relation, self.identifier, *bounds

    @property
    def is_possible(self) -> bool:
        """Whether `of` can have made it, and SQLite can keep it."""
        fits = {
            "record": not self.identifier and (self.max_records, self.max_participants) == (1, 1),
            "person": bool(self.identifier),
            "participant": not self.identifier and self.max_participants == 1,
        }
        bounded = all(1 <= bound <= LARGEST_BOUND for bound in self.fields[3:])
        return self.relation in (ZERO_OUT, REPLACE) and bounded and fits.get(self.unit, False)


NOT_RECORDED = Protection("", "", "", 0, 0)
"""Of rounds in ledgers of format 1. Every promise covers a record under zero-out: so does this."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """ρ in all: `fixed`, and `squared`·k² for somebody with k records."""

    fixed: Fraction
    squared: Fraction

    def of(self, records: int) -> Fraction:
        return self.fixed + self.squared * records**2


@dataclass(frozen=True, slots=True)
class Bound:
    """What several rounds together tell of one subject, if it is removed and if it is replaced."""

    subject: Subject
    removed: Exposure
    replaced: Exposure


Amount = tuple[Protection, Fraction]


def bounds(amounts: Iterable[Amount]) -> list[Bound]:
    """For a record, for a person by each identifier that occurs, and for the participant."""
    listed = list(amounts)
    persons = sorted({p.subject for p, _ in listed if p.unit == "person"}) or [Subject("person")]
    return [
        Bound(subject, exposure(subject, ZERO_OUT, listed), exposure(subject, REPLACE, listed))
        for subject in (Subject("record"), *persons, Subject("participant"))
    ]


def exposure(subject: Subject, relation: str, amounts: Iterable[Amount]) -> Exposure:
    fixed = squared = Fraction(0)
    for promised, rho in amounts:
        converted = rho * (TWO_ZERO_OUTS if relation == REPLACE != promised.relation else 1)
        if subject.is_covered_by(promised.subject):
            fixed += converted
        else:
            squared += converted
    return Exposure(fixed, squared)
