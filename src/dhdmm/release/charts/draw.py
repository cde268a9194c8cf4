"""Pictures of tables as SVG: pure functions from a picture to an element tree.

Colours are classes of `chart.css`, so that light and dark need one drawing. Every mark has its
answer as `data-value`, its standard error as `data-error`, and a title to point at. Whiskers, bands
and what stands behind ± are 95 % intervals of single answers; no axis of counts is logarithmic.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

import numpy as np

from dhdmm.release.charts.axes import (
    GAP,
    UPRIGHT_CHARACTERS,
    Scale,
    Slots,
    fits_across,
    half_a_number,
    height_of_key,
    key_of_lines,
    name_across,
    name_upright,
    numbers_across,
    numbers_upwards,
    width_of_numbers,
)
from dhdmm.release.charts.svg import (
    CHARACTER,
    WIDE,
    Drawing,
    answer,
    count,
    points,
    room,
    short,
    tell,
    title,
    with_reach,
)
from dhdmm.release.intervals import half_width
from dhdmm.release.pictures import Bars, Heat, Lines, Picture
from dhdmm.release.wording import decimals, number

FAINTEST = 0.05
STRONG = 0.68
"""From this opacity on, the style sheet's light ink is read more easily than its dark one."""
BESIDE = 7
"""Pixels from one point to the next, where those of several lines stand at one position."""
SCALE_STEPS = 24
"""Patches of the colour scale of a heat map."""


def draw(picture: Picture, name: str, width: float = WIDE) -> Element:
    """The picture as an `svg` element; `name` is what a screen reader calls it."""
    match picture:
        case Bars():
            return _bars(picture, name, width)
        case Lines():
            return _lines(picture, name, width)
        case Heat():
            return _heat(picture, name, width)


def key(picture: Picture) -> str:
    """How to read it."""
    match picture:
        case Bars():
            said = "Whiskers and ± are 95 % confidence intervals, each answer by itself."
        case Lines():
            said = "Bands are 95 % confidence intervals, each answer by itself."
            if picture.direction.apart:
                said += " What is missing stands apart, with a whisker."
        case Heat():
            said = (
                "Stronger is more; ± is a 95 % confidence interval, each answer by itself. A dot"
                " in a cell: its interval contains 0."
            )
    return said


# ---- bars ---------------------------------------------------------------------------------------


def _bars(picture: Bars, name: str, width: float) -> Element:
    """The first bar on top; its label and number beside it, or above it on a phone."""
    values, errors, reach = picture.values, picture.errors, half_width(picture.errors)
    places = decimals(float(errors.min()))
    texts = picture.texts or [
        with_reach(*row, places) for row in zip(values.tolist(), reach.tolist(), strict=True)
    ]
    longest, size = max(map(len, texts)), len(texts)
    low, high = picture.ends or (values - reach, values + reach)
    whiskers = np.isfinite(low) & np.isfinite(high) & (low < high)
    low, high = np.where(whiskers, (low, high), values)
    spans, kind = np.column_stack([low, high]), "bar"
    if picture.truth is not None:
        low, high = np.minimum(low, picture.truth), np.maximum(high, picture.truth)
        kind = "pale bar"
    narrow = width < WIDE
    line = 44 if narrow else 24
    labels = [short(label, room(width) - longest - 2 if narrow else 30) for label in picture.labels]
    ends = float(low.min()), float(high.max())
    if narrow:
        left = beyond = half_a_number(Scale.of(*ends, 0, 1))
    else:
        left, beyond = 12 + CHARACTER * max(map(len, labels)), 16 + CHARACTER * longest
    across = Scale.of(*ends, left, width - beyond)
    gap = GAP if 0 < picture.apart < size else 0
    rows = Slots.of(size, picture.apart, 0, line * size + gap)
    bottom = rows.starts[-1] + line + 8
    drawing = Drawing.of(width, bottom + 26, name)
    numbers_across(drawing, across, bottom)
    drawing.line("zero", across(0), 0, across(0), bottom)
    for i, (label, said) in enumerate(zip(labels, texts, strict=True)):
        foot = rows.starts[i] + line
        top, middle = foot - 16, foot - 8
        bar = drawing.rectangle(kind, across(0), top, across(values[i]), foot)
        tell(bar, values[i], errors[i], f"{picture.labels[i]}: {said}")
        if picture.truth is not None:
            ring = drawing.mark("circle", "truth", cx=across(picture.truth[i]), cy=middle, r=4)
            tell(ring, picture.truth[i], 0, f"{picture.labels[i]}: truly {count(picture.truth[i])}")
        if whiskers[i]:
            drawing.whisker(*((across(end), middle) for end in spans[i]))
        if narrow:
            drawing.text(0, top - 6, label, "label")
            drawing.text(width, top - 6, said, "label", "end")
        else:
            drawing.text(left - 8, middle + 4, label, "label", "end")
            drawing.text(max(across(high[i]), across(0)) + 8, middle + 4, said, "label")
    return drawing.root


