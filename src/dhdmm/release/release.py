"""A release: what a round found out, with everything needed to check where it came from.

It keeps the plan, the noisy measurement M̂ and the number of survivors. Answers, standard errors and
tables follow from these three. The round's transcript, if there is one, says the same under the
coordinator's signature; `dhdmm verify` holds one against the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.errors import DhdmmError
from dhdmm.planning.plan import Plan
from dhdmm.release.effect import REPLICATES
from dhdmm.release.intervals import DEFAULT_LEVEL, Floats
from dhdmm.release.made import FIRST, Made
from dhdmm.release.tables import Table
from dhdmm.strategy.estimate import Estimate
from dhdmm.study.names import nearest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dhdmm.release.adjust import Adjusted
    from dhdmm.release.transcript import Transcript


@dataclass(frozen=True, eq=False)
class Release:
    """The outcome of one round of one plan: a mapping from the items' names to their tables."""

    plan: Plan
    round_id: bytes
    survivors: int
    measurement: NDArray[np.int64]
    transcript: Transcript | None = field(default=None, repr=False)
    made: Made | None = None
    """As it was stored; None: by this version, just now."""

    @cached_property
    def answers(self) -> Floats:
        """Unbiased, unweighted answers in the workload's order; they may be negative."""
        return self.plan.strategy.reconstruct(self.measurement)

    @cached_property
    def standard_errors(self) -> Floats:
        """Exact if all survivors followed the protocol, from the realised number of survivors."""
        return self.plan.expected_error(self.survivors).standard_errors

    # -- tables -----------------------------------------------------------------------------------

    @cached_property
    def _rows(self) -> dict[str, tuple[int, slice]]:
        """Where each item is in the workload and in the answers."""
        items = self.plan.study.workload.items
        ends = np.cumsum([item.queries for item in items]).tolist()
        starts = [0, *ends[:-1]]
        return {
            item.name: (i, slice(*rows))
            for i, (item, *rows) in enumerate(zip(items, starts, ends, strict=True))
        }

    def table(self, name: str, *, level: float = DEFAULT_LEVEL, joint: bool = False) -> Table:
        """One item's answers with intervals of this level.

        With `joint`, also wider bounds that hold for all answers of the release at once
        (Bonferroni): with probability `level`, not one of them is wrong.
        """
        if name not in self._rows:
            raise DhdmmError(f"the release has no table '{name}'", hint=nearest(name, self._rows))
        index, rows = self._rows[name]
        workload = self.plan.study.workload
        return Table(
            workload.schema,
            workload.items[index],
            self.answers[rows],
            self.standard_errors[rows],
            level,
            workload.queries if joint else None,
        )

    def rows(self, name: str) -> slice:
        """Where one item's answers are in `answers`."""
        return self._rows[name][1]

    def __getitem__(self, name: str) -> Table:
        return self.table(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def keys(self) -> list[str]:
        return list(self._rows)

    def values(self) -> list[Table]:
        return [self.table(name) for name in self._rows]

    def items(self) -> list[tuple[str, Table]]:
        return [(name, self.table(name)) for name in self._rows]

    # -- further questions ------------------------------------------------------------------------

    @cached_property
    def estimate(self) -> Estimate:
        """x̂ = A'⁺ M̂, which every answer is taken from."""
        return self.plan.strategy.estimate(self.measurement)

    def query(self, sql: str, *, level: float = DEFAULT_LEVEL, joint: bool = False) -> Table:
        """A counting query that the study did not ask, at no privacy cost; see docs/sql.md.

        Refuses one outside the strategy's row space, and names the nearest answerable ones. With
        `joint`, also bounds that hold for all answers of this query at once.
        """
        from dhdmm.release.questions import ask

        return ask(self, sql, level, joint)

    def adjusted(
        self,
        *,
        nonnegative: bool = False,
        integers: bool = False,
        consistent: bool = True,
        replicates: int = REPLICATES,
    ) -> Adjusted:
        """Answers that are not negative or whole, beside the raw ones, with the bias this brings.

        `consistent` ones are counted from one histogram, so that totals and parts agree; otherwise
        each answer is adjusted by itself. The bias is estimated on simulated rounds.
        """
        from dhdmm.release.adjust import Rules, adjust

        return adjust(self, Rules(nonnegative, integers, consistent), replicates)

    # -- files and pictures -----------------------------------------------------------------------

    def save(self, directory: str | Path, *, overwrite: bool = False) -> None:
        """Write the release directory, whole or not at all; see docs/releases.md."""
        from dhdmm.release import directory as directories

        directories.save(self, Path(directory), overwrite)

    @classmethod
    def load(cls, directory: str | Path) -> Release:
        """Read a release directory; refuses one that was changed."""
        from dhdmm.release import directory as directories

        return directories.load(Path(directory))

    def plot(self, item: str | None = None, path: str | Path | None = None) -> Figure:
        """A picture of one table or of the first ones, with error bars; `path` saves it."""
        from dhdmm.release.plot import plot

        return plot(self, item, path)

    @property
    def maker(self) -> Made:
        """Which dhdmm made it, when and in which formats."""
        return self.made or Made.here(self.plan)

    def provenance(self) -> dict[str, Any]:
        """Where the numbers come from and what they cost."""
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
        }
