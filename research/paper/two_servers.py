"""Beyond the paper: rounds with two servers, in which a participant sends one message."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.figure import Figure

from dhdmm.aggregation.method import ThreatModel
from dhdmm.planning.methods import METHODS
from dhdmm.simulation.trace import Trace
from research.paper import published, style
from research.paper.item import Column, Found, Needed, PaperItem, Row
from research.paper.settings import Settings
from research.paper.work import Result, Unit

WORKERS = 2
PANELS = {
    "participant_ms": "participant's computation (ms)",
    "servers_ms": "servers' computation, for each (ms)",
    "sent_kb": "participant sends (KB)",
    "leader_mb": "leader's process (MB)",
}


def _round(settings: Settings, participants: int) -> Unit:
    study = settings.simulated
    parameters = {"study": study, "participants": participants, "workers": WORKERS}
    return Unit("two-servers", parameters, lambda: _apart(study, participants))


def _apart(study: str, participants: int) -> Result:
    """In a process of its own, whose memory is the leader's."""
    command = [sys.executable, "-m", "research.two_servers", str(participants), "--study", study]
    done = subprocess.run(
        [*command, "--workers", str(WORKERS)], stdout=subprocess.PIPE, check=True, text=True
    )
    found: Result = json.loads(done.stdout)
    return found


def _needed(settings: Settings) -> Iterator[Needed]:
    for n in settings.two_server_participants:
        yield {}, [_round(settings, n)]


def _traced_mb(participants: int) -> float:
    """What the simulation notes of everybody."""
    kept = vars(Trace.empty(METHODS[ThreatModel.TWO_SERVERS].phases, participants)).values()
    return sum(array.nbytes for array in kept if isinstance(array, np.ndarray)) / 1e6


def _rows(found: Found) -> list[Row]:
    rows = []
    for _, [result] in found:
        rows.append(
            result
            | {
                "servers_ms": result["leader_ms"] + result["helper_ms"],
                "sent_kb": result["sent_bytes"] / 1e3,
                "plan_check_ms": 1e3 * result["plan_check_s"],
                "paper_kb": published.beside("semi-honest", result["participants"])[
                    "paper_participant_kb"
                ],
            }
        )
    return rows


def _draw(rows: Sequence[Row]) -> Figure:
    figure, panels = style.panels(len(PANELS), 3.6, across=2)
    look = {"color": style.BLUE, "marker": "o", "linewidth": 1.2}
    for axes, (key, title) in zip(panels, PANELS.items(), strict=True):
        style.series(axes, rows, "participants", key, "two servers", look)
        style.sizes_axis(axes, [row["participants"] for row in rows])
        axes.set_ylim(0, 1.1 * max(row[key] for row in rows))
        axes.set_title(title, loc="left")
    return figure


def _remarks(rows: Sequence[Row]) -> Iterator[str]:
    last = rows[-1]
    yield (
        f"{last['participants']:,} participants with one record each: {last['wall_s']:,.0f} s on"
        f" this machine, every party executed; a participant computes"
        f" {last['participant_ms']:.2f} ms, the servers {last['servers_ms']:.2f} ms for it"
        " together, and it sends one message of"
        f" {last['sent_kb']:.1f} KB. At most {last['leader_mb']:,} MB were in the leader's"
        f" process, {_traced_mb(last['participants']):.0f} of them figures that the simulation"
        f" keeps for itself, and {last['helper_mb']:,} MB in the helper's."
    )
    exact = all(row["sum_correct"] for row in rows)
    yield "Every sum equals the ideal one exactly." if exact else "A sum was not the ideal one."


ITEM = PaperItem(
    name="two-servers",
    title="A round of Census SF1 with two servers (not in the paper)",
    paper=(
        "The paper says that its approach extends to several servers. Here a participant sends one"
        " message, and all is well while one of two servers is honest; the check of the plan is"
        " apart, as in Table 2."
    ),
    needed=_needed,
    rows=_rows,
    columns=(
        Column("participants", "n"),
        Column("modulus_bits", "bits"),
        Column("participant_ms", "participant ms", 3),
        Column("plan_check_ms", "plan check ms", 2),
        Column("leader_ms", "leader ms each", 3),
        Column("helper_ms", "helper ms each", 3),
        Column("sent_kb", "sends KB", 3),
        Column("paper_kb", "paper, one server, KB"),
        Column("leader_mb", "leader MB"),
        Column("helper_mb", "helper MB"),
        Column("wall_s", "simulated in s", 3),
    ),
    draw=_draw,
    remarks=_remarks,
)