# ---- lines --------------------------------------------------------------------------------------


def _lines(picture: Lines, name: str, width: float) -> Element:
    """One plot, or small ones side by side with the same axes."""
    plots, narrow, direction = len(picture.plots), width < WIDE, picture.direction
    columns = min(plots, 2 if narrow else 3)
    height, head = (220 if narrow else 280, 0) if plots == 1 else (96, 22)
    top, pitch = 10 + height_of_key(picture.names, width), head + height + 24
    end = top + pitch * -(-plots // columns) + 20
    drawing = Drawing.of(width, end, name)
    key_of_lines(drawing, picture.names)
    left = width_of_numbers(Scale.of(*picture.limits, 0, 1))
    across = (width - 6 - left) / columns
    for place, words in enumerate(picture.plots):
        row, column = divmod(place, columns)
        x, y = left + column * across, top + row * pitch + head
        right = x + across - (12 if column < columns - 1 else 0)
        upwards = Scale.of(*picture.limits, y + height, y)
        drawing.text(x, y - 8, short(words, room(across - 8)), "label")
        numbers_upwards(drawing, upwards, x, right, labels=column == 0)
        beside = BESIDE / 2 * (len(picture.names) - 1) if direction.apart else 0
        slots = Slots.of(len(direction), direction.apart, x, right - beside)
        name_across(drawing, direction, slots, y + height + 17, right)
        _curves(drawing, picture, place, slots.middles, upwards)
    drawing.text(width - 4, end - 6, short(direction.header, 60), "axis-name", "end")
    return drawing.root


def _curves(
    drawing: Drawing, picture: Lines, plot: int, places: list[float], upwards: Scale
) -> None:
    """Lines with their bands; beside them, points with whiskers for what is in no order."""
    joined = len(picture.direction) - picture.direction.apart
    for j, (counts, errors) in enumerate(
        zip(picture.values[plot], picture.errors[plot], strict=True)
    ):
        reach = half_width(errors)
        low, high = [upwards(v) for v in counts - reach], [upwards(v) for v in counts + reach]
        band = points(
            [*places[:joined], *places[:joined][::-1]], [*high[:joined], *low[:joined][::-1]]
        )
        drawing.mark("polygon", f"band s{j + 1}", points=band)
        heights = [upwards(v) for v in counts.tolist()]
        drawn = drawing.mark(
            "polyline", f"line s{j + 1}", points=points(places[:joined], heights[:joined])
        )
        drawn.set("data-values", " ".join(map(repr, counts[:joined].tolist())))
        drawn.set("data-errors", " ".join(map(repr, errors[:joined].tolist())))
        named = [picture.plots[plot], picture.names[j] if len(picture.names) > 1 else ""]
        title(drawn, " · ".join(filter(None, named)) or picture.direction.header)
        for i in range(joined, len(places)):
            x = places[i] + BESIDE * (j - (len(picture.names) - 1) / 2)
            drawing.whisker((x, low[i]), (x, high[i]))
            point = drawing.mark("circle", f"point s{j + 1}", cx=x, cy=heights[i], r=3)
            said = answer(float(counts[i]), float(errors[i]), float(reach[i]))
            tell(point, counts[i], errors[i], f"{picture.direction.labels[i]}: {said}")


# ---- heat maps ----------------------------------------------------------------------------------


def _heat(picture: Heat, name: str, width: float) -> Element:
    """Stronger is more. Totals stay without colour; what there is room for is written in."""
    down, across = picture.down, picture.across
    characters = 14 if width < WIDE else 30
    labels = [short(label, characters) for label in down.labels]
    header = short(down.header, characters)
    left = 14 + CHARACTER * max(map(len, [header, *labels]))
    columns = Slots.of(len(across), across.apart, left, width - 4)
    upright = across.named is None and not fits_across(across, columns)
    longest = min(max(map(len, across.labels)), UPRIGHT_CHARACTERS)
    top = 14 + CHARACTER * longest if upright else 24.0
    height = max(min(26.0, 640 / len(down)), 16.0) * len(down) + GAP * (down.apart > 0)
    rows = Slots.of(len(down), down.apart, top, top + height)
    drawing = Drawing.of(width, top + height + 64, name)
    _cells(drawing, picture, columns, rows)
    for label, y in zip(labels, rows.middles, strict=True):
        drawing.text(left - 8, y + 4, label, "label", "end")
    if upright:
        name_upright(drawing, across, columns, top - 8)
    else:
        name_across(drawing, across, columns, top - 8, width)
    drawing.text(0, top - 8, header, "axis-name")
    drawing.text(width - 4, top + height + 16, short(across.header, 60), "axis-name", "end")
    _colour_scale(drawing, picture, top + height + 30)
    return drawing.root


def _cells(drawing: Drawing, picture: Heat, columns: Slots, rows: Slots) -> None:
    """All numbers with their intervals, or all without, or none, as there is room."""
    values, errors, reach = picture.values, picture.errors, half_width(picture.errors)
    known = [(i, j) for i, j in np.ndindex(*values.shape) if not np.isnan(values[i, j])]
    whole = {at: answer(float(values[at]), float(errors[at]), float(reach[at])) for at in known}
    alone = {at: text.partition(" ± ")[0] for at, text in whole.items()}
    most = room(columns.width - 6)

    def fit(texts: dict[tuple[int, int], str]) -> bool:
        return all(len(text) <= most for at, text in texts.items() if not picture.totals[at])

    written = [texts for texts in (whole, alone) if fit(texts)]
    for at in known:
        value = float(values[at])
        x, y = columns.starts[at[1]], rows.starts[at[0]]
        total, share = bool(picture.totals[at]), _strength(value, picture.limits)
        cell = drawing.rectangle(
            "total" if total else "cell", x, y, x + columns.width, y + rows.width
        )
        if not total:
            cell.set("fill-opacity", f"{share:.4f}")
        said = f"{picture.down.labels[at[0]]}, {picture.across.labels[at[1]]}: {whole[at]}"
        tell(cell, value, float(errors[at]), said)
        ink = "label" if total else "strong" if share >= STRONG else "faint"
        if abs(value) <= reach[at]:
            drawing.mark("circle", f"dot {ink}", cx=x + columns.width - 5, cy=y + 5, r=2)
        text = next((texts[at] for texts in written if len(texts[at]) <= most), "")
        drawing.text(x + columns.width / 2, y + rows.width / 2 + 4, text, ink, "middle")


def _colour_scale(drawing: Drawing, picture: Heat, y: float) -> None:
    """Which strength is which answer."""
    low, high = picture.limits
    width = min(220.0, drawing.width / 2)
    step = width / SCALE_STEPS
    for i in range(SCALE_STEPS):
        patch = drawing.rectangle("patch", i * step, y, (i + 1) * step, y + 10)
        share = i / (SCALE_STEPS - 1)
        patch.set("fill-opacity", f"{_strength(low + share * (high - low), picture.limits):.4f}")
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        value = low + share * (high - low)
        places = decimals((high - low) / 10)
        drawing.text(share * width, y + 24, number(value, places), "tick", anchor)


def _strength(value: float, limits: tuple[float, float]) -> float:
    """0 or the smallest answer is faintest, the largest strongest."""
    low, high = limits
    share = (value - low) / (high - low) if high > low else 0.0
    return FAINTEST + (1 - FAINTEST) * min(max(share, 0.0), 1.0)
