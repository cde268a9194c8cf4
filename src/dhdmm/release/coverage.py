"""How many rows are behind the answers, and how many were left out: what a release knows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dhdmm.release.intervals import critical
from dhdmm.release.wording import decimals, number

if TYPE_CHECKING:
    from dhdmm.release.release import Release

NOT_KNOWN = (
    "not known: the study did not ask how many rows the data holders left out (coverage: true)"
)


@dataclass(frozen=True)
class Coverage:
    """Rows that were counted and rows that were left out, both with noise.

    Rows beyond a study's bound on persons, and rows that name no person, are in neither.

    Attributes:
        counted: Rows in the answers.
        left_out: Rows with a value that is missing or outside the domain.
        counted_error: The standard error of `counted`.
        left_out_error: The standard error of `left_out`.
    """

    counted: float
    left_out: float
    counted_error: float
    left_out_error: float

    @property
    def share(self) -> float:
        """The share of all rows that was left out, between 0 and 1."""
        left_out = max(self.left_out, 0.0)
        return left_out / max(left_out + self.counted, 1.0) if left_out else 0.0

    def __str__(self) -> str:
        pairs = ((self.counted, self.counted_error), (self.left_out, self.left_out_error))
        counted, left_out = (
            f"{number(value, decimals(error))} ± {number(critical() * error, decimals(error))}"
            for value, error in pairs
        )
        share = f"{100 * min(self.share, 1.0):.2g} %"
        return f"{counted} counted, {left_out} left out ({share}); ± is a 95 % interval"


def coverage_of(release: Release) -> Coverage | None:
    """What the coverage item of the study says; None if it has none."""
    name = release.plan.study.coverage
    if name is None:
        return None
    table = release[name]
    return Coverage(*table.values.tolist(), *table.standard_errors.tolist())


def coverage_words(release: Release) -> str:
    """One line for whoever reads a table of the release."""
    found = coverage_of(release)
    return NOT_KNOWN if found is None else str(found)
