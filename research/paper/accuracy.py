"""Units of work about accuracy: errors drawn again and again, beside what theory expects.

A result holds the expected RMSE and, for every repetition, the mean squared error over all queries.
The distributed mechanism is sampled in two ways: with the ideal sum, since secure aggregation gives
the same sum bit by bit, and by whole rounds with all their cryptography. Noise comes from key
streams that are derived from the seed; the records are not secret.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from dhdmm.planning.plan import Plan
from dhdmm.privacy.gaussian import DiscreteGaussian
from dhdmm.privacy.keystream import KeyStream
from dhdmm.release.decode import decode
from dhdmm.runner import enrol, run_round
from dhdmm.strategy.matrix import Floats
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.attributes import Codes
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study
from research.baselines import amplification
from research.baselines.central import (
    GaussianMechanism,
    central,
    exact_answers,
    local_gaussian,
)
from research.baselines.central import zero_answer_rmse as zero_rmse
from research.baselines.local import Chances, LocalModel
from research.paper.item import Row
from research.paper.records import fingerprint, records
from research.paper.settings import DELTA, Settings
from research.paper.studies import planned, strategy, study, varied
from research.paper.work import Result, Unit

SMALLEST_SENSITIVITY = 1000.0
"""The curator's strategy is scaled to it, so that discreteness plays no part."""


def points(found: Sequence[tuple[Row, Result]], family: Callable[[Row], Any]) -> list[Row]:
    """Each sampled RMSE with its Monte-Carlo standard error, beside the expected RMSE.

    The relative spread of the mean squared error is taken from all points of a `family` together:
    a handful of repetitions says little about their own spread, and along a curve it is the same,
    since other noise only scales the errors. `deviation` is sampled minus expected in standard
    errors; where nothing was repeated there is neither.
    """
    relative: dict[Any, list[float]] = {}
    for labels, result in found:
        squares = np.array(result["squares"])
        if len(squares) > 1:
            spread = float(squares.var(ddof=1) / squares.mean() ** 2)
            relative.setdefault(family(labels), []).append(spread)
    return [labels | _point(result, relative.get(family(labels), [])) for labels, result in found]


def _point(result: Result, relative: list[float]) -> Row:
    squares, expected = np.array(result["squares"]), result["expected_rmse"]
    rmse = math.sqrt(float(squares.mean()))
    error = None
    if relative:
        error = rmse * math.sqrt(float(np.mean(relative)) / len(squares)) / 2  # delta method
    return {
        "expected_rmse": expected,
        "rmse": rmse,
        "standard_error": error,
        "deviation": (rmse - expected) / error if error else None,
        "repetitions": len(squares),
    }


def largest_deviation(rows: Sequence[Mapping[str, Any]]) -> str:
    """A sentence about how well sampled and expected errors agree."""
    deviations = [abs(row["deviation"]) for row in rows if row["deviation"] is not None]
    beyond, by_chance = sum(d > 2 for d in deviations), math.erfc(math.sqrt(2)) * len(deviations)
    return (
        f"Sampled and expected RMSE differ by more than two Monte-Carlo standard errors at {beyond}"
        f" of {len(deviations)} points, where chance alone has {by_chance:.0f};"
        f" the largest difference is {max(deviations):.1f}."
    )


def distributed(settings: Settings, name: str, **variation: Any) -> Unit:
    """The mechanism with the ideal sum: every participant's noise, drawn by itself."""
    return _unit("distributed", settings, name, _ideal, settings.accuracy_repetitions, variation)


def rounds(settings: Settings, name: str, **variation: Any) -> Unit:
    """Whole rounds, with all parties and their cryptography."""
    return _unit("rounds", settings, name, _whole, settings.rounds, variation)


def model(settings: Settings, name: str, kind: str, epsilon: float) -> Unit:
    """A baseline: central, local, local-best, local-gaussian, shuffle, shuffle-best."""
    variation = {"epsilon": epsilon}
    return _unit(kind, settings, name, _MODELS[kind], settings.accuracy_repetitions, variation)


def zero(settings: Settings, name: str) -> Unit:
    """Answering zero everywhere."""
    return _unit("zero", settings, name, _zero, 1, {})


Compute = Callable[["_Trial"], Result]


class _Trial:
    """What every computation needs: who holds what, and independent randomness."""

    def __init__(
        self, settings: Settings, name: str, repetitions: int, variation: dict[str, Any]
    ) -> None:
        self.settings, self.name = settings, name
        self.repetitions, self.variation = repetitions, variation
        self.participants = settings.accuracy_participants

    @property
    def study(self) -> Study:
        return varied(study(self.name), self.participants, **self.variation)

    @property
    def plan(self) -> Plan:
        return planned(self.name, self.participants, **self.variation)

    @property
    def codes(self) -> Codes:
        settings, schema = self.settings, study(self.name).schema
        return records(self.name, schema, self.participants, settings.seed, settings.adult)

    @property
    def histogram(self) -> Histogram:
        return Histogram.of_records(self.codes)

    def streams(self) -> Iterator[KeyStream]:
        """One for every repetition."""
        for i in range(self.repetitions):
            words = f"{self.name} {self.variation} {self.settings.seed} {i}"
            yield KeyStream.from_key_for_tests(hashlib.sha256(words.encode()).digest())

    def generator(self) -> np.random.Generator:
        return np.random.default_rng(self.settings.seed + 1)


