"""The style sheet and the templates: enough contrast in light and dark, nothing inline."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dhdmm.release.charts.draw import FAINTEST, STRONG
from dhdmm.release.charts.page import STYLE
from dhdmm.web.site import STATIC

TEMPLATES = STATIC.parent / "templates"
ENOUGH = 4.5  # WCAG 2.2, level AA, for text
TEXT = ("ink", "ink-soft", "link", "good", "wrong")
GROUNDS = ("page", "raised", "sunken")


def tokens(theme: str) -> dict[str, str]:
    """Of both sheets. The first set is light; the one under prefers-color-scheme is dark."""
    found: dict[str, str] = {}
    for sheet in (STYLE, STATIC / "style.css"):
        light, dark = re.findall(r":root \{(.*?)\}", sheet.read_text(), re.DOTALL)
        found |= dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", light))
        if theme == "dark":
            found |= dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", dark))
    return found


def luminance(colour: tuple[float, ...]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def parsed(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_its_ground(theme: str) -> None:
    colours = tokens(theme)
    pairs = [(text, ground) for text in TEXT for ground in GROUNDS] + [("on-accent", "accent")]
    weak = [p for p in pairs if contrast(*(parsed(colours[name]) for name in p)) < ENOUGH]
    assert weak == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lines_and_bars_stand_out_from_the_page(theme: str) -> None:
    colours = tokens(theme)
    marks = [f"series-{i}" for i in range(1, 5)] + ["line-strong", "focus"]
    page = parsed(colours["page"])
    assert [mark for mark in marks if contrast(parsed(colours[mark]), page) < 3] == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_numbers_in_a_heat_map_are_readable_at_every_strength(theme: str) -> None:
    colours = tokens(theme)
    heat, page = parsed(colours["heat"]), parsed(colours["page"])
    for percent in range(int(100 * FAINTEST), 101):
        share = percent / 100
        cell = tuple(share * a + (1 - share) * b for a, b in zip(heat, page, strict=True))
        ink = "heat-strong-ink" if share >= STRONG else "heat-faint-ink"
        assert contrast(parsed(colours[ink]), cell) >= ENOUGH, (theme, share)


@pytest.mark.parametrize("template", sorted(TEMPLATES.glob("*.html")), ids=lambda path: path.stem)
def test_templates_have_nothing_inline_and_escape_everything(template: Path) -> None:
    text = template.read_text()
    assert not re.search(r"\sstyle=|\son[a-z]+=|javascript:|<style|\|\s*safe\b|autoescape", text)
    assert not re.search(r"<script(?![^>]*\ssrc=)", text)
    assert not re.search(r"(?:src|href|action)=[\"']?(?:https?:)?//", text)
