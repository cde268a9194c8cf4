"""What removing excess noise gains and costs: Census SF1, kept and removed in one run.

Standard errors are those of a plan, relative to all noise kept. Times are processor time: of one
participant's noise, and of the coordinator's subtraction for everybody, each once.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from time import process_time

from dhdmm.planning.draft import plan as make_plan
from dhdmm.planning.plan import Plan
from dhdmm.privacy.gaussian import DiscreteGaussian
from dhdmm.privacy.keystream import KeyStream
from dhdmm.study.spec import Study

STUDY = Path(__file__).parents[1] / "examples" / "census-sf1" / "study.yaml"
DROPOUTS = (0.05, 0.1, 0.2, 0.3)
REPEATS = 20


def milliseconds(plan: Plan, variances: list[Fraction]) -> float:
    """To draw noise of these variances, tables already built; the best of several runs."""
    best = float("inf")
    for _ in range(REPEATS):
        started = process_time()
        for variance in variances:
            DiscreteGaussian(variance).sample(plan.strategy.rows, KeyStream.fresh())
        best = min(best, process_time() - started)
    return 1000 * best


def report(study: Study, model: str, count: int, dropout: float) -> None:
    asked = {"threat_model": model, "participants": count, "max_dropout": dropout}
    kept = make_plan(study.with_aggregation(**asked))
    removed = make_plan(
        study.with_aggregation(**asked, excess_noise="remove"), strategy=kept.strategy
    )
    noise = removed.removable
    assert noise is not None
    errors = [plan.expected_error().rmse for plan in (kept, removed)]
    fewest = removed.expected_error(noise.minimum_survivors).rmse
    parts = [noise.step * 2**part for part in range(noise.parts)]
    before = milliseconds(kept, [kept.participant_variance])
    after = milliseconds(removed, [noise.base, *parts])
    closing = milliseconds(removed, parts) * count / 1000
    more = removed.input_bytes - kept.input_bytes, 1 + 32 * len(parts)
    print(
        f"{model:>12}{dropout:>8.0%}{errors[0]:>9.4g}{errors[1]:>9.4g}"
        f"{errors[0] / errors[1] - 1:>8.1%}{fewest:>9.4g}{noise.parts:>7}"
        f"{removed.modulus.bits - kept.modulus.bits:>6}{before:>9.2f}{after:>9.2f}{closing:>9.2f}"
        f"{more[0]:>8}{more[1]:>7}",
        flush=True,
    )


def main() -> None:
    count = int(sys.argv[1]) if sys.argv[1:] else 1000
    study = Study.load(STUDY)
    print(f"{count:,} participants")
    print(
        f"{'':>12}{'dropout':>8}{'kept':>9}{'removed':>9}{'more':>8}{'fewest':>9}{'parts':>7}"
        f"{'bits':>6}{'ms':>9}{'ms then':>9}{'coord s':>9}{'input B':>8}{'last B':>7}"
    )
    for model in ("semi-honest", "malicious"):
        for dropout in DROPOUTS:
            report(study, model, count, dropout)


if __name__ == "__main__":
    main()
