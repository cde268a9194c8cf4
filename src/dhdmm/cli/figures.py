"""What `dhdmm plan` shows, as plain values: the strategy's certificate, the plan, a comparison.

Heavy imports stand at the top: the command imports this module when it runs.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from dhdmm.aggregation.modulus import Modulus, packed_size
from dhdmm.cli.output import Advance
from dhdmm.planning.draft import draft
from dhdmm.planning.figures import described_rows, draft_figures, strategy_figures
from dhdmm.planning.targets import Targets, guessed_answers, study_for
from dhdmm.strategy import alternatives
from dhdmm.strategy.alternatives import Baseline
from dhdmm.strategy.objective import TOTAL_SQUARED_ERROR, objective_of
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.spec import Study

SECONDS = 60.0
"""How long to search for a strategy, unless told otherwise."""
STEPS = 3
"""Strategy, plan, comparison."""


def figures(
    study: Study,
    participants: int | None = None,
    compare: bool = False,
    advance: Advance = lambda done, words=None: None,
    targets: Targets | None = None,
    total: float | None = None,
    seconds: float = SECONDS,
) -> dict[str, Any]:
    """The plan's figures, or the strategy's alone for a study that says nothing of privacy.

    With targets, those of the plan with the smallest ε that meets them; with a guess of how many
    records there are, errors also as shares of what answers would be.
    """
    wants_plan = participants is not None or targets is not None or not study.only_asks
    if wants_plan:
        _ = study.privacy, study.aggregation  # refuses before the work, not after it
    start = perf_counter()
    if targets is not None and targets.tables:
        study = study.with_targets(targets.tables)
    strategy = optimise(
        study.workload,
        seconds=seconds,
        objective=objective_of(study),
        report=lambda ratio: advance(0, f"planning: at most {ratio:.3f} × the least error"),
    )
    taken = perf_counter() - start
    advance(1)
    if targets is not None:
        study = study_for(study, strategy, targets, participants)
    if wants_plan:
        document = draft_figures(draft(study, strategy), participants)
    else:
        document = strategy_figures(study, strategy)
    document["optimise_seconds"] = taken
    if targets is not None:
        document["privacy_needed"] = {"epsilon": document["epsilon"], "delta": document["delta"]}
    if total is not None:
        _add_relative(document, study, total)
    advance(2)
    if compare:
        document["compare"] = _comparison(study, strategy, document.get("modulus_bits"))
    return document


def _add_relative(document: dict[str, Any], study: Study, total: float) -> None:
    """Beside the median error of every table, its share of the mean of what answers would be."""
    guessed, rows = guessed_answers(study, total), described_rows(study)
    document["total"] = total
    for item in document["items"]:
        mean = float(np.mean(np.abs(guessed[rows[item["name"]]])))
        item["relative_median"] = item["standard_error_median"] / mean if mean else None


def _comparison(study: Study, strategy: Strategy, bits: int | None) -> list[dict[str, Any]]:
    ours = alternatives.Baseline("dhdmm", strategy.rows, strategy.rmse)
    others = alternatives.compare(study.workload, strategy.rows)
    # the bound of another objective says nothing of a root mean square
    bound = strategy.lower_bound if strategy.objective == TOTAL_SQUARED_ERROR else None
    return [_compared(one, bound, bits) for one in (ours, *others)]


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
