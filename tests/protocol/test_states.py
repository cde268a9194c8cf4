"""The transition tables, and that the documents show them as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from dhdmm.aggregation.errors import AbortReason, LocalProtocolError
from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.aggregation.method import ThreatModel
from dhdmm.secagg import messages as m
from dhdmm.secagg.coordinator import Coordinator
from dhdmm.secagg.parameters import MODELS
from dhdmm.secagg.states import (
    COORDINATOR,
    PARTICIPANT,
    CoordinatorState,
    Local,
    ParticipantState,
)
from tests.protocol.network import Stream, setting

PAGE = Path(__file__).parents[2] / "docs" / "secure-aggregation.md"
TABLES = [table[model] for table in (PARTICIPANT, COORDINATOR) for model in MODELS]


def diagram(table) -> str:
    """A Mermaid state diagram. Aborts, possible in every state, are left out."""
    lines = ["stateDiagram-v2"]
    for state, events in table.items():
        for event, following in events.items():
            if event not in (Local.ABORT, m.Aborted):
                name = event.value if isinstance(event, Local) else event.__name__
                ends = (node.value.replace("-", "_") for node in (state, following))
                lines.append(f"    {' --> '.join(ends)}: {name}")
    return "\n".join(lines)


@pytest.mark.parametrize("table", TABLES)
def test_diagram_in_the_documentation_is_drawn_from_the_table(table) -> None:
    assert f"```mermaid\n{diagram(table)}\n```" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("table", TABLES)
def test_every_state_is_reachable_and_every_unfinished_one_can_abort(table) -> None:
    start = next(iter(table))
    reached, frontier = {start}, [start]
    while frontier:
        for following in table[frontier.pop()].values():
            if following not in reached:
                reached.add(following)
                frontier.append(following)
    unused = {ParticipantState.AWAITING_ROOT, ParticipantState.AWAITING_ACKS} | {
        CoordinatorState.COLLECTING_CHOICES,
        CoordinatorState.COLLECTING_ACKS,
    }
    assert set(type(start)) - reached <= unused
    assert reached == set(table)
    for state, events in table.items():
        final = state.value in ("done", "finished", "aborted")
        assert (Local.ABORT in events) != final


@pytest.mark.parametrize("model", list(MODELS))
def test_semi_honest_messages_mean_nothing_in_the_malicious_model(model: ThreatModel) -> None:
    """No downgrade: a table accepts only its own model's version of a message."""
    unsigned = {m.Keys, m.Neighbours, m.MaskedInput, m.Survivors}
    signed = {m.SignedKeys, m.ProvenNeighbours, m.EvidencedInput, m.EvidencedSurvivors, m.Acks}
    accepted = {
        event
        for table in (PARTICIPANT[model], COORDINATOR[model])
        for events in table.values()
        for event in events
    }
    assert accepted.isdisjoint(unsigned if model is ThreatModel.MALICIOUS else signed)


@pytest.mark.parametrize("model", list(MODELS))
def test_what_the_table_does_not_list_is_refused(model: ThreatModel) -> None:
    chosen = setting(4, model)
    participant = chosen.participant(0, Stream(0), MemoryJournal())
    with pytest.raises(LocalProtocolError, match="input given is impossible in state start"):
        participant.give_input(chosen.unit_vector(0))
    participant.abort(AbortReason.REFUSED_PARAMETERS)
    with pytest.raises(LocalProtocolError):
        participant.begin()
    coordinator = Coordinator(chosen.parameters, chosen.roster, Stream(1))
    coordinator.abort(AbortReason.REFUSED_PARAMETERS)
    with pytest.raises(LocalProtocolError):
        coordinator.close_phase()
