"""A whole round of Census SF1, from the draft to the receipt, and the counted model beside it.

The paper's quantities are of the messages alone. Here a participant's bytes are all bodies of its
requests and answers, and its time includes the check of the plan; a test compares such a simulated
round with one over HTTP, byte by byte and phase by phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure

from research.paper import simulations, style
from research.paper.complexity import exponent
from research.paper.item import Column, Found, Needed, PaperItem, Row, group
from research.paper.settings import MODELS, Settings
from research.paper.simulations import ENGINES, EXECUTED


def _needed(settings: Settings) -> Iterator[Needed]:
    """Each size as it was executed, and last as it is counted."""
    for model, n, by, units in simulations.by_participants(settings):
        counted = simulations.round_of(settings, n, model, engine=ENGINES[simulations.COUNTED])
        yield {"by": by}, [*units, counted]


def _rows(found: Found) -> list[Row]:
    rows = []
    for labels, [*executed, counted] in found:
        row = simulations.averaged(executed) | labels
        row |= {
            "joining_kb": row["participant_joining_bytes"] / 1e3,
            "ending_kb": row["participant_ending_bytes"] / 1e3,
            "coordinator_us": 1e6 * row["rounds_s"] / row["participants"],
            "counted_us": 1e6 * counted["rounds_s"] / row["participants"],
            "counted_ms": counted["participant_ms"],
            "coordinator_ratio": counted["rounds_s"] / row["rounds_s"],
            "participant_ratio": counted["participant_ms"] / row["participant_ms"]
            if row["by"] == EXECUTED
            else None,
        }
        rows.append(row)
    return rows


def _draw(rows: Sequence[Row]) -> Figure:
    figure, [traffic, computing, coordinating] = style.panels(3, 4.6)
    for model in MODELS:
        mine = group(rows, threat_model=model)
        executed = group(mine, by=EXECUTED)
        thin = {"color": style.COLOURS[model], "linestyle": ":", "linewidth": 1.2}
        crosses = style.ours(model, linestyle="none", marker="x", markersize=8)
        for axes, shown, whole, part in (
            (traffic, mine, "participant_all_kb", "participant_kb"),
            (computing, executed, "participant_all_ms", "participant_ms"),
        ):
            style.series(axes, shown, "participants", whole, f"{model}, all", style.ours(model))
            style.series(axes, shown, "participants", part, f"{model}, the phases alone", thin)
        for key, label, look in (
            ("coordinator_us", f"{model}, measured", style.ours(model)),
            ("counted_us", f"{model}, operations counted", crosses),
        ):
            style.series(coordinating, mine, "participants", key, label, look)
    for axes, title in (
        (traffic, "a participant's traffic (KB)"),
        (computing, "a participant's computation (ms)"),
        (coordinating, "the coordinator's computation, per participant (µs)"),
    ):
        style.over_participants(axes, rows, title)
        axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(0, -0.2))
    return figure


def _remarks(rows: Sequence[Row]) -> Iterator[str]:
    for model in MODELS:
        mine = group(rows, threat_model=model)
        row = group(mine, by=EXECUTED)[-1]
        yield (
            f"{model}, {row['participants']:,} participants: {row['participant_all_kb']:.1f} KB and"
            f" {row['participant_all_ms']:.1f} ms a participant in all, of which"
            f" {row['plan_check_ms']:.1f} ms check the plan."
        )
        last = mine[-1]
        if last is not row:
            yield (
                f"{model}, {last['participants']:,} participants:"
                f" {last['participant_all_kb']:.1f} KB a participant in all."
            )
        yield f"{model}: the coordinator's time grows as {growth(mine)}."
        ratios = [row["coordinator_ratio"] for row in mine]
        own = [row["participant_ratio"] for row in mine if row["participant_ratio"] is not None]
        yield (
            f"{model}: the counted model gives {min(ratios):.2f} to {max(ratios):.2f} times the"
            f" coordinator's measured time, {min(own):.2f} to {max(own):.2f} times a participant's."
        )


def growth(rows: Sequence[Row]) -> str:
    """Exponents over all sizes, and over the last two."""
    sizes, seconds = [row["participants"] for row in rows], [row["rounds_s"] for row in rows]
    spans = [(start, len(rows)) for start in {0, max(0, len(rows) - 2)}]
    return ", ".join(
        f"n^{exponent(sizes[a:b], seconds[a:b]):.3f} from {sizes[a]:,} to {sizes[b - 1]:,}"
        for a, b in sorted(spans)
    )


ITEM = PaperItem(
    name="whole-round",
    title="A whole round, everything counted (not in the paper)",
    paper=(
        "The paper counts messages of the protocol. Here is all that passes a participant's"
        " connection, from the draft of the plan to the receipt, and all that its processor does,"
        " the check of the plan included; and the counted model over every measured point."
    ),
    needed=_needed,
    rows=_rows,
    columns=(
        Column("threat_model", "threat model"),
        Column("participants", "n"),
        Column("by", "by"),
        Column("joining_kb", "joining KB", 3),
        Column("participant_kb", "phases KB", 3),
        Column("ending_kb", "receipt KB", 3),
        Column("participant_all_kb", "in all KB", 4),
        Column("plan_check_ms", "plan check ms", 3),
        Column("participant_ms", "phases ms", 3),
        Column("participant_all_ms", "in all ms", 3),
        Column("coordinator_us", "coordinator µs each", 3),
        Column("coordinator_ratio", "coordinator, counted / measured", 3),
        Column("participant_ratio", "participant, counted / measured", 3),
    ),
    draw=_draw,
    remarks=_remarks,
)
