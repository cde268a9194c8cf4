"""The paper's example of κ, what discreteness costs: ρ = 0.1, n = 5,000, γ = 100.

κ = 5 Σ_{j=1}^{n−1} e^{−4π²σ² j/(j+1)} with σ² = γ²Δ²/(2nρ) = 10, θ = 0, Δ = 1. Its exponent is
twice the one that holds for a sum of discrete Gaussians, so we account with τ = 10 Σ e^{−2π²σ² …}
for every coordinate (docs/accounting.md) and choose scales for which that is negligible too.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import mpmath
from matplotlib.figure import Figure

from dhdmm.paper import style
from dhdmm.paper.item import Column, PaperItem, Row
from dhdmm.paper.settings import Settings
from dhdmm.paper.work import Result, Results, Unit

RHO, PARTICIPANTS, SCALE = Fraction(1, 10), 5000, 100
PUBLISHED = {100: 9.39e-86}
DIGITS = 20
SCALES = (50, 100, 200, 1000)


def variance(scale: int) -> mpmath.mpf:
    """σ² of one participant's noise at scaling factor γ."""
    return mpmath.mpf(scale) ** 2 / int(2 * PARTICIPANTS * RHO)


def decaying_sum(factor: int, rate: mpmath.mpf) -> mpmath.mpf:
    """factor · Σ_{j=1}^{n−1} e^{−rate·j/(j+1)}, with exponents that no double has."""
    return factor * mpmath.fsum(mpmath.exp(-rate * j / (j + 1)) for j in range(1, PARTICIPANTS))


def _computed() -> Result:
    with mpmath.workdps(DIGITS):
        return {
            str(scale): {
                "kappa": mpmath.nstr(decaying_sum(5, 4 * mpmath.pi**2 * variance(scale)), 12),
                "tau": mpmath.nstr(decaying_sum(10, 2 * mpmath.pi**2 * variance(scale)), 12),
            }
            for scale in SCALES
        }


def unit() -> Unit:
    return Unit("kappa", {"rho": str(RHO), "n": PARTICIPANTS, "scales": list(SCALES)}, _computed)


def _units(_settings: Settings) -> Sequence[Unit]:
    return [unit()]


def _compute(_settings: Settings, results: Results) -> list[Row]:
    found = results[unit().name]
    return [
        {
            "scale": scale,
            "variance": float(variance(scale)),
            "kappa": _short(found[str(scale)]["kappa"]),
            "paper_kappa": PUBLISHED.get(scale),
            "tau": _short(found[str(scale)]["tau"]),
            "log10_kappa": float(mpmath.log10(mpmath.mpf(found[str(scale)]["kappa"]))),
            "log10_tau": float(mpmath.log10(mpmath.mpf(found[str(scale)]["tau"]))),
        }
        for scale in SCALES
    ]


def _short(number: str) -> str:
    """Three digits, also of what no double can hold."""
    return str(mpmath.nstr(mpmath.mpf(number), 3, min_fixed=0, max_fixed=0))


def _draw(rows: Sequence[Row]) -> Figure:
    figure, [axes] = style.panels(1, 6.4)
    scales = [row["scale"] for row in rows]
    for key, label, model in [
        ("log10_kappa", "κ, the paper's formula", "semi-honest"),
        ("log10_tau", "τ, ours, a coordinate", "malicious"),
    ]:
        axes.plot(scales, [-row[key] for row in rows], label=label, **_line(model))
    axes.plot([SCALE], [85.03], label="the paper's example", **_line("semi-honest", hollow=True))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("scaling factor γ")
    axes.set_ylabel("−log₁₀ of the extra cost")
    axes.set_title("Discreteness costs nothing at ρ = 0.1, n = 5,000", loc="left")
    axes.legend(frameon=False)
    return figure


def _line(model: str, hollow: bool = False) -> style.Keywords:
    chosen = style.theirs(model) if hollow else style.ours(model)
    return {key: value for key, value in chosen.items() if key != "capsize"}


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
    units=_units,
    compute=_compute,
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
