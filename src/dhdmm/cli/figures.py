"""What `dhdmm plan` shows, as plain values: the strategy's certificate, the plan, a comparison.

Heavy imports stand at the top: the command imports this module when it runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.baselines import strategies
from dhdmm.baselines.strategies import Baseline
from dhdmm.planning.calibrate import participants_allowed
from dhdmm.planning.draft import draft
from dhdmm.planning.plan import ExpectedError, Plan, Promise
from dhdmm.privacy.zcdp import Conversion
from dhdmm.secagg.masks import Modulus, packed_size
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.describe import privacy_words
from dhdmm.study.spec import Study

STEPS = 3
"""Strategy, plan, comparison."""


def figures(
    study: Study,
    participants: int | None = None,
    compare: bool = False,
    advance: Callable[[int], None] = lambda _done: None,
) -> dict[str, Any]:
    """The plan's figures, or the strategy's alone for a study that says nothing of privacy."""
    wants_plan = participants is not None or bool(study.privacy and study.aggregation)
    if wants_plan:
        study.sections()  # refuses before the work, not after it
    start = perf_counter()
    strategy = optimise(study.workload)
    seconds = perf_counter() - start
    advance(1)
    if wants_plan:
        document = _plan_figures(study, strategy, participants)
    else:
        document = _strategy_figures(study, strategy)
    document["optimise_seconds"] = seconds
    advance(2)
    if compare:
        document["compare"] = _comparison(study, strategy, document.get("modulus_bits"))
    return document


def _strategy_figures(study: Study, strategy: Strategy) -> dict[str, Any]:
    """For a study that only asks: errors at sensitivity 1 and noise 1."""
    encoded = strategy.to_bytes()
    errors = (strategy.sensitivity_squared * strategy.variances()) ** 0.5

    def check() -> int:
        return Strategy.from_bytes(encoded).sensitivity_squared

    return {
        **_certificate(study, strategy),
        "plan_bytes": len(encoded),
        "plan_check_ms": _milliseconds(check),
        "items": item_figures(study, errors),
    }


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


def _plan_figures(study: Study, strategy: Strategy, participants: int | None) -> dict[str, Any]:
    _, aggregation = study.sections()
    drafted = draft(study, strategy)
    made = drafted.plan(participants or participants_allowed(aggregation)[1])
    encoded, expected, promise = made.to_bytes(), made.expected_error(), made.promise
    return {
        **_certificate(study, made.strategy),
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
        "minimum_survivors": made.graph.minimum_survivors,
        "modulus_bits": made.modulus.bits,
        "degree": made.graph.degree,
        "threshold": made.graph.threshold,
        "margin": made.graph.margin,
        "participant_bytes": packed_size(made.modulus, made.strategy.rows),
        "sensitivity_unit_squared": made.sensitivity_squared,
        "expected_rmse": expected.rmse,
        "items": item_figures(study, expected.standard_errors),
        "plan_bytes": len(encoded),
        "plan_check_ms": _milliseconds(lambda: _recomputed(Plan.from_bytes(encoded))),
        "plan_digest": made.digest.hex(),
        "draft_digest": drafted.digest.hex(),
    }


def _recomputed(made: Plan) -> tuple[int, Promise, int]:
    """What a participant does not believe of a plan, and that takes time."""
    return made.sensitivity_squared, made.promise, made.modulus_needed


def _milliseconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return (perf_counter() - start) * 1000


def item_figures(study: Study, errors: NDArray[np.float64]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "queries": len(own),
            "standard_error_median": float(np.median(own)),
            "standard_error_max": float(own.max()),
        }
        for name, own in ExpectedError(study, errors).by_item().items()
    ]


def promise_words(made: Plan) -> str:
    """The study's promise with the (ε, δ) that this very plan keeps, rounded up."""
    epsilon = math.ceil(made.promise.epsilon * 1e4) / 1e4
    kept = {"rho": None, "epsilon": epsilon, "delta": made.promise.delta}
    return privacy_words(made.sections[0].model_copy(update=kept))


def _comparison(study: Study, strategy: Strategy, bits: int | None) -> list[dict[str, Any]]:
    ours = strategies.Baseline("dhdmm", strategy.rows, strategy.rmse)
    others = strategies.compare(study.workload, strategy.rows)
    return [_compared(one, strategy.lower_bound, bits) for one in (ours, *others)]


def _compared(one: Baseline, bound: float | None, bits: int | None) -> dict[str, Any]:
    """Messages at the bits a sum that this plan has; without a plan they are not known."""
    sent = packed_size(Modulus(1 << bits), one.rows) if bits and one.rows else None
    return {
        "name": one.name,
        "rows": one.rows,
        "rmse_unit": one.rmse,
        "ratio": one.rmse / bound if one.rmse and bound else None,
        "participant_bytes": sent,
        "note": one.note,
    }
