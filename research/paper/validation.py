"""Beyond the paper: what validated inputs cost, and what participants that lie can do without them.

A lie is an input of whoever uses another program. Sums are ideal ones, since secure aggregation
gives the same sum; that honest rounds accept these inputs where they do is tested elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dhdmm.planning.figures import liar_errors
from dhdmm.planning.plan import Plan
from dhdmm.study.histogram import Histogram
from research.paper import simulations, style
from research.paper.item import (
    Column,
    Found,
    Needed,
    PaperItem,
    Row,
    group,
    significant,
    studies_of,
)
from research.paper.settings import MALICIOUS, Settings
from research.paper.studies import TITLES, planned, strategy
from research.paper.work import Result, Unit

LEVELS = ("none", "sum", "bounded")
SHARES = (0.01, 0.02, 0.05, 0.1)
INVENTED = 1000
"""Records that a liar invents in one cell where nobody hinders it."""

Lies = tuple[Any, Any]
"""What a liar sends where nothing is checked, and the direction of what it sends where it must
prove a length."""
Lie = Callable[[str, Plan, float, np.random.Generator], Lies]


# ---- lies ---------------------------------------------------------------------------------------


@cache
def _reconstruction(name: str, answer: int = 0) -> Any:
    """wA′⁺ of one answer, (k,): column by column, in the blocks that the answer depends on."""
    one = strategy(name)
    row, start = np.zeros(one.rows), 0
    for block in one.blocks:
        rows = range(start, start + block.rows)
        start += block.rows
        if _answered(name, np.random.default_rng(0).normal(size=len(rows)), rows, answer):
            for i in rows:
                row[i] = _answered(name, 1.0, range(i, i + 1), answer)
    return row


def _answered(name: str, values: Any, rows: range, answer: int) -> float:
    """An answer from measurements that are zero elsewhere."""
    measurement = np.zeros(strategy(name).rows)
    measurement[rows.start : rows.stop] = values
    return float(strategy(name).reconstruct(measurement)[answer])


def _one_cell(name: str, plan: Plan, reach: float, generator: np.random.Generator) -> Lies:
    """Many records in a cell that few have."""
    cell = np.zeros((1, len(plan.study.schema.shape)), np.int64)
    column = plan.strategy.measure(Histogram.of_records(cell)).astype(float)
    return INVENTED * column, column


def _random(name: str, plan: Plan, reach: float, generator: np.random.Generator) -> Lies:
    """Any residues."""
    vector = generator.uniform(-reach, reach, plan.strategy.rows)
    return vector, vector


def _largest(name: str, plan: Plan, reach: float, generator: np.random.Generator) -> Lies:
    """Nothing within the modulus, and nothing within the bound, moves the first answer further."""
    row = _reconstruction(name)
    return reach * np.sign(row), row


LIES: dict[str, Lie] = {
    "one cell": _one_cell,
    "random vectors": _random,
    "largest shift": _largest,
}


def _poisoned(settings: Settings, name: str, lie: str, share: float) -> Unit:
    n, seed = settings.accuracy_participants, settings.seed
    parameters = {"study": name, "participants": n, "lie": lie, "share": share, "seed": seed}
    return Unit("poisoned", parameters, lambda: _shifts(name, n, lie, share, seed), alone=False)


def _shifts(name: str, participants: int, lie: str, share: float, seed: int) -> Result:
    """How far liars move the answers, in standard errors, freely and within the bound."""
    plan = planned(name, participants, threat_model=MALICIOUS)
    liars, generator = max(1, round(share * participants)), np.random.default_rng(seed)
    reach = plan.modulus.value / (4 * liars)  # so that the sum does not wrap
    sent = [LIES[lie](name, plan, reach, generator) for _ in range(liars)]
    free = [vector for vector, _ in sent]
    bounded = [plan.norm_bound / np.linalg.norm(way) * way for _, way in sent]
    errors = plan.expected_error().standard_errors
    found: Result = {"liars": liars, "stated": liars * liar_errors(plan)}
    for level, vectors in (("free", free), ("bounded", bounded)):
        moved = plan.strategy.reconstruct(np.sum(vectors, axis=0)) / errors
        found |= {
            level: float(np.abs(moved).max()),
            f"{level}_rms": float(np.sqrt(np.mean(moved**2))),
        }
    return found


def _needed(settings: Settings) -> Iterator[Needed]:
    for name in settings.studies:
        for lie in LIES:
            for share in SHARES:
                yield (
                    {"study": name, "lie": lie, "share": share},
                    [_poisoned(settings, name, lie, share)],
                )


def _rows(found: Found) -> list[Row]:
    return [labels | result for labels, [result] in found]


def _draw(rows: Sequence[Row]) -> Figure:
    figure, panels = style.panels(len(studies_of(rows)))
    looks = dict(zip(LIES, ("o", "s", "^"), strict=True))
    for axes, name in zip(panels, studies_of(rows), strict=True):
        mine = group(rows, study=name)
        for lie, marker in looks.items():
            own = group(mine, lie=lie)
            shares = [100 * row["share"] for row in own]
            for key, colour, words in (
                ("free", style.VERMILLION, "none or sum"),
                ("bounded", style.BLUE, "bounded"),
            ):
                axes.plot(
                    shares,
                    [row[key] for row in own],
                    color=colour,
                    marker=marker,
                    linewidth=1.2,
                    markersize=5,
                    label=f"{words}: {lie}",
                )
        own = group(mine, lie="one cell")
        axes.plot(
            [100 * row["share"] for row in own],
            [row["stated"] for row in own],
            color=style.BLACK,
            linestyle="--",
            label="the bound that the plan states",
        )
        axes.set_yscale("log")
        axes.set_xlabel("participants that lie (%)")
        axes.set_title(TITLES[name], loc="left")
    panels[0].set_ylabel("largest shift of an answer (its standard errors)")
    panels[-1].legend(frameon=False, fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _remarks(rows: Sequence[Row]) -> Iterator[str]:
    above = [row for row in rows if row["bounded"] > row["stated"] * (1 + 1e-9)]
    closest = max(row["bounded"] / row["stated"] for row in rows)
    yield (
        f"With proofs no lie moved an answer further than the plan states: {len(above)} of"
        f" {len(rows)} did, and the closest came to {100 * closest:.3g}% of it."
        if not above
        else f"{len(above)} of {len(rows)} lies moved an answer further than the plan states."
    )
    furthest = max(row["free"] / row["stated"] for row in rows)
    yield f"Without proofs the furthest went to {significant(furthest, 2)} times that."


POISONING = PaperItem(
    name="poisoning",
    title="What participants that lie can do (not in the paper)",
    paper=(
        "The paper leaves inputs unvalidated. Liars send a thousand invented records of one cell,"
        " random residues, or the vector that moves one answer furthest; with `validation: bounded`"
        " the same, cut to the length that can be proved. Shifts are relative to a round in which"
        " the liars are absent."
    ),
    needed=_needed,
    rows=_rows,
    columns=(
        Column("study", "study"),
        Column("lie", "lie"),
        Column("share", "share", 2),
        Column("liars", "liars"),
        Column("free", "none or sum", 3),
        Column("bounded", "bounded", 3),
        Column("stated", "stated in the plan", 3),
        Column("free_rms", "rms, none or sum", 3),
        Column("bounded_rms", "rms, bounded", 3),
    ),
    draw=_draw,
    remarks=_remarks,
)


# ---- costs --------------------------------------------------------------------------------------

PANELS = {
    "participant_ms": "participant's computation (ms)",
    "rounds_s": "coordinator's computation (s)",
    "participant_kb": "participant's traffic (KB)",
}


def _rounds_needed(settings: Settings) -> Iterator[Needed]:
    for level in LEVELS:
        for n in settings.validated_participants:
            asked: dict[str, Any] = {} if level == "none" else {"validation": level}
            unit = simulations.round_of(settings, n, MALICIOUS, **asked)
            yield {"validation": level, "participants": n}, [unit]


def _cost_rows(found: Found) -> list[Row]:
    rows = [simulations.averaged(results) | labels for labels, results in found]
    for row in rows:
        [base] = group(rows, validation="none", participants=row["participants"])
        row |= {f"{key}_ratio": row[key] / base[key] for key in PANELS}
    return rows


def _draw_costs(rows: Sequence[Row]) -> Figure:
    figure, panels = style.panels(len(PANELS), 4.4)
    colours = dict(zip(LEVELS, (style.BLACK, style.SKY, style.BLUE), strict=True))
    for axes, (key, title) in zip(panels, PANELS.items(), strict=True):
        for level, colour in colours.items():
            look = style.ours(MALICIOUS) | {"color": colour}
            style.series(axes, group(rows, validation=level), "participants", key, level, look)
        style.over_participants(axes, rows, title)
    panels[0].legend(frameon=False)
    return figure


COSTS = PaperItem(
    name="validation",
    title="A round of Census SF1 with validated inputs (not in the paper)",
    paper="Beside Table 2, malicious: the same rounds at each level of validation.",
    needed=_rounds_needed,
    rows=_cost_rows,
    columns=(
        Column("validation", "validation"),
        Column("participants", "n"),
        *(
            column
            for key, header in (
                ("participant_ms", "participant ms"),
                ("rounds_s", "coordinator s"),
                ("participant_kb", "participant KB"),
            )
            for column in (Column(key, header, 3), Column(f"{key}_ratio", "to none", 3))
        ),
    ),
    draw=_draw_costs,
)
