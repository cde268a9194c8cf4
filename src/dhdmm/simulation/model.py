"""A round that is not executed: who answers is drawn, bytes and seconds follow from counts.

For more participants than anybody would execute the cryptography of. Sizes are exact for the counts
(a test compares them with real rounds); the counts themselves are drawn as a real graph's fall out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dhdmm.aggregation.method import CountedRound
from dhdmm.cohort.drive import Silent
from dhdmm.planning.plan import Plan
from dhdmm.session.introductions import sizes
from dhdmm.simulation.joining import drawn_joining_bytes, drawn_receipt_bytes
from dhdmm.simulation.population import name_of, secret_of
from dhdmm.simulation.trace import Integers, Trace

PLANNED_WORD, CHECKED_WORD, RELEASED_WORD, RELEASED_PARTICIPANT = 200e-6, 11e-6, 2e-6, 14e-6
"""Seconds a coordinate of the strategy: to optimise and plan, to check the plan, to decode and
sign the result. And a participant's, to write what was counted of its messages."""


def fill_from_model(trace: Trace, plan: Plan, silent: Silent, seed: int) -> Plan:
    """All of a round's bytes and seconds; the plan is given back with a roster that is nobody's."""
    secret = secret_of(seed)
    final = replace(plan, roster_digest=secret, helper=secret if plan.method.has_helper else b"")
    counted = final.method.counted(final.round(secret[:16]))
    trace.plan_bytes = len(final.to_bytes())
    _draw_answers(trace, silent)
    counted.draw(trace.answered, np.random.default_rng(seed).binomial)
    put_modelled_bytes(trace, counted, _introductions(trace, counted))
    put_modelled_seconds(trace, counted, final.strategy.rows)
    trace.joining_bytes[:] = drawn_joining_bytes(final)
    trace.ending_bytes[trace.survivors] = drawn_receipt_bytes(final, secret[:16])
    return final


def put_modelled_bytes(trace: Trace, counted: CountedRound, introductions: Integers) -> None:
    """Messages, and before them introductions, which are given."""
    received, sent = counted.received_bytes(), counted.sent_bytes()
    for row, phase in enumerate(trace.phases):
        if phase not in sent:  # of two servers alone
            trace.asked[row] = trace.answered[row] = False
            continue
        opening = received.get(phase, 0) + introductions[row]
        trace.received_bytes[row] = np.where(trace.asked[row], opening, 0)
        trace.sent_bytes[row] = np.where(trace.answered[row], sent[phase], 0)


def _introductions(trace: Trace, counted: CountedRound) -> Integers:
    """Expected, by phase and participant."""
    bytes_each = np.zeros_like(trace.received_bytes)
    n, introduced = trace.participants, counted.introduced()
    for row, phase in enumerate(trace.phases):
        if phase in introduced:
            bytes_each[row] = sizes(n, introduced[phase], len(name_of(n).encode()))
    return bytes_each


def put_modelled_seconds(
    trace: Trace, counted: CountedRound, rows: int, *, coordinator: bool = True
) -> None:
    """Replace the trace's seconds, or the participants' only, by the model's at fixed costs."""
    seconds = counted.seconds(trace.answered)
    for row, phase in enumerate(trace.phases):
        asked, answered = trace.asked[row], trace.answered[row]
        trace.participant_seconds[row] = np.where(answered, seconds.participant.get(phase, 0), 0)
        if not coordinator:
            continue
        trace.opening_seconds[row] = np.where(asked, seconds.opening.get(phase, 0), 0)
        trace.taking_seconds[row] = np.where(answered, seconds.taking.get(phase, 0), 0)
        trace.closing_seconds[row] = seconds.closing.get(phase, 0)
    if not coordinator:
        return
    trace.plan_check_seconds = CHECKED_WORD * rows
    trace.release_seconds = RELEASED_WORD * rows + RELEASED_PARTICIPANT * trace.participants
    if trace.optimisation_seconds:
        trace.optimisation_seconds = PLANNED_WORD * rows


def _draw_answers(trace: Trace, silent: Silent) -> None:
    """Whoever answered is asked again."""
    present = np.ones(trace.participants, np.bool_)
    for row, phase in enumerate(trace.phases):
        trace.asked[row] = present
        present[list(silent.get(phase, ()))] = False
        trace.answered[row] = present
