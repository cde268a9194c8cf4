"""Table 2: what a round of Census SF1 costs, for both threat models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure

from dhdmm.paper import published, simulations, style
from dhdmm.paper.item import Column, PaperItem, Row, group, significant
from dhdmm.paper.settings import MODELS, Settings
from dhdmm.paper.work import Results, Unit

PANELS = {
    "participant_ms": "participant's computation (ms)",
    "coordinator_s": "coordinator's computation (s)",
    "total_s": "total time (s)",
    "participant_kb": "participant's traffic (KB)",
    "coordinator_mb": "coordinator's traffic (MB)",
}


def _needed(settings: Settings) -> Iterator[tuple[Row, list[Unit]]]:
    for model in MODELS:
        for records in settings.records:
            for n in settings.participants:
                units = [
                    simulations.round_of(settings, n, model, records=records, repetition=i)
                    for i in range(settings.repetitions)
                ]
                yield {"threat_model": model, "records": records, "participants": n}, units


def _units(settings: Settings) -> Sequence[Unit]:
    return [unit for _, units in _needed(settings) for unit in units]


def _compute(settings: Settings, results: Results) -> list[Row]:
    rows = []
    for labels, units in _needed(settings):
        beside = published.beside(labels["threat_model"], labels["participants"])
        row = simulations.averaged(units, results) | labels | beside
        for key in PANELS:
            row[f"{key}_shown"] = _mean_and_spread(row, key)
        rows.append(row)
    return rows


def _mean_and_spread(row: Row, key: str) -> str:
    spread = row.get(f"{key}_sd")
    after = "" if spread is None or key.endswith(("kb", "mb")) else f" ± {spread:.2g}"
    return significant(row[key], 3) + after


def _draw(rows: Sequence[Row]) -> Figure:
    figure, panels = style.panels(len(PANELS), 4.4, across=3)
    for axes, (key, label) in zip(panels, PANELS.items(), strict=True):
        for model in MODELS:
            for records, line in zip(_records(rows), ("-", ":"), strict=False):
                mine = group(rows, threat_model=model, records=records)
                axes.errorbar(
                    [row["participants"] for row in mine],
                    [row[key] for row in mine],
                    yerr=[row[f"{key}_sd"] or 0.0 for row in mine],
                    label=f"{model}, {records} record{'s' if records > 1 else ''} each",
                    **style.ours(model, linestyle=line),
                )
            axes.errorbar(
                *published.series(model, key), label=f"{model}, paper", **style.theirs(model)
            )
        sizes = [row["participants"] for row in rows] + published.series(MODELS[0], key)[0]
        style.participants_axis(axes, sizes)
        style.plain_log_axis(axes)
        axes.set_title(label, loc="left")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower right", bbox_to_anchor=(0.97, 0.1), frameon=False)
    return figure


def _records(rows: Sequence[Row]) -> list[int]:
    return list(dict.fromkeys(row["records"] for row in rows))


def _remarks(rows: Sequence[Row]) -> Sequence[str]:
    sentences = []
    for row in rows:
        if row["paper_total_s"] is None or row["records"] != rows[0]["records"]:
            continue
        gains = ", ".join(
            f"{label.split(' (')[0]} {row[f'paper_{key}'] / row[key]:.2g}"
            for key, label in PANELS.items()
        )
        who = f"{row['threat_model']}, {row['participants']:,} participants"
        sentences.append(f"The paper's figures divided by ours, {who}: {gains}.")
    optimised = [row["optimisation_s"] for row in rows]
    checked = [row["plan_check_ms"] for row in rows]
    plans = [row["plan_bytes"] / 1e3 for row in rows]
    sentences.append(
        f"The coordinator's time includes {min(optimised):.2f} to {max(optimised):.2f} s of"
        " optimising the strategy. Total time includes the plan's download"
        f" ({min(plans):.1f} to {max(plans):.1f} KB) and each participant's check of it"
        f" ({min(checked):.0f} to {max(checked):.0f} ms), which are in no other figure."
    )
    agreed = [row["agreement_us"] for row in rows]
    sentences.append(
        f"Right before and after these rounds one X25519 agreement took {min(agreed):.0f} to"
        f" {max(agreed):.0f} µs. A participant makes two for every neighbour, and in the malicious"
        " model has about twice as many as the degree. By that, times compare with those of other"
        " machines, and of other hours where a machine is shared."
    )
    correct = all(row["sum_correct"] for row in rows)
    sentences.append(
        "Every sum equals the ideal one exactly." if correct else "A sum was not the ideal one."
    )
    return sentences


ITEM = PaperItem(
    name="table-2",
    title="Table 2: a round of Census SF1",
    paper=(
        "Time and traffic at 100, 1,000 and 3,000 clients in both threat models, five runs each on"
        " a server with 20 cores. The paper does not say how many records a client holds; here"
        " with 1 and with 100. Traffic is sent and received together."
    ),
    units=_units,
    compute=_compute,
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
