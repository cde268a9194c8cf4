"""A release: what a round found out, with everything needed to check where it came from.

It keeps the plan, the noisy measurement M̂ and the number of survivors. Answers, standard errors and
tables follow from these three. The round's transcript, if there is one, says the same under the
coordinator's signature; `dhdmm verify` holds one against the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.errors import UnknownTable
from dhdmm.planning.plan import Plan
from dhdmm.release.coverage import Coverage, coverage_of
from dhdmm.release.intervals import DEFAULT_LEVEL, Floats, Sums
from dhdmm.release.made import FIRST, Made
from dhdmm.release.tables import Table
from dhdmm.strategy.estimate import Estimate
from dhdmm.study.names import nearest
from dhdmm.study.workload import Item
from dhdmm.summary import Summarised
from dhdmm.threads import one_blas_thread

if TYPE_CHECKING:
    from dhdmm.release.adjust import Adjusted
    from dhdmm.release.charts.page import Chart
    from dhdmm.release.synthetic import Synthetic
    from dhdmm.release.transcript import Transcript

PREVIEWED = 10
"""Tables that a notebook lists."""
KEPT_COVARIANCES = 10_000_000
"""Entries of covariance matrices above which the oldest is forgotten."""


@dataclass(frozen=True, eq=False, repr=False)
class Release(Summarised, Mapping[str, Table]):
    """The outcome of one round of one plan: a mapping from the names of tables to the tables.

    Make one with `dhdmm.run` or read one with `Release.load`. `release["by age"]` is a table with
    95 % intervals; `release.items()`, `len(release)` and `"by age" in release` work as for a dict.
    Two releases are equal only if they are the same object.

    Example:
        >>> release = Release.load("hospitals")  # doctest: +SKIP
        >>> release["by ward and sex"].to_pandas()  # doctest: +SKIP
        >>> release.plot().save("hospitals.svg")  # doctest: +SKIP
    """

    plan: Plan
    round_id: bytes
    survivors: int
    measurement: NDArray[np.int64]
    transcript: Transcript | None = field(default=None, repr=False)
    made: Made | None = None
    """As it was stored; None if this version made it in this process."""
    unremoved: int = 0
    """How many survivors have left in the sums what was in excess of their noise, where the study
    has that removed."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def _summary(self) -> dict[str, Any]:
        return {
            "study": self.plan.study.name,
            "tables": len(self.plan.study.model.workload),
            "survivors": self.survivors,
            "participants": self.plan.participants,
            "round": self.round_id.hex(),
        }

    def _preview(self) -> tuple[tuple[str, ...], Iterable[tuple[str, int]]]:
        items = self.plan.study.workload.items
        return ("table", "rows"), ((item.name, item.queries) for item in items[:PREVIEWED])

    @cached_property
    def answers(self) -> Floats:
        """All answers in the workload's order, unbiased and unweighted; they may be negative."""
        return np.concatenate([self.estimate.term(t) for t in self.plan.study.workload.terms])

    @cached_property
    def standard_errors(self) -> Floats:
        """The standard errors of `answers`; exact if all survivors followed the protocol."""
        return self.plan.expected_error(self.survivors, self.unremoved).standard_errors

    @property
    def measurement_variance(self) -> float:
        """Of the noise in every measurement."""
        return float(self.plan.noise_variance(self.survivors, self.unremoved))

    def covariance(self, name: str, other: str | None = None) -> Floats:
        """The exact covariances of the answers of one table, or of one table with another.

        Args:
            name: The name of a table.
            other: The name of the table of the columns; None for the same table.

        Returns:
            A matrix with a row for every answer of the table.

        Raises:
            UnknownTable: The release has no table of this name.
            DhdmmError: The matrix would be too large.
        """
        return self.covariance_of(self._item(name), self._item(name if other is None else other))

    def covariance_of(self, left: Item, right: Item) -> Floats:
        """`covariance` of items, also of items that `query` made.

        Args:
            left: The rows.
            right: The columns.

        Returns:
            The matrix; it is computed once.
        """
        from dhdmm.release.covariance import covariance

        known = self._covariances
        if (left, right) not in known:
            while sum(matrix.size for matrix in known.values()) > KEPT_COVARIANCES:
                del known[next(iter(known))]
            known[left, right] = covariance(self, left, right)
        return known[left, right]

    @cached_property
    def _covariances(self) -> dict[tuple[Item, Item], Floats]:
        return {}

    # -- tables -----------------------------------------------------------------------------------

    @cached_property
    def _rows(self) -> dict[str, slice]:
        return self.plan.study.workload.rows

    def table(self, name: str, *, level: float = DEFAULT_LEVEL, joint: bool = False) -> Table:
        """One table with intervals of a chosen confidence level.

        Args:
            name: The name of an item of the study's workload.
            level: The confidence level of each answer's interval.
            joint: Also give wider bounds that hold for all answers of the release at once
                (Bonferroni): with probability `level`, none of them is wrong.

        Returns:
            The table.

        Raises:
            UnknownTable: The release has no table of this name.
        """
        measured = self.measured(name, level=level, joint=joint)
        if not measured.item.derived:
            return measured
        from dhdmm.release.derived import derived_table

        return derived_table(self, measured)

    def measured(self, name: str, *, level: float = DEFAULT_LEVEL, joint: bool = False) -> Table:
        """What was measured for a table: of means the sums and counts, of quantiles the prefixes.

        Args:
            name: The name of an item of the study's workload.
            level: The confidence level of each answer's interval.
            joint: As in `table`.

        Returns:
            The table of linear answers; of other tables, the table itself.

        Raises:
            UnknownTable: The release has no table of this name.
        """
        item, rows, workload = self._item(name), self._rows[name], self.plan.study.workload
        numbers = Sums(self.answers[rows], self.standard_errors[rows])
        together = workload.queries if joint else None
        return Table(workload.schema, item, numbers, level, together, release=self)

    def _item(self, name: str) -> Item:
        if name not in self._rows:
            raise UnknownTable(f"the release has no table '{name}'", hint=nearest(name, self._rows))
        return next(item for item in self.plan.study.workload.items if item.name == name)

    def rows(self, name: str) -> slice:
        """Where the answers of one table are.

        Args:
            name: The name of the table.

        Returns:
            Its part of `answers` and `standard_errors`.
        """
        return self._rows[name]

    def __getitem__(self, name: str) -> Table:
        return self.table(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: object) -> bool:  # without making the table
        return name in self._rows

    @property
    def coverage(self) -> Coverage | None:
        """How many rows were counted and left out, with noise; None if the study did not ask."""
        return coverage_of(self)

    # -- further questions ------------------------------------------------------------------------

    @cached_property
    def estimate(self) -> Estimate:
        """The least-squares histogram x̂ = A'⁺ M̂, from which every answer is computed."""
        with one_blas_thread():  # the same bits on any number of cores
            return self.plan.strategy.estimate(self.measurement)

    def query(self, sql: str, *, level: float = DEFAULT_LEVEL, joint: bool = False) -> Table:
        """Answer a counting query that the study did not ask, at no privacy cost.

        Args:
            sql: A query over the table `data`, see docs/sql.md.
            level: The confidence level of each answer's interval.
            joint: Also give bounds that hold for all answers of this query at once.

        Returns:
            A table with one row per group.

        Raises:
            StudyError: The query is not one that a study may ask.
            NotMeasured: The answer does not follow from what the round measured; the error names
                the nearest queries whose answers do.
        """
        from dhdmm.release.questions import ask

        return ask(self, sql, level, joint)

    def adjusted(
        self,
        *,
        nonnegative: bool = False,
        integers: bool = False,
        consistent: bool = True,
        replicates: int = 0,
    ) -> Adjusted:
        """Answers that look like counts, beside the raw ones, and the bias that this brings.

        Args:
            nonnegative: No adjusted answer is negative.
            integers: Every adjusted answer is a whole number; with `consistent` they are counts of
                made-up records, and so not negative either.
            consistent: All answers are counted from one histogram, so that totals and parts agree;
                otherwise each answer is adjusted by itself.
            replicates: How many simulated rounds the bias is estimated from; 0 for no estimate.

        Returns:
            A mapping from the names of tables to `AdjustedTable`s, with the effect on all answers.

        Raises:
            DhdmmError: Nothing is to be adjusted.
        """
        from dhdmm.release.adjust import Rules, adjust

        return adjust(self, Rules(nonnegative, integers, consistent), replicates)

    def synthesize(self, rows: int | None = None, *, seed: int = 1) -> Synthetic:
        """Make up records whose tables agree with this release about as well as it knows them.

        Args:
            rows: How many records; None for as many as the release counted.
            seed: Another number gives other records.

        Returns:
            The records, with a report of their quality.

        Raises:
            DhdmmError: The number of records is not possible.
        """
        from dhdmm.release.synthetic import synthetic

        return synthetic(self, rows, seed)

    # -- files and pictures -----------------------------------------------------------------------

    def save(self, directory: str | Path, *, overwrite: bool = False) -> None:
        """Write the release as a directory, completely or not at all; see docs/releases.md.

        Args:
            directory: A path at which nothing is yet.
            overwrite: Replace a release that is already there.

        Raises:
            ReleaseError: The directory exists or cannot be written.
        """
        from dhdmm.release import directory as directories

        directories.save(self, Path(directory), overwrite)

    @classmethod
    def load(cls, directory: str | Path) -> Release:
        """Read a release directory.

        Args:
            directory: What `save` or a coordinator wrote.

        Returns:
            The release.

        Raises:
            ReleaseError: The directory is not a complete release, or one of its files was changed.
        """
        from dhdmm.release import directory as directories

        return directories.load(Path(directory))

    def plot(self, item: str | None = None, path: str | Path | None = None) -> Chart:
        """Draw one table, or the first few, with error bars.

        Args:
            item: The name of a table; None for the first few.
            path: Where to save the picture, a file name that ends in .svg; None to save nothing.

        Returns:
            The picture, which notebooks show; `to_svg()` is its text and `save(path)` writes it.

        Raises:
            DhdmmError: There is no such table, or the file's name ends otherwise.
        """
        from dhdmm.release.charts.page import plot

        return plot(self, item, path)

    @property
    def maker(self) -> Made:
        """Which version of dhdmm made it, when, and in which formats."""
        return self.made or Made.here(self.plan)

    def provenance(self) -> dict[str, Any]:
        """Where the numbers come from and what they cost.

        Returns:
            The study, digests, round, participants and (ε, δ), as in `release.json`.
        """
        promise, made = self.plan.promise, self.maker
        return {
            "study": self.plan.study.name,
            "dhdmm": made.dhdmm,
            "date": made.date,
            "formats": {kind: made.formats[kind] for kind in FIRST},
            "plan_digest": self.plan.digest.hex(),
            "roster_digest": self.plan.roster_digest.hex(),
            "round": self.round_id.hex(),
            "threat_model": self.plan.threat_model.value,
            "participants": self.plan.participants,
            "survivors": self.survivors,
            "honest_floor": self.plan.honest_floor,
            "rho": float(self.plan.rho),
            "epsilon": promise.epsilon,
            "delta": promise.delta,
            "coverage": self.plan.study.coverage,
            **({"unremoved": self.unremoved} if self.plan.removable else {}),
        }
