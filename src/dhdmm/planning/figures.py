"""A plan, or a strategy alone, in figures: what `dhdmm plan`, `dhdmm review` and the pages show."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.planning.calibrate import noise_length, participants_allowed
from dhdmm.planning.draft import Draft
from dhdmm.planning.plan import Plan, Promise
from dhdmm.planning.targets import Targets, study_for
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
    found = {**plan_figures(made), "draft_digest": drafted.digest.hex()}
    targets = Targets(drafted.study.targets)
    if targets.tables:
        found["privacy_needed"] = privacy_needed(drafted, targets, made.participants)
    return found


def privacy_needed(drafted: Draft, targets: Targets, participants: int) -> dict[str, Any]:
    """The smallest ε that reaches the targets with this strategy."""
    needed = study_for(drafted.study, drafted.strategy, targets, participants).privacy
    return {"epsilon": needed.epsilon, "delta": needed.delta}


def plan_figures(made: Plan) -> dict[str, Any]:
    """Everything about a plan that a person may want to know before any data is touched."""
    encoded, expected, promise = made.to_bytes(), made.expected_error(), made.promise
    items = item_figures(made.study, expected.standard_errors)
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
        "participant_bytes": made.input_bytes,
        "validation": made.study.aggregation.validation,
        "norm_bound": made.norm_bound,
        "validation_delta": made.validation_delta,
        "liar_standard_errors": liar_errors(made),
        "liars": validation_words(made, items),
        "excess_noise": made.study.aggregation.excess_noise,
        "excess": excess_words(made),
        "sensitivity_unit_squared": made.sensitivity_squared,
        "expected_rmse": expected.rmse,
        "expected_max": float(expected.standard_errors.max()),
        "items": items,
        "plan_bytes": len(encoded),
        "plan_check_ms": _milliseconds(lambda: _recomputed(Plan.from_bytes(encoded))),
        "plan_digest": made.digest.hex(),
    }


def item_figures(study: Study, errors: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Of every table: how many queries it has, and the expected standard errors of its answers.

    Where a table has sums and counts, as that of a mean, the errors are those of the sums.
    """
    described = described_rows(study)
    return [
        {
            "name": item.name,
            "queries": item.queries,
            "errors_of": "sums" if any(term.sum_of for term in item.terms) else "counts",
            "standard_error_median": float(np.median(errors[described[item.name]])),
            "standard_error_max": float(errors[described[item.name]].max()),
            **({"target": study.targets[item.name]} if item.name in study.targets else {}),
        }
        for item in study.workload.items
    ]


def described_rows(study: Study) -> dict[str, NDArray[np.intp]]:
    """The queries that a table's errors are about: its sums if it has any, else its counts."""
    counts, found = study.workload.counts, {}
    for name, part in study.workload.rows.items():
        own = np.arange(part.start, part.stop)
        found[name] = own if counts[part].all() else own[~counts[part]]
    return found


def liar_errors(made: Plan) -> float:
    """How many standard errors one input within the bound moves an answer by, at the most.

    An input y adds wA′⁺y to the answer w, at most B·‖wA′⁺‖, and the answer's standard error is
    σ_c·√n·‖wA′⁺‖. Where excess noise is removed, false seeds may add as much as they expand to.
    """
    longest, divided = made.norm_bound, made.removable
    if divided is not None:
        longest += noise_length(divided.most_removed, made.strategy.rows)
    return longest / math.sqrt(made.noise_variance(made.participants))


def validation_words(made: Plan, items: list[dict[str, Any]]) -> str:
    """What a participant, or a coordinator, that lies can do to the answers."""
    level = made.study.aggregation.validation
    if level == "none":
        who = (
            "either server's part of the sum" if made.method.has_helper else "the coordinator's sum"
        )
        return (
            "nothing is checked: one participant with another program can move every answer as it"
            f" likes, and {who} is its word"
        )
    if level == "sum":
        return (
            "the sum is checked against what participants commit to, unless one of them helps the"
            " coordinator; one with another program can still move every answer as it likes"
        )
    errors = liar_errors(made)
    moved = ", ".join(
        f"± {errors * item['standard_error_max']:,.3g} in {item['name']}" for item in items[:3]
    )
    more = "" if len(items) <= 3 else " and so on"
    return (
        f"inputs are proved to be short, and the sum is checked: one participant that lies moves no"
        f" answer by more than {errors:.3g} times its standard error, at most {moved}{more}"
    )


def excess_words(made: Plan) -> str:
    """What becomes of noise that is not needed."""
    divided, fewest = made.removable, made.parameters.minimum_survivors
    if divided is None:
        return "all noise stays, also what is not needed with so many survivors"
    if not divided.parts:
        return "there is too little noise to remove any of it: all of it stays"
    least, most = made.expected_error().rmse, made.expected_error(fewest).rmse
    kept = math.sqrt(float(made.participants * made.participant_variance))
    saved = 1 - math.sqrt(float(made.noise_variance(made.participants))) / kept
    return (
        f"noise is added for {fewest:,} survivors, and who finishes removes what is not needed: if"
        f" all {made.participants:,} do, root mean square {least:.4g}, {100 * saved:.3g} % less"
        f" than with all noise kept; if only {fewest:,} do, {most:.4g} and nothing is removed"
    )


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
        "weighted": not study.targets and len({term.weight for term in study.workload.terms}) > 1,
        "cells": study.workload.cells,
        "rows": strategy.rows,
        "objective": strategy.objective.name,
        "objective_words": strategy.objective.words,
        "rmse_unit": strategy.rmse,
        "error_unit": strategy.error,
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
