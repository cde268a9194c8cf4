"""Everything that decides what may happen when: one transition table a role and threat model.

A table maps a state to the events it accepts and the state each leads to. An event is the arrival
of a message of some type, or something the caller does. What a table does not list cannot
happen: the machines look here first. `diagram` draws the tables of docs/secure-aggregation.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from dhdmm.aggregation.errors import Worded
from dhdmm.aggregation.method import Phase, ThreatModel
from dhdmm.secagg import messages as m


class Local(StrEnum):
    """What the caller does, as opposed to what arrives."""

    BEGIN = "begin"
    INPUT = "input given"
    ABORT = "abort"
    CLOSE = "close phase"


class ParticipantState(Worded):
    """With what a participant has done when it is there, for whoever watches."""

    START = "start", "begins"
    AWAITING_ROOT = "awaiting-root", "sent a public key; waiting for those of the others"
    AWAITING_NEIGHBOURS = "awaiting-neighbours", "chose neighbours; waiting to hear who chose us"
    AWAITING_SHARES = "awaiting-shares", "shared secrets with neighbours; waiting for theirs"
    READY_FOR_INPUT = "ready-for-input", "heard from the neighbours; paying from the ledger"
    AWAITING_SURVIVORS = (
        "awaiting-survivors",
        "sent masked, noisy sums; waiting to hear who is counted",
    )
    AWAITING_ACKS = "awaiting-acks", "confirmed who is counted; waiting for the others to"
    DONE = "done", "said all there is to say"
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


PHASES: Mapping[CoordinatorState, Phase] = {
    state: Phase(state.value, title, explanation, state is CoordinatorState.COLLECTING_INPUTS)
    for state, title, explanation in (
        (CoordinatorState.COLLECTING_KEYS, "Keys", "Everybody sends fresh keys."),
        (
            CoordinatorState.COLLECTING_CHOICES,
            "Neighbours",
            "Everybody draws whom to share keys with.",
        ),
        (
            CoordinatorState.COLLECTING_SHARES,
            "Shares",
            "Keys are shared in parts, in case somebody drops out.",
        ),
        (
            CoordinatorState.COLLECTING_INPUTS,
            "Masked sums",
            "Everybody sends its sums, with noise and under masks.",
        ),
        (CoordinatorState.COLLECTING_ACKS, "Agreement", "The survivors agree on who they are."),
        (
            CoordinatorState.COLLECTING_REVEALS,
            "Unmasking",
            "The masks of the total are taken off.",
        ),
    )
}

Event = Local | type[m.Message]
ParticipantTable = Mapping[ParticipantState, Mapping[Event, ParticipantState]]
CoordinatorTable = Mapping[CoordinatorState, Mapping[Event, CoordinatorState]]

_P = ParticipantState
_C = CoordinatorState
_P_ABORTS: dict[Event, _P] = {Local.ABORT: _P.ABORTED, m.Aborted: _P.ABORTED}
_C_ABORTS: dict[Event, _C] = {Local.ABORT: _C.ABORTED}

PARTICIPANT: Mapping[ThreatModel, ParticipantTable] = {
    ThreatModel.SEMI_HONEST: {
        _P.START: {Local.BEGIN: _P.AWAITING_NEIGHBOURS, **_P_ABORTS},
        _P.AWAITING_NEIGHBOURS: {m.Neighbours: _P.AWAITING_SHARES, **_P_ABORTS},
        _P.AWAITING_SHARES: {m.RelayedShares: _P.READY_FOR_INPUT, **_P_ABORTS},
        _P.READY_FOR_INPUT: {Local.INPUT: _P.AWAITING_SURVIVORS, **_P_ABORTS},
        _P.AWAITING_SURVIVORS: {m.Survivors: _P.DONE, **_P_ABORTS},
        _P.DONE: {m.Aborted: _P.DONE},  # the round failed without us
        _P.ABORTED: {},
    },
    ThreatModel.MALICIOUS: {
        _P.START: {Local.BEGIN: _P.AWAITING_ROOT, **_P_ABORTS},
        _P.AWAITING_ROOT: {m.Root: _P.AWAITING_NEIGHBOURS, **_P_ABORTS},
        _P.AWAITING_NEIGHBOURS: {m.ProvenNeighbours: _P.AWAITING_SHARES, **_P_ABORTS},
        _P.AWAITING_SHARES: {m.RelayedShares: _P.READY_FOR_INPUT, **_P_ABORTS},
        _P.READY_FOR_INPUT: {Local.INPUT: _P.AWAITING_SURVIVORS, **_P_ABORTS},
        _P.AWAITING_SURVIVORS: {m.EvidencedSurvivors: _P.AWAITING_ACKS, **_P_ABORTS},
        _P.AWAITING_ACKS: {m.RelayedAcks: _P.DONE, **_P_ABORTS},
        _P.DONE: {m.Aborted: _P.DONE},  # the round failed without us
        _P.ABORTED: {},
    },
}


def _collect(state: _C, message: type[m.Message], then: _C) -> dict[_C, Mapping[Event, _C]]:
    """A phase: messages of one type are collected until the caller closes it."""
    accepted: dict[Event, _C] = {message: state, m.Aborted: state, Local.CLOSE: then}
    return {state: accepted | _C_ABORTS}


COORDINATOR: Mapping[ThreatModel, CoordinatorTable] = {
    ThreatModel.SEMI_HONEST: {
        **_collect(_C.COLLECTING_KEYS, m.Keys, _C.COLLECTING_SHARES),
        **_collect(_C.COLLECTING_SHARES, m.Shares, _C.COLLECTING_INPUTS),
        **_collect(_C.COLLECTING_INPUTS, m.MaskedInput, _C.COLLECTING_REVEALS),
        **_collect(_C.COLLECTING_REVEALS, m.Unmask, _C.FINISHED),
        _C.FINISHED: {},
        _C.ABORTED: {},
    },
    ThreatModel.MALICIOUS: {
        **_collect(_C.COLLECTING_KEYS, m.SignedKeys, _C.COLLECTING_CHOICES),
        **_collect(_C.COLLECTING_CHOICES, m.Choice, _C.COLLECTING_SHARES),
        **_collect(_C.COLLECTING_SHARES, m.Shares, _C.COLLECTING_INPUTS),
        **_collect(_C.COLLECTING_INPUTS, m.EvidencedInput, _C.COLLECTING_ACKS),
        **_collect(_C.COLLECTING_ACKS, m.Acks, _C.COLLECTING_REVEALS),
        **_collect(_C.COLLECTING_REVEALS, m.Unmask, _C.FINISHED),
        _C.FINISHED: {},
        _C.ABORTED: {},
    },
}


def collected_in(table: CoordinatorTable, state: CoordinatorState) -> type[m.Message] | None:
    """The type of message that a phase of the coordinator collects."""
    for event in table[state]:
        if not isinstance(event, Local) and event is not m.Aborted:
            return event
    return None


def diagram(table: ParticipantTable | CoordinatorTable) -> str:
    """The table as a Mermaid state diagram. Aborts, possible in every state, are left out."""
    lines = ["stateDiagram-v2"]
    for state, events in table.items():
        for event, following in events.items():
            if event in (Local.ABORT, m.Aborted):
                continue
            name = event.value if isinstance(event, Local) else event.__name__
            lines.append(f"    {_node(state)} --> {_node(following)}: {name}")
    return "\n".join(lines)


def _node(state: StrEnum) -> str:
    return state.value.replace("-", "_")
