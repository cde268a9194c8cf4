"""Made-up records that resemble what a release says, with a report of how well.

They are computed from the release alone, which costs no privacy. No record is anybody's: where the
release says nothing about how attributes go together, the records follow the mixture's guess.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dhdmm.errors import DhdmmError
from dhdmm.release.frames import DerivedTable
from dhdmm.release.intervals import DEFAULT_LEVEL, Floats, critical
from dhdmm.release.model import Mixture, answers_of, fit, fitted_terms, start_of
from dhdmm.release.records import synthesize
from dhdmm.study.coverage import COUNTED
from dhdmm.study.factor import Integers

if TYPE_CHECKING:
    from dhdmm.release.release import Release

MOST_RECORDS = 10_000_000


@dataclass(frozen=True)
class Quality:
    """How far the records' counts are from one table of the release.

    Counts are scaled to the records of the release. Of the true counts, 95 % would be inside, and
    their distance would be 1 in root mean square.

    Attributes:
        table: The table's name.
        answers: How many answers it has.
        inside: The share of counts inside the 95 % interval of the answer.
        distance: Root mean square of (count − answer) / standard error.
        largest: The largest of these, without its sign.
    """

    table: str
    answers: int
    inside: float
    distance: float
    largest: float


@dataclass(frozen=True, eq=False, repr=False)
class Synthetic(DerivedTable):
    """Made-up records, and how well their tables agree with the release.

    `to_arrow`, `to_pandas`, `to_csv` and `to_parquet` give the records, one column an attribute.

    Attributes:
        release: The release that they resemble.
        codes: (records, attributes), positions of values in the schema.
        quality: One report for each table of the release.
        unasked: Attributes that no table of the study is about: their values are drawn evenly.
    """

    release: Release
    codes: Integers
    quality: tuple[Quality, ...]
    unasked: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def _summary(self) -> dict[str, Any]:
        return {"records": len(self), "study": self.release.plan.study.name}

    def to_arrow(self) -> pa.Table:
        """The records as an Arrow table.

        Returns:
            A column for every attribute; a bin is written as its middle.
        """
        attributes = self.release.plan.study.schema.attributes
        return pa.table(
            {one.name: pa.array(one.examples(self.codes[:, a])) for a, one in enumerate(attributes)}
        )


def synthetic(release: Release, rows: int | None = None, seed: int = 1) -> Synthetic:
    """Records like those of the release, as many as it has unless another number is asked for."""
    fitted = fitted_terms(release)
    raw = [release.estimate.term(one.term) for one in fitted]
    mixture = _counted(release, fit(fitted, raw, start_of(release, release.estimate)))
    total = float(mixture.weights.sum())
    units = release.plan.study.schema.units  # parts of a record, where measured columns divide it
    number = max(1, round(total / units)) if rows is None else rows
    if not 1 <= number <= MOST_RECORDS:
        raise DhdmmError(f"between 1 and {MOST_RECORDS:,} records can be made, not {number:,}")
    rng = np.random.default_rng(seed)
    merged, counts = synthesize(mixture, fitted, number, rng)
    quality = _quality(release, total / number * answers_of(fitted, counts))
    axes = release.plan.strategy.axes[: len(release.plan.study.schema.attributes)]
    codes = [_values(axis.merged, merged[:, a], rng) for a, axis in enumerate(axes)]
    unasked = [
        attribute.name
        for attribute, axis in zip(release.plan.study.schema.attributes, axes, strict=True)
        if len(axis.orbit) == 1 < attribute.size
    ]
    return Synthetic(release, np.stack(codes, axis=1), quality, tuple(unasked))


def _counted(release: Release, mixture: Mixture) -> Mixture:
    """The records that were counted, where the study also asked for those that were left out."""
    if release.plan.study.coverage is None:
        return mixture
    *shares, rows = mixture.shares
    only = np.zeros_like(rows)
    only[:, COUNTED] = 1
    return replace(mixture, weights=mixture.weights * rows[:, COUNTED], shares=(*shares, only))


def _values(merged: Integers, classes: Integers, rng: np.random.Generator) -> Integers:
    """A value of each class, any of those that the strategy does not tell apart."""
    order = np.argsort(merged, kind="stable")
    sizes = np.bincount(merged)
    first = np.cumsum(sizes) - sizes
    return np.asarray(order[first[classes] + rng.integers(0, sizes[classes])])


def _quality(release: Release, answers: Floats) -> tuple[Quality, ...]:
    distance, errors = answers - release.answers, release.standard_errors
    tables = ((name, release.rows(name)) for name in release)
    asked = [(name, rows) for name, rows in tables if name != release.plan.study.coverage]
    return tuple(_of_table(name, distance[rows], errors[rows]) for name, rows in asked)


def _of_table(name: str, distance: Floats, errors: Floats) -> Quality:
    relative = np.abs(distance) / np.where(errors > 0, errors, 1.0)
    return Quality(
        name,
        len(relative),
        float(np.mean(relative <= critical(DEFAULT_LEVEL))),
        float(np.sqrt(np.mean(relative**2))),
        float(relative.max()),
    )
