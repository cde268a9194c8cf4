"""What an adjustment does to the answers of a release: how far it moves them, and its bias.

The bias is a parametric bootstrap: take the adjusted answers for the truth, add simulated noise of
the round's own covariance, adjust again, and see where the answers come out on average.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dhdmm.release.intervals import Floats
from dhdmm.study.workload import Term, with_rows

if TYPE_CHECKING:
    from dhdmm.release.release import Release

ROUNDING = 1e-9
"""Relative difference of two totals that is an effect of floating point alone."""
NOTICEABLE = 0.01
"""Standard errors that an answer moves before it counts as moved."""


@dataclass(frozen=True)
class Effect:
    """What an adjustment did to all answers of a release, and what it does on average."""

    answers: int
    moved: int
    """By more than a hundredth of their standard errors."""
    mean_shift: float
    largest_shift: float
    largest_shift_in_errors: float
    disagreement: float | None
    """Largest difference between grand totals of different tables; None if only one has it."""
    misfit: float | None = None
    """Root mean square of the shifts in standard errors, where one histogram was fitted."""
    replicates: int = 0
    """Simulated rounds; without them, nothing is known about the bias."""
    mean_bias: float | None = None
    """Over all answers, estimated on simulated rounds around the adjusted answers."""
    mean_bias_error: float | None = None
    """Standard error of that estimate: the simulation's own noise."""
    rms_bias: float | None = None
    """Root mean square of the bias of an answer, never below |mean_bias|."""
    rms_bias_in_errors: float | None = None
    """The same of bias / standard error."""

    def __str__(self) -> str:
        parts = [
            f"{self.moved:,} of {self.answers:,} answers moved, by {self.mean_shift:+.3g} on"
            f" average over all and at most {self.largest_shift:.3g}"
            f" ({self.largest_shift_in_errors:.2g} standard errors).",
            "This biases the answers; the raw ones are unbiased.",
        ]
        if self.misfit is not None:
            parts.append(
                f"In root mean square they moved by {self.misfit:.2g} standard errors; noise alone"
                " explains up to 1."
            )
        if self.mean_bias is None:
            parts.append("Their bias was not estimated.")
        else:
            parts.append(
                f"In {self.replicates} simulated rounds the bias was {self.mean_bias:+.3g}"
                f" ± {self.mean_bias_error:.2g} on average, and {self.rms_bias:.3g}"
                f" ({self.rms_bias_in_errors:.2g} standard errors) in root mean square."
            )
        if self.disagreement == 0:
            parts.append("The tables have the same grand total.")
        elif self.disagreement is not None:
            parts.append(f"Grand totals of the tables differ by up to {self.disagreement:.3g}.")
        return " ".join(parts)


def noises(release: Release, count: int) -> Iterator[Floats]:
    """Simulated noise of whole rounds: normal, rounded, the same in every run."""
    from scipy.special import ndtri  # slow to import, and rarely needed

    rows = len(release.measurement)
    for i in range(count):
        digest = hashlib.shake_256(b"dhdmm bias" + i.to_bytes(4, "big")).digest(8 * rows)
        uniform = (np.frombuffer(digest, "<u8") >> np.uint64(11)).astype(np.float64) + 0.5
        yield np.rint(math.sqrt(release.measurement_variance) * ndtri(uniform / 2**53))


def effect_of(release: Release, answers: Floats) -> Effect:
    """How far the adjusted answers are from the raw ones."""
    shifts = answers - release.answers
    relative = np.abs(shifts) / _positive(release.standard_errors)
    return Effect(
        answers=len(answers),
        moved=int(np.count_nonzero(relative > NOTICEABLE)),
        mean_shift=float(shifts.mean()),
        largest_shift=float(np.abs(shifts).max()),
        largest_shift_in_errors=float(relative.max()),
        disagreement=_disagreement(release, answers),
    )


def with_bias(effect: Effect, errors: Floats, standard_errors: Floats) -> Effect:
    """errors: (replicates, answers)."""
    replicates, means = len(errors), errors.mean(axis=1)
    return replace(
        effect,
        replicates=replicates,
        mean_bias=float(means.mean()),
        mean_bias_error=float(means.std(ddof=1)) / math.sqrt(replicates),
        rms_bias=_root_mean_square(errors),
        rms_bias_in_errors=_root_mean_square(errors / _positive(standard_errors)),
    )


def _root_mean_square(errors: Floats) -> float:
    """Of the answers' biases, estimated by means over replicates.

    The variance that such a mean has by itself is taken off its square. That may take off too
    much, where all answers err together: what is left must not be below the square of their mean.
    """
    means = errors.mean(axis=0)
    square = float((means**2 - errors.var(axis=0, ddof=1) / len(errors)).mean())
    return max(math.sqrt(max(square, 0.0)), abs(float(errors.mean(axis=1).mean())))


def _positive(standard_errors: Floats) -> Floats:
    """An answer that is always 0 has error 0, and never moves."""
    return np.where(standard_errors > 0, standard_errors, 1.0)


def _disagreement(release: Release, answers: Floats) -> float | None:
    """Largest difference between the grand totals of terms that count every record once."""
    totals = [
        float(answers[rows].sum())
        for term, rows in with_rows(release.plan.study.workload.terms)
        if _counts_everyone_once(term)
    ]
    if len(totals) < 2:
        return None
    apart = max(totals) - min(totals)
    return apart if apart > ROUNDING * max(map(abs, totals)) else 0.0


def _counts_everyone_once(term: Term) -> bool:
    if len(term.products) > 1 or term.products[0].coefficient != 1:
        return False
    factors = term.products[0].factors
    return all(
        bool(np.all(factor.transpose_dot(np.ones(factor.shape[0], np.int64)) == 1))
        for factor in factors
    )
