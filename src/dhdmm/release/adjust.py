"""Answers that look like counts, beside the unbiased ones: not negative, whole, agreeing.

Raw answers are unbiased, and every adjustment biases them. So each one keeps the raw answers, says
how far it moved them, and can estimate its own bias by repeating itself on simulated rounds.

*Agreeing* (`consistent`) means: all answers are counted from one histogram without negative cells,
a mixture fitted to the answers (model.py), on any domain. Whole, they are counted from made-up
records (records.py). Without `consistent` each answer is cut at 0 and rounded by itself, and totals
no longer agree with their parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dhdmm.errors import DhdmmError
from dhdmm.release.derived import derived_table
from dhdmm.release.effect import Effect, effect_of, noises, with_bias
from dhdmm.release.frames import DerivedTable, appended, columns_of, preview
from dhdmm.release.intervals import Floats, Sums
from dhdmm.release.model import SEED, Mixture, Start, answers_of, fit, fitted_terms, start_of
from dhdmm.release.records import synthesize
from dhdmm.release.tables import Table
from dhdmm.summary import Summarised

if TYPE_CHECKING:
    from dhdmm.release.release import Release


@dataclass(frozen=True)
class Rules:
    """What adjusted answers must be."""

    nonnegative: bool
    integers: bool
    consistent: bool


@dataclass(frozen=True, eq=False, repr=False)
class AdjustedTable(DerivedTable):
    """One table of a release with its adjusted answers.

    Attributes:
        raw: The table as the release has it.
        values: The adjusted answers; means and quantiles are those of adjusted counts and sums.
        bias: Their estimated bias; None if it was not estimated, as that of means and quantiles.
    """

    raw: Table
    values: Floats
    bias: Floats | None

    def __len__(self) -> int:
        return len(self.raw)

    def _preview(self) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        return preview(self.to_arrow())

    def to_arrow(self) -> pa.Table:
        """The table as an Arrow table.

        Returns:
            The raw table's columns, then `adjusted_value` and, if estimated, `estimated_bias`.
        """
        columns = {"adjusted_value": self.values}
        if self.bias is not None:
            columns["estimated_bias"] = self.bias
        return appended(columns_of(self.raw.to_arrow()), columns)


@dataclass(frozen=True, eq=False, repr=False)
class Adjusted(Summarised, Mapping[str, AdjustedTable]):
    """A release's answers under some rules: a mapping from the names of tables to the tables.

    `answers` are all adjusted answers, `bias` their estimated bias (None if it was not estimated),
    `effect` says how far they moved.
    """

    release: Release
    rules: Rules
    answers: Floats
    """In the workload's order, like `release.answers`."""
    bias: Floats | None
    effect: Effect

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def _summary(self) -> dict[str, Any]:
        rules = [rule for rule, holds in asdict(self.rules).items() if holds]
        return {"tables": len(self), "rules": ", ".join(rules), "moved": self.effect.moved}

    def __getitem__(self, name: str) -> AdjustedTable:
        raw, rows = self.release.measured(name), self.release.rows(name)
        adjusted = self.answers[rows]
        if not raw.item.derived:
            return AdjustedTable(raw, adjusted, None if self.bias is None else self.bias[rows])
        counts = replace(raw, numbers=Sums(adjusted, raw.standard_errors))
        return AdjustedTable(self.release[name], derived_table(self.release, counts).values, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self.release)

    def __len__(self) -> int:
        return len(self.release)


def adjust(release: Release, rules: Rules, replicates: int = 0) -> Adjusted:
    """Adjusted answers with their measured effect; 0 replicates leave the bias unestimated."""
    if not (rules.nonnegative or rules.integers):
        raise DhdmmError("nothing to adjust", hint="ask for nonnegative or integers, or both")
    if replicates < 0 or replicates == 1:
        raise DhdmmError("a bias is estimated from at least 2 simulated rounds, or from none")
    answers, misfit, again = (_together if rules.consistent else _each)(release, rules)
    moved = replace(effect_of(release, answers), misfit=misfit)
    if not replicates:
        return Adjusted(release, rules, answers, None, moved)
    errors = np.stack([again(noise) - answers for noise in noises(release, replicates)])
    effect = with_bias(moved, errors, release.standard_errors)
    return Adjusted(release, rules, answers, errors.mean(axis=0), effect)


# ---- two ways -----------------------------------------------------------------------------------


Outcome = tuple[Floats, float | None, Callable[[Floats], Floats]]
"""Adjusted answers; the misfit, if a histogram was fitted; and a function that repeats the
adjustment, with the adjusted answers for the truth and its argument for the noise of the sums."""


def _each(release: Release, rules: Rules) -> Outcome:
    """Every answer cut at 0 and rounded, whatever the others are."""
    answers = _cut(release.answers, rules)
    return (
        answers,
        None,
        lambda noise: _cut(answers + release.plan.strategy.reconstruct(noise), rules),
    )


def _cut(answers: Floats, rules: Rules) -> Floats:
    kept = np.maximum(answers, 0) if rules.nonnegative else answers
    return np.rint(kept) + 0.0 if rules.integers else kept  # + 0.0: no negative zero


def _together(release: Release, rules: Rules) -> Outcome:
    """All answers counted from one mixture, or from records drawn from it."""
    fitted = fitted_terms(release)

    def counted(raw: list[Floats], start: Start) -> tuple[Mixture, list[Floats]]:
        mixture = fit(fitted, raw, start)
        tables, units = [mixture.count(one.queries) for one in fitted], 1
        if rules.integers:
            units = release.plan.study.schema.units  # parts of a record, where columns divide it
            number = max(1, round(float(mixture.weights.sum()) / units))
            _, tables = synthesize(mixture, fitted, number, np.random.default_rng(SEED))
        return mixture, [units * np.asarray(table, np.float64) for table in tables]

    def answers(tables: list[Floats]) -> Floats:
        found = answers_of(fitted, tables)
        return np.rint(found) + 0.0 if rules.integers else found

    raw = [release.estimate.term(one.term) for one in fitted]
    mixture, truth = counted(raw, start_of(release, release.estimate))

    def again(noise: Floats) -> Floats:
        strayed = release.plan.strategy.estimate(noise)
        pairs = zip(truth, fitted, strict=True)
        raw = [table.ravel() + strayed.term(one.term) for table, one in pairs]
        return answers(counted(raw, start_of(release, strayed, mixture))[1])

    return answers(truth), mixture.misfit, again
