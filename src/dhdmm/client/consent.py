"""What a data holder looks at before it says yes: `dhdmm review` prints it, its page shows it.

Every figure is computed here, from the study and the strategy that the coordinator sent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from dhdmm.aggregation.modulus import packed_size
from dhdmm.network.status import Status
from dhdmm.participant.policy import Policy, Review, within_limits
from dhdmm.planning.calibrate import participants_allowed
from dhdmm.planning.draft import Draft
from dhdmm.planning.figures import item_figures, promise_words
from dhdmm.privacy.excess import epsilon_promised
from dhdmm.privacy.ledger import Ledger
from dhdmm.study.describe import describe
from dhdmm.study.spec import Study

SEEN_BY = (
    "your name and key by the other participants and the coordinator's operator; the round's"
    " progress by them and by those who are invited, or by everybody if the coordinator is public;"
    " the release by whomever they give it to"
)
"""Who sees that somebody takes part. The coordinator holds to it; nobody here can check that."""


def figures(
    reviewed: Review, policy: Policy, ledger: Ledger | None, status: Status
) -> dict[str, Any]:
    """The study in words, the cost by our own arithmetic, the budget before and after."""
    plan = reviewed.plan
    allowed = participants_allowed(plan.study.aggregation)
    with within_limits(plan, policy):
        expected = plan.expected_error()
    budget = Fraction(repr(policy.total_rho)) if ledger is None else ledger.budget()
    left = budget if ledger is None else ledger.remaining()
    return {
        "round": status.round,
        "state": status.state,
        "description": describe(plan.study),
        "sql": sql_examples(plan.study),
        "privacy": promise_words(plan),
        "threat_model": plan.threat_model.value,
        "participants": dict(zip(("minimum", "maximum"), allowed, strict=True)),
        "rows": plan.strategy.rows,
        "sensitivity": math.sqrt(plan.sensitivity_squared),
        "sigma_participant": math.sqrt(plan.participant_variance),
        "honest_floor": plan.honest_floor,
        "seen_by": SEEN_BY,
        "rho": float(plan.rho),
        "epsilon": epsilon_promised([plan.noise], policy.max_delta),
        "delta": policy.max_delta,
        "largest_epsilon": policy.max_epsilon,
        "expected_rmse": expected.rmse,
        "items": item_figures(plan.study, expected.standard_errors),
        "participant_bytes": packed_size(plan.modulus, plan.strategy.rows),
        "budget": float(budget),
        "spent": 0.0 if ledger is None else float(ledger.spent()),
        "reserved": 0.0 if ledger is None else float(ledger.reserved()),
        "left": float(left),
        "left_after": float(left - plan.rho),
        "draft_digest": Draft.of(plan).digest.hex(),
        "study_digest": plan.study.digest.hex(),
        "warnings": [*reviewed.warnings, *_warnings(float(left - plan.rho))],
    }


def sql_examples(study: Study) -> dict[str, str]:
    """The first query of every table, as SQL over the table `data`."""
    examples, number = {}, 0
    for item in study.workload.items:
        examples[item.name] = study.workload.query(number).sql
        number += item.queries
    return examples


def _warnings(left_after: float) -> Iterator[str]:
    if left_after < 0:
        yield "the budget that is left does not suffice: a round would be refused"
