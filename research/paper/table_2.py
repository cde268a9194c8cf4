"""Table 2: what a round of Census SF1 costs, for both threat models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure

from research.paper import simulations, style
from research.paper.item import Column, Found, Needed, PaperItem, Row, group, significant
from research.paper.settings import MODELS, Settings

PANELS = {
    "participant_ms": "participant's computation (ms)",
    "coordinator_s": "coordinator's computation (s)",
    "total_s": "total time (s)",
    "participant_kb": "participant's traffic (KB)",
    "coordinator_mb": "coordinator's traffic (MB)",
}


def _needed(settings: Settings) -> Iterator[Needed]:
    for model in MODELS:
        for records in settings.records:
            for n in settings.participants:
                yield (
                    {"records": records},
                    [
                        simulations.round_of(settings, n, model, records=records, repetition=i)
                        for i in range(settings.repetitions)
                    ],
                )


def _rows(found: Found) -> list[Row]:
    rows = simulations.averages(found)
    for row in rows:
        row |= {f"{key}_shown": _mean_and_spread(row, key) for key in PANELS}
    return rows


def _mean_and_spread(row: Row, key: str) -> str:
    spread = row.get(f"{key}_sd")
    after = "" if spread is None or key.endswith(("kb", "mb")) else f" ± {significant(spread, 2)}"
    return significant(row[key], 3) + after


def _draw(rows: Sequence[Row]) -> Figure:
    figure, panels = style.panels(len(PANELS), 4.4, across=3)
    held = dict.fromkeys(row["records"] for row in rows)
    for axes, (key, title) in zip(panels, PANELS.items(), strict=True):
        for model in MODELS:
            for records, line in zip(held, ("-", ":"), strict=False):
                mine = group(rows, threat_model=model, records=records)
                label = f"{model}, {records} record{'s' if records > 1 else ''} each"
                look = style.ours(model, linestyle=line)
                style.series(axes, mine, "participants", key, label, look)
            style.printed(axes, model, key, model)
        style.over_participants(axes, rows, title)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower right", bbox_to_anchor=(0.97, 0.1), frameon=False)
    return figure


def _remarks(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        if row["paper_total_s"] is None or row["records"] != rows[0]["records"]:
            continue
        gains = ", ".join(
            f"{label.split(' (')[0]} {significant(row[f'paper_{key}'] / row[key], 2)}"
            for key, label in PANELS.items()
        )
        who = f"{row['threat_model']}, {row['participants']:,} participants"
        yield f"The paper's figures divided by ours, {who}: {gains}."
    yield (
        f"The coordinator's time includes {_range(rows, 'optimisation_s', '.2f')} s of"
        " optimising the strategy. Total time includes the plan's download"
        f" ({_range(rows, 'plan_bytes', '.1f', 1e3)} KB) and each participant's check of it"
        f" ({_range(rows, 'plan_check_ms', '.0f')} ms), which are in no other figure."
    )
    yield (
        "Right before and after these rounds one X25519 agreement took"
        f" {_range(rows, 'agreement_us', '.0f')} µs. A participant makes two for every neighbour,"
        " and in the malicious model has about twice as many as the degree. By that, times compare"
        " with those of other machines, and of other hours where a machine is shared."
    )
    correct = all(row["sum_correct"] for row in rows)
    yield "Every sum equals the ideal one exactly." if correct else "A sum was not the ideal one."


def _range(rows: Sequence[Row], key: str, digits: str, scale: float = 1) -> str:
    values = [row[key] / scale for row in rows]
    least, most = f"{min(values):{digits}}", f"{max(values):{digits}}"
    return least if least == most else f"{least} to {most}"


ITEM = PaperItem(
    name="table-2",
    title="Table 2: a round of Census SF1",
    paper=(
        "Time and traffic at 100, 1,000 and 3,000 clients in both threat models, five runs each on"
        " a server with 20 cores. The paper does not say how many records a client holds; here"
        " with 1 and with 100. Traffic is sent and received together."
    ),
    needed=_needed,
    rows=_rows,
    columns=(
        Column("threat_model", "threat model"),
        Column("participants", "n"),
        Column("records", "records each"),
        *(
            column
            for key, header in [
                ("participant_ms", "participant ms"),
                ("coordinator_s", "coordinator s"),
                ("total_s", "total s"),
                ("participant_kb", "participant KB"),
                ("coordinator_mb", "coordinator MB"),
            ]
            for column in (Column(f"{key}_shown", header), Column(f"paper_{key}", "paper"))
        ),
        Column("optimisation_s", "optimisation s", 2),
        Column("degree", "degree"),
        Column("agreement_us", "X25519 µs", 2),
    ),
    draw=_draw,
    remarks=_remarks,
)
