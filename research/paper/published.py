"""Numbers that the paper prints, for 100, 1,000 and 3,000 clients on 20 cores (its Table 2)."""

from __future__ import annotations

from research.paper.settings import MALICIOUS, SEMI_HONEST

TABLE_2: dict[tuple[str, int], dict[str, float]] = {
    (model, n): dict(
        zip(
            ("participant_ms", "coordinator_s", "total_s", "participant_kb", "coordinator_mb"),
            figures,
            strict=True,
        )
    )
    for model, n, figures in [
        (SEMI_HONEST, 100, (80, 2.7, 2.8, 348, 34)),
        (SEMI_HONEST, 1000, (80, 4.1, 4.4, 364, 356)),
        (SEMI_HONEST, 3000, (90, 8.2, 8.3, 395, 1156)),
        (MALICIOUS, 100, (140, 2.7, 2.9, 392, 38.3)),
        (MALICIOUS, 1000, (660, 7.4, 8.2, 418, 408)),
        (MALICIOUS, 3000, (2400, 35.3, 41.8, 449, 1315)),
    ]
}


def series(model: str, key: str) -> tuple[list[int], list[float]]:
    """(clients, figures) of one threat model."""
    sizes = [n for published, n in TABLE_2 if published == model]
    return sizes, [TABLE_2[model, n][key] for n in sizes]


def beside(model: str, participants: int) -> dict[str, float | None]:
    """The paper's figures under `paper_…`, None where it has none."""
    printed = TABLE_2.get((model, participants), {})
    keys = next(iter(TABLE_2.values()))
    return {f"paper_{key}": printed.get(key) for key in keys}
