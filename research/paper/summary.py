"""The lines that README shows of a run, as Markdown: `readme.md` beside the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from research.paper.item import Row, group, significant
from research.paper.settings import MODELS
from research.paper.simulations import COORDINATOR, EXECUTED
from research.paper.whole import growth


def readme(rows_of: Mapping[str, Sequence[Row]]) -> str | None:
    """What a round costs, the paper's figures in brackets; if these items were made."""
    if not {"table-2", "whole-round"} <= set(rows_of):
        return None
    table, whole = rows_of["table-2"], rows_of["whole-round"]
    printed = group(table, records=table[0]["records"])
    most = max(row["participants"] for row in printed)
    parts = [
        f"A round of SF1 with {most:,} participants, the paper's figures in brackets:",
        _table(printed, whole, most),
        "Everything is from the draft of the plan to the receipt, with the check of the plan.",
        *_many(whole),
    ]
    return "\n\n".join(parts) + "\n"


def _table(printed: Sequence[Row], whole: Sequence[Row], most: int) -> str:
    lines = [
        "| | a participant computes | with everything | the coordinator computes"
        " | a participant's messages | everything it moves |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for model in MODELS:
        [row] = group(printed, threat_model=model, participants=most)
        [all_of_it] = group(whole, threat_model=model, participants=most, by=EXECUTED)
        lines.append(
            f"| {model} | {_beside(row, 'participant_ms', 'ms')}"
            f" | {significant(all_of_it['participant_all_ms'], 3)} ms"
            f" | {_beside(row, 'coordinator_s', 's')} | {_beside(row, 'participant_kb', 'kB')}"
            f" | {significant(all_of_it['participant_all_kb'], 3)} kB |"
        )
    return "\n".join(lines)


def _beside(row: Row, key: str, unit: str) -> str:
    published = row[f"paper_{key}"]
    after = "" if published is None else f" ({published:,})"
    return f"{significant(row[key], 3)} {unit}{after}"


def _many(whole: Sequence[Row]) -> list[str]:
    """Of the rounds in which the coordinator alone was executed."""
    lines = []
    for model in MODELS:
        large = group(whole, threat_model=model, by=COORDINATOR)
        if large:
            row = large[-1]
            lines.append(
                f"{model}, {row['participants']:,} participants:"
                f" {significant(row['participant_all_kb'], 3)} kB a participant in all;"
                f" the coordinator's time grows as {growth(group(whole, threat_model=model))}."
            )
    return lines
