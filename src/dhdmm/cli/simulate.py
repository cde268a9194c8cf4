"""`dhdmm simulate`: what a round of a study would take, on a network that is only a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape

from dhdmm.cli import options, output
from dhdmm.participant.tabulate import count_for
from dhdmm.simulation.network import Network, Stragglers
from dhdmm.simulation.recorder import Progress
from dhdmm.simulation.result import Simulation
from dhdmm.simulation.simulate import simulate as simulated
from dhdmm.study.spec import Study

Link = Annotated[float | None, typer.Option(min=1e-6, help="Mbit/s each way; unlimited if absent.")]


def simulate(
    study: options.StudyFile,
    participants: Annotated[
        int | None,
        typer.Option(min=3, help="How many, whatever the study allows; by default its most."),
    ] = None,
    threat_model: options.ThreatModel = None,
    dropout: options.Dropout = 0.0,
    records_per_participant: Annotated[
        int, typer.Option(min=0, help="How many records each participant holds.")
    ] = 1,
    data: Annotated[Path | None, "A table to deal out; else records are drawn uniformly."] = None,
    participant_mbps: Link = None,
    coordinator_mbps: Link = None,
    latency_ms: Annotated[
        float, typer.Option(min=0, help="The delay of every message, one way.")
    ] = 0.0,
    patience_s: Annotated[
        float, typer.Option(min=0, help="How long a phase waits if somebody is silent.")
    ] = 0.0,
    straggler_share: Annotated[
        float, typer.Option(min=0, max=1, help="The share of slow participants.")
    ] = 0.0,
    straggler_slowdown: Annotated[
        float, typer.Option(min=1, help="How many times slower these compute and transmit.")
    ] = 10.0,
    seed: Annotated[int, "Everything but measured times follows from it."] = 0,
    engine: Annotated[
        Literal["processes", "local", "ray", "coordinator", "model"],
        "Where participants run; 'coordinator' runs it alone, 'model' only counts.",
    ] = "processes",
    workers: options.Workers = None,
    compute_model: Annotated[bool, "Count operations at fixed costs, measure nothing."] = False,
    trace: Annotated[Path | None, "Save every message's bytes and seconds here (.npz)."] = None,
    as_json: output.Json = False,
) -> None:
    """Simulate a round: real sessions and cryptography, under a virtual clock.

    All secrets follow from the seed: it is for measuring costs, not for anybody's data.
    """

    asked = Study.load(study)
    slow = Stragglers(straggler_share, straggler_slowdown, seed) if straggler_share else None
    with output.progress("simulating", 1000) as advance:
        simulation = simulated(
            asked,
            participants=participants,
            threat_model=threat_model,
            dropout=dropout,
            records_per_participant=records_per_participant,
            data=None if data is None else count_for(asked, data, bounded=False).histogram,
            network=Network(participant_mbps, coordinator_mbps, latency_ms, patience_s),
            stragglers=slow,
            seed=seed,
            engine=engine,
            workers=workers,
            compute_model=compute_model,
            progress=_by_answers(advance),
        )
    if trace is not None:
        simulation.trace.save(trace)
    document = simulation.summary()
    output.emit(document, as_json, lambda screen: _draw(screen, simulation, document))


def _by_answers(advance: output.Advance) -> Progress:
    """A bar that moves with every answer, each phase being as long as any other."""
    return lambda done, of: advance(1000 * done // of)


def _draw(screen: Console, simulation: Simulation, document: dict[str, Any]) -> None:

    screen.print(
        f"[bold]{escape(document['study'])}[/bold]: {document['participants']:,} participants"
        f" ({document['survivors']:,} to the end), {document['threat_model']};"
        f" {document['rows']:,} sums{_graph(document)}. {_verdict(document['sum_correct'])}\n"
    )
    _draw_phases(screen, simulation, document)
    screen.print(
        f"Before the phases a participant receives {_size(document['participant_joining_bytes'])}"
        f" (draft and offer), after them {_size(document['participant_ending_bytes'])} (receipt):"
        f" {_size(document['participant_bytes'])} in all, both ways. It checked the plan in"
        f" {document['plan_check_ms']:.0f} ms."
    )
    screen.print(
        f"Simulated in {document['wall_s']:.1f} s ({document['cpu_s']:.1f} s of processor time,"
        f" {_size(document['peak_bytes'])} of memory)."
    )


def _graph(document: dict[str, Any]) -> str:
    """Two servers have none."""
    if "degree" not in document:
        return ""
    return f",\ndegree {document['degree']}, threshold {document['threshold']}"


def _verdict(correct: bool | None) -> str:
    if correct is None:
        return "No cryptography was executed."
    return "The sum is exact." if correct else "[bold red]The sum is wrong.[/bold red]"


def _draw_phases(screen: Console, simulation: Simulation, document: dict[str, Any]) -> None:
    """One line a phase: on the virtual clock, of one participant, of the coordinator."""

    trace, alive = simulation.trace, simulation.trace.survivors
    numbers = ("clock", "participant", "sends", "receives", "coordinator")
    table = output.table("phase", numbers=numbers, ruled=True)
    if trace.optimisation_seconds:
        spent = f"{trace.optimisation_seconds:.2f} s"
        table.add_row("optimisation", spent, "", "", "", spent)
    for p, phase in enumerate(simulation.timing.phases):
        table.add_row(
            phase.name.removeprefix("collecting-"),
            f"{phase.seconds:.2f} s",
            f"{1000 * trace.participant_seconds[p, alive].mean():.2f} ms",
            _size(trace.sent_bytes[p, alive].mean()),
            _size(trace.received_bytes[p, alive].mean()),
            f"{trace.coordinator_seconds_in(p):.2f} s",
        )
    spent = f"{trace.release_seconds:.2f} s"
    table.add_row("release", spent, "", "", "", spent, end_section=True)
    table.add_row(
        "in all",
        f"{document['total_s']:.2f} s",
        f"{document['participant_ms']:.2f} ms",
        _size(document["participant_sent_bytes"]),
        _size(document["participant_received_bytes"]),
        f"{document['coordinator_s']:.2f} s",
    )
    screen.print(table, "")


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
