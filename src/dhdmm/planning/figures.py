"""A plan, or a strategy alone, in figures: what `dhdmm plan`, `dhdmm review` and the pages show."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.modulus import packed_size
from dhdmm.planning.calibrate import participants_allowed
from dhdmm.planning.draft import Draft
from dhdmm.planning.plan import ExpectedError, Plan, Promise
from dhdmm.privacy.zcdp import Conversion
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.describe import privacy_words
from dhdmm.study.spec import Study


def strategy_figures(study: Study, strategy: Strategy) -> dict[str, Any]:
    """For a study that only asks: errors at sensitivity 1 and noise 1."""
    encoded = strategy.to_bytes()
    errors = study.schema.units * (strategy.sensitivity_squared * strategy.variances()) ** 0.5

    def check() -> int:
        return Strategy.from_bytes(encoded).sensitivity_squared

    return {
        **_certificate(study, strategy),
        "plan_bytes": len(encoded),
        "plan_check_ms": _milliseconds(check),
        "items": item_figures(study, errors),
    }


def draft_figures(drafted: Draft, participants: int | None = None) -> dict[str, Any]:
    """The plan for so many participants, by default the most that the study allows."""
    made = drafted.plan(participants or participants_allowed(drafted.study.aggregation)[1])
    return {**plan_figures(made), "draft_digest": drafted.digest.hex()}


def plan_figures(made: Plan) -> dict[str, Any]:
    """Everything about a plan that a person may want to know before any data is touched."""
    encoded, expected, promise = made.to_bytes(), made.expected_error(), made.promise
    return {
        **_certificate(made.study, made.strategy),
        "participants": made.participants,
        "threat_model": made.threat_model.value,
        "rho": float(made.rho),
        "epsilon": promise.epsilon,
        "delta": promise.delta,
        "epsilon_cks": Conversion.CKS.epsilon(made.rho, promise.delta),
        "epsilon_paper": Conversion.PAPER.epsilon(made.rho, promise.delta),
        "privacy": promise_words(made),
        "sigma_participant": math.sqrt(made.participant_variance),
        "honest_floor": made.honest_floor,
        "modulus_bits": made.modulus.bits,
        **made.parameters.fields(),
        "participant_bytes": packed_size(made.modulus, made.strategy.rows),
        "sensitivity_unit_squared": made.sensitivity_squared,
        "expected_rmse": expected.rmse,
        "items": item_figures(made.study, expected.standard_errors),
        "plan_bytes": len(encoded),
        "plan_check_ms": _milliseconds(lambda: _recomputed(Plan.from_bytes(encoded))),
        "plan_digest": made.digest.hex(),
    }


def item_figures(study: Study, errors: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Of every table: how many answers it has, and their expected standard errors."""
    return [
        {
            "name": name,
            "queries": len(own),
            "standard_error_median": float(np.median(own)),
            "standard_error_max": float(own.max()),
        }
        for name, own in ExpectedError(study, errors).by_item().items()
    ]


def promise_words(made: Plan, promise: Promise | None = None) -> str:
    """The study's promise with the (ε, δ) that this very plan keeps, or another pair that it keeps.

    ε is rounded up.
    """
    promise = promise or made.promise
    kept = {"rho": None, "epsilon": rounded_up(promise.epsilon), "delta": promise.delta}
    return privacy_words(made.study.privacy.model_copy(update=kept))


def rounded_up(epsilon: float) -> float:
    """To four decimals."""
    return math.ceil(epsilon * 1e4) / 1e4


def _certificate(study: Study, strategy: Strategy) -> dict[str, Any]:
    return {
        "study": study.name,
        "queries": study.workload.queries,
        "weighted": len({term.weight for term in study.workload.terms}) > 1,
        "cells": study.workload.cells,
        "rows": strategy.rows,
        "rmse_unit": strategy.rmse,
        "lower_bound_unit": strategy.lower_bound,
        "ratio": strategy.ratio,
        "sensitivity_squared": strategy.sensitivity_squared,
    }


def _recomputed(made: Plan) -> tuple[int, Promise, int]:
    """What a participant does not believe of a plan, and that takes time."""
    return made.sensitivity_squared, made.promise, made.modulus_needed


def _milliseconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return (perf_counter() - start) * 1000
