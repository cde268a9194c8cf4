"""What may happen when: one transition table per role and threat model.

A table maps a state to the events it accepts and the state each leads to. An event is the arrival
of a message of some type, or something the caller does. What a table does not list cannot
happen: the machines look here first. docs/secure-aggregation.md shows the tables as diagrams.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from dhdmm.aggregation.errors import (
    AbortReason,
    LocalProtocolError,
    RemoteProtocolError,
    Worded,
)
from dhdmm.aggregation.method import Phase, ThreatModel
from dhdmm.secagg import messages as m


class Local(StrEnum):
    """What the caller does, as opposed to what arrives."""

    BEGIN = "begin"
    INPUT = "input given"
    ABORT = "abort"
    CLOSE = "close phase"


class ParticipantState(Worded):
    """The states of a participant; the words say in which phase of `PHASES` it is, what it has done
    and what it waits for."""

    START = "start", "begins"
    AWAITING_ROOT = "awaiting-root", "Keys: ours is sent; waiting for those of the others"
    AWAITING_NEIGHBOURS = (
        "awaiting-neighbours",
        "Neighbours: ours are drawn; waiting to hear who drew us",
    )
    AWAITING_SHARES = "awaiting-shares", "Shares: ours are sent; waiting for the neighbours'"
    READY_FOR_INPUT = "ready-for-input", "Masked sums: paying from the ledger"
    AWAITING_SURVIVORS = (
        "awaiting-survivors",
        "Masked sums: ours are sent, with noise; waiting to hear who is counted",
    )
    AWAITING_ACKS = "awaiting-acks", "Agreement: we have confirmed; waiting for the others to"
    DONE = "done", "Unmasking: we have said all there is to say"
    ABORTED = "aborted", "left the round"


class CoordinatorState(StrEnum):
    COLLECTING_KEYS = "collecting-keys"
    COLLECTING_CHOICES = "collecting-choices"
    COLLECTING_SHARES = "collecting-shares"
    COLLECTING_INPUTS = "collecting-inputs"
    COLLECTING_ACKS = "collecting-acks"
    COLLECTING_REVEALS = "collecting-reveals"
    FINISHED = "finished"
    ABORTED = "aborted"


_P = ParticipantState
_C = CoordinatorState

_WORDS = {
    _C.COLLECTING_KEYS: ("Keys", "Everybody sends fresh keys."),
    _C.COLLECTING_CHOICES: ("Neighbours", "Everybody draws whom to share keys with."),
    _C.COLLECTING_SHARES: ("Shares", "Keys are shared in parts, in case somebody drops out."),
    _C.COLLECTING_INPUTS: ("Masked sums", "Everybody sends its sums, with noise and under masks."),
    _C.COLLECTING_ACKS: ("Agreement", "The survivors agree on who they are."),
    _C.COLLECTING_REVEALS: ("Unmasking", "The masks of the total are taken off."),
}
PHASES: Mapping[CoordinatorState, Phase] = {
    state: Phase(state.value, title, explanation, state is _C.COLLECTING_INPUTS)
    for state, (title, explanation) in _WORDS.items()
}

Event = Local | type[m.Message]
ParticipantTable = Mapping[ParticipantState, Mapping[Event, ParticipantState]]
CoordinatorTable = Mapping[CoordinatorState, Mapping[Event, CoordinatorState]]
State = TypeVar("State", ParticipantState, CoordinatorState)


def _participant(*steps: tuple[_P, Event]) -> ParticipantTable:
    """States in their order, each with the event that leads on; the last event leads to DONE."""
    following = [state for state, _ in steps[1:]] + [_P.DONE]
    aborts: dict[Event, _P] = {Local.ABORT: _P.ABORTED, m.Aborted: _P.ABORTED}
    table: dict[_P, Mapping[Event, _P]] = {
        state: {event: then, **aborts}
        for (state, event), then in zip(steps, following, strict=True)
    }
    # a round may still fail after a participant has finished its part
    return table | {_P.DONE: {m.Aborted: _P.DONE}, _P.ABORTED: {}}


def _coordinator(*phases: tuple[_C, type[m.Message]]) -> CoordinatorTable:
    """Phases in their order, each with the type of message collected until the caller closes it."""
    following = [state for state, _ in phases[1:]] + [_C.FINISHED]
    table: dict[_C, Mapping[Event, _C]] = {
        state: {message: state, m.Aborted: state, Local.CLOSE: then, Local.ABORT: _C.ABORTED}
        for (state, message), then in zip(phases, following, strict=True)
    }
    return table | {_C.FINISHED: {}, _C.ABORTED: {}}


PARTICIPANT: Mapping[ThreatModel, ParticipantTable] = {
    ThreatModel.SEMI_HONEST: _participant(
        (_P.START, Local.BEGIN),
        (_P.AWAITING_NEIGHBOURS, m.Neighbours),
        (_P.AWAITING_SHARES, m.RelayedShares),
        (_P.READY_FOR_INPUT, Local.INPUT),
        (_P.AWAITING_SURVIVORS, m.Survivors),
    ),
    ThreatModel.MALICIOUS: _participant(
        (_P.START, Local.BEGIN),
        (_P.AWAITING_ROOT, m.Root),
        (_P.AWAITING_NEIGHBOURS, m.ProvenNeighbours),
        (_P.AWAITING_SHARES, m.RelayedShares),
        (_P.READY_FOR_INPUT, Local.INPUT),
        (_P.AWAITING_SURVIVORS, m.EvidencedSurvivors),
        (_P.AWAITING_ACKS, m.RelayedAcks),
    ),
}

COORDINATOR: Mapping[ThreatModel, CoordinatorTable] = {
    ThreatModel.SEMI_HONEST: _coordinator(
        (_C.COLLECTING_KEYS, m.Keys),
        (_C.COLLECTING_SHARES, m.Shares),
        (_C.COLLECTING_INPUTS, m.MaskedInput),
        (_C.COLLECTING_REVEALS, m.Unmask),
    ),
    ThreatModel.MALICIOUS: _coordinator(
        (_C.COLLECTING_KEYS, m.SignedKeys),
        (_C.COLLECTING_CHOICES, m.Choice),
        (_C.COLLECTING_SHARES, m.Shares),
        (_C.COLLECTING_INPUTS, m.EvidencedInput),
        (_C.COLLECTING_ACKS, m.Acks),
        (_C.COLLECTING_REVEALS, m.Unmask),
    ),
}


def state_after(table: Mapping[State, Mapping[Event, State]], state: State, event: Event) -> State:
    """Where an event leads.

    Raises:
        LocalProtocolError: The caller may not do this now.
        RemoteProtocolError: A message of this type may not arrive now.
    """
    following = table[state].get(event)
    if following is not None:
        return following
    if isinstance(event, Local):
        raise LocalProtocolError(f"{event} is impossible in state {state}")
    detail = f"{event.__name__} in state {state}"
    raise RemoteProtocolError(AbortReason.WRONG_PHASE, detail, status_hint=409)


def collected_in(table: CoordinatorTable, state: CoordinatorState) -> type[m.Message] | None:
    """The type of message that a phase of the coordinator collects."""
    for event in table[state]:
        if not isinstance(event, Local) and event is not m.Aborted:
            return event
    return None
