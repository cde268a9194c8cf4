"""The paper's example of κ, what discreteness costs: ρ = 0.1, n = 5,000, γ = 100.

κ = 5 Σ_{j=1}^{n−1} e^{−4π²σ² j/(j+1)} with σ² = γ²Δ²/(2nρ) = 10, θ = 0, Δ = 1. At two shares
the true excess is 3.2 κ, for every coordinate, so we account with the proved τ = 10 Σ e^{−2π²σ² …}
for every coordinate (docs/accounting.md) and choose scales for which that is negligible too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

from matplotlib.figure import Figure

from research.paper import style
from research.paper.item import Column, Found, Needed, PaperItem, Row
from research.paper.settings import Settings
from research.paper.work import Result, Unit

RHO, PARTICIPANTS, SCALE = Fraction(1, 10), 5000, 100
PUBLISHED = {100: 9.39e-86}
PI = Decimal("3.14159265358979323846264338327950288")
DIGITS = 30
SCALES = (50, 100, 200, 1000)


def variance(scale: int) -> Decimal:
    """σ² of one participant's noise at scaling factor γ."""
    return Decimal(scale) ** 2 / int(2 * PARTICIPANTS * RHO)


def decaying_sum(factor: int, rate: Decimal) -> Decimal:
    """factor · Σ_{j=1}^{n−1} e^{−rate·j/(j+1)}, with exponents that no double has."""
    return factor * sum(((-rate * j / (j + 1)).exp() for j in range(1, PARTICIPANTS)), Decimal(0))


def _computed() -> Result:
    with localcontext(prec=DIGITS):
        return {
            str(scale): {
                "kappa": f"{decaying_sum(5, 4 * PI**2 * variance(scale)):.11e}",
                "tau": f"{decaying_sum(10, 2 * PI**2 * variance(scale)):.11e}",
            }
            for scale in SCALES
        }


def unit() -> Unit:
    return Unit("kappa", {"rho": str(RHO), "n": PARTICIPANTS, "scales": list(SCALES)}, _computed)


def _needed(_settings: Settings) -> Iterator[Needed]:
    yield {}, [unit()]


def _rows(found: Found) -> list[Row]:
    [(_, [sums])] = found
    rows: list[Row] = []
    for scale in SCALES:
        kappa, tau = (Decimal(sums[str(scale)][name]) for name in ("kappa", "tau"))
        rows.append(
            {
                "scale": scale,
                "variance": float(variance(scale)),
                "kappa": f"{kappa:.2e}",
                "paper_kappa": PUBLISHED.get(scale),
                "tau": f"{tau:.2e}",
                "log10_kappa": float(kappa.log10()),
                "log10_tau": float(tau.log10()),
            }
        )
    return rows


def _draw(rows: Sequence[Row]) -> Figure:
    figure, [axes] = style.panels(1, 6.4)
    for key, label, model in [
        ("log10_kappa", "κ, the paper's formula", "semi-honest"),
        ("log10_tau", "τ, ours, a coordinate", "malicious"),
    ]:
        exponents = [-row[key] for row in rows]
        axes.errorbar([row["scale"] for row in rows], exponents, label=label, **style.ours(model))
    axes.errorbar([SCALE], [85.03], label="the paper's example", **style.theirs("semi-honest"))
    axes.set(xscale="log", yscale="log", xlabel="scaling factor γ")
    axes.set_ylabel("−log₁₀ of the extra cost")
    axes.set_title("Discreteness costs nothing at ρ = 0.1, n = 5,000", loc="left")
    axes.legend(frameon=False)
    return figure


def _remarks(rows: Sequence[Row]) -> Sequence[str]:
    example = next(row for row in rows if row["scale"] == SCALE)
    return [f"κ at γ = {SCALE} is {example['kappa']}; the paper prints {PUBLISHED[SCALE]}."]


ITEM = PaperItem(
    name="kappa",
    title="The cost of discreteness",
    paper=(
        "One example in the text: ρ = 0.1, n = 5,000, γ = 100 give κ = 9.39e-86."
        " For γ = 1,000 the paper says that κ is too small for a double; here it is."
    ),
    needed=_needed,
    rows=_rows,
    columns=(
        Column("scale", "γ"),
        Column("variance", "σ² a participant", 3),
        Column("kappa", "κ"),
        Column("paper_kappa", "κ, paper", 3),
        Column("tau", "τ (ours, a coordinate)"),
    ),
    draw=_draw,
    remarks=_remarks,
)
