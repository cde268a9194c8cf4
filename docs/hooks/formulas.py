"""Formulas of the documentation become MathML when the site is built.

Browsers typeset MathML themselves, so a page needs no script and asks no other host. On a page a
formula is TeX, `$…$` within a line and a fence of `math` by itself, which forges show as well.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)
UNKNOWN = re.compile(r"\\[A-Za-z]+")
LONG = 40
"""From so many characters of TeX a formula within a line may be wider than a telephone."""

SPACE = '<mspace width="0.17em"/>'
NAME = r"<mi>[A-Za-z]{2,}</mi>"
REPAIRS = (
    # brackets of rounding, ⪰, ± and ∖ are taken for names, and would get no space
    (r"<mi>(&#x(?:0230[89AB]|02AB0|000B1|029F5);)</mi>", r"<mo>\1</mo>"),
    (r"<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>"),
    # a vertical line is a bracket as high as a letter
    (r"<mo>&#x0007C;</mo>", '<mo stretchy="false" lspace="0" rspace="0">&#x0007C;</mo>'),
    # names of functions are taken for operators, and would get space on both sides
    (r"<mo[^>]*>([A-Za-z]{2,})</mo>", r"<mi>\1</mi>"),
    (r"<mo[^>]*>([A-Za-z])</mo>", r'<mi mathvariant="normal">\1</mi>'),
    (rf"(</m(?:i|n|sub|sup|subsup|frac)>|\)</mo>)(?=(?:<msub>)?{NAME})", rf"\1{SPACE}"),
    (rf"({NAME})(?=<(?!/|mo|mspace))", rf"\1{SPACE}"),
    (rf"(<msub>{NAME})<mspace[^>]*/>(.*?</msub>)(?!</|<mo)", rf"\1\2{SPACE}"),
    (rf"(<msub>{NAME})<mspace[^>]*/>", r"\1"),
    # a slash is part of what it divides
    (r"<mo>&#x0002F;</mo>", '<mo lspace="0" rspace="0">&#x0002F;</mo>'),
)
"""What the converter's MathML needs to look as TeX would."""


def on_page_content(html: str, **_: Any) -> str:
    """Called by MkDocs for every page."""
    return FORMULA.sub(lambda found: mathml(unescape(found["tex"]), found["tag"] == "div"), html)


def mathml(tex: str, display: bool) -> str:
    """The formula as MathML, on a line of its own if `display`; unknown TeX is an error."""
    tex = tex.strip()
    made = convert(tex, display="block" if display else "inline")
    if unknown := UNKNOWN.search(made):
        raise ValueError(f"no MathML for {unknown[0]} in the formula {tex}")
    for wrong, right in REPAIRS:
        made = re.sub(wrong, right, made)
    if display:
        return f'<div class="arithmatex">{made}</div>'
    return f'<span class="long-formula">{made}</span>' if len(tex) >= LONG else made