def _unit(
    kind: str,
    settings: Settings,
    name: str,
    compute: Compute,
    repetitions: int,
    variation: dict[str, Any],
) -> Unit:
    parameters = {
        "study": name,
        "participants": settings.accuracy_participants,
        "repetitions": repetitions,
        "seed": settings.seed,
        "records": fingerprint(name, settings.adult),
        **variation,
    }
    trial = _Trial(settings, name, repetitions, variation)
    return Unit(kind, parameters, lambda: compute(trial), alone=False)


def _ideal(trial: _Trial) -> Result:
    plan, histogram = trial.plan, trial.histogram
    exact, truth = plan.strategy.measure(histogram), exact_answers(plan.strategy, histogram)
    squares = []
    for stream in trial.streams():
        total = ideal_sum(plan, exact, stream)
        squares.append(_mean_square(plan.strategy.reconstruct(total) - truth))
    return {
        "expected_rmse": plan.expected_error().rmse,
        "honest_floor": plan.honest_floor,
        "squares": squares,
    }


def ideal_sum(plan: Plan, exact: Any, stream: KeyStream) -> Any:
    """Σ_i (A′x_i + noise_i) in Z_m, decoded: everybody's measurement, added by a trusted party.

    The exact parts add up to `exact` = A′x, so only the noise is drawn participant by participant.
    """
    sampler, noise = DiscreteGaussian(plan.participant_variance), np.zeros_like(exact)
    for i in range(plan.participants):
        noise += sampler.sample(plan.strategy.rows, stream.substream(b"%d" % i))
    return decode(plan, plan.modulus.residues(exact + noise))


def _whole(trial: _Trial) -> Result:
    plan, codes = trial.plan, trial.codes
    people = [Histogram.of_records(codes[i : i + 1]) for i in range(len(codes))]
    truth = exact_answers(plan.strategy, trial.histogram)
    squares = []
    for _ in range(trial.repetitions):
        release = run_round(enrol(plan), people).release
        squares.append(_mean_square(release.answers - truth))
    return {"expected_rmse": plan.expected_error().rmse, "squares": squares}


def _gaussian(make: Callable[[Study, Strategy], GaussianMechanism], trial: _Trial) -> Result:
    scaled, histogram = strategy(trial.name).rescaled(SMALLEST_SENSITIVITY), trial.histogram
    mechanism = make(trial.study, scaled)
    truth = exact_answers(scaled, histogram)
    squares = [
        _mean_square(mechanism.answers(histogram, stream) - truth) for stream in trial.streams()
    ]
    return {"expected_rmse": mechanism.expected_rmse, "squares": squares}


def _reports(chances: Chances, shuffled: bool, trial: _Trial) -> Result:
    epsilon = trial.variation["epsilon"]
    if shuffled:
        epsilon = _report_epsilon(epsilon, trial.participants)
    codes, generator = trial.codes, trial.generator()
    mechanism = _local_model(trial.name).mechanism(epsilon, trial.participants, chances)
    truth = exact_answers(strategy(trial.name), trial.histogram)
    squares = [
        _mean_square(mechanism.answers(codes, generator) - truth) for _ in range(trial.repetitions)
    ]
    return {
        "expected_rmse": mechanism.expected_rmse(codes),
        "squares": squares,
        "report_epsilon": epsilon,
        "tables": len(mechanism.reports),
        "randomisers": sorted(set(mechanism.randomisers)),
    }


def _zero(trial: _Trial) -> Result:
    rmse = zero_rmse(strategy(trial.name), trial.histogram)
    return {"expected_rmse": rmse, "squares": [rmse**2]}


_MODELS: dict[str, Compute] = {
    "central": lambda trial: _gaussian(central, trial),
    "local-gaussian": lambda trial: _gaussian(
        lambda asked, scaled: local_gaussian(asked, scaled, trial.participants), trial
    ),
    "local": lambda trial: _reports("equal", False, trial),
    "local-best": lambda trial: _reports("best", False, trial),
    "shuffle": lambda trial: _reports("equal", True, trial),
    "shuffle-best": lambda trial: _reports("best", True, trial),
}


@cache
def _local_model(name: str) -> LocalModel:
    return LocalModel.of(study(name).workload)


@cache
def _report_epsilon(epsilon: float, participants: int) -> float:
    return amplification.report_epsilon(epsilon, participants, DELTA)


def _mean_square(error: Floats) -> float:
    return float(np.mean(error**2))
