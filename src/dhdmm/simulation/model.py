"""A round that is not executed: who answers is drawn, bytes and seconds follow from counts.

For more participants than anybody would execute the cryptography of. Sizes are exact for the counts
(a test compares them with real rounds); the counts themselves are drawn as a real graph's fall out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dhdmm.cohort.drive import Silent
from dhdmm.planning.plan import Plan
from dhdmm.secagg.round import RoundParameters
from dhdmm.secagg.states import CoordinatorState
from dhdmm.simulation.cast import secret_of
from dhdmm.simulation.costs import put_modelled_seconds
from dhdmm.simulation.counts import Counts, drawn_counts
from dhdmm.simulation.sizes import received_bytes, sent_bytes
from dhdmm.simulation.trace import Trace


def fill_from_model(trace: Trace, plan: Plan, silent: Silent, seed: int) -> Plan:
    """All of a round's bytes and seconds; the plan is given back with a roster that is nobody's."""
    secret = secret_of(seed)
    final = replace(plan, roster_digest=secret)
    parameters = final.round(secret[:16])
    trace.plan_bytes = len(final.to_bytes())
    _draw_answers(trace, silent)
    counts = drawn_counts(parameters, trace.answered, seed)
    put_modelled_bytes(trace, parameters, counts)
    put_modelled_seconds(trace, parameters, counts)
    return final


def put_modelled_bytes(trace: Trace, parameters: RoundParameters, counts: Counts) -> None:
    received, sent = received_bytes(parameters, counts), sent_bytes(parameters, counts)
    for row, name in enumerate(trace.phases):
        phase = CoordinatorState(name)
        trace.received_bytes[row] = np.where(trace.asked[row], received.get(phase, 0), 0)
        trace.sent_bytes[row] = np.where(trace.answered[row], sent[phase], 0)


def _draw_answers(trace: Trace, silent: Silent) -> None:
    """Whoever answered is asked again."""
    present = np.ones(trace.participants, np.bool_)
    for row, name in enumerate(trace.phases):
        trace.asked[row] = present
        present[list(silent.get(CoordinatorState(name), ()))] = False
        trace.answered[row] = present
