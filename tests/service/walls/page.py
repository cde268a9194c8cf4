"""The parts of docs/DEPLOYING.md that repeat what the program says.

`python -m tests.service.walls.page` writes them into the page anew.
"""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from dhdmm.server import logs
from dhdmm.server.limits import KIB, MIB, Limits, Rate
from dhdmm.server.metrics import HelperMetrics, Metrics, RoundFigures

PROJECT = Path(__file__).parents[3]
PAGE = PROJECT / "docs" / "DEPLOYING.md"
PART = "<!-- made: {name} -->\n{text}\n<!-- end -->"


def limits() -> str:
    meanings = _meanings()
    rows = [
        f"| `{name}` | {_shown(name, default)} | {meanings[name]} |"
        for name, default in ((field.name, field.default) for field in fields(Limits))
    ]
    return "\n".join(["| Limit | Default | Meaning |", "|---|---|---|", *rows])


def _meanings() -> dict[str, str]:
    """The line under each field."""
    (made,) = ast.parse(inspect.getsource(Limits)).body
    assert isinstance(made, ast.ClassDef)
    pairs = zip(made.body, made.body[1:], strict=False)
    return {
        field.target.id: text.value.value
        for field, text in pairs
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }


def _shown(name: str, value: object) -> str:
    if value is None:
        return "off"
    if isinstance(value, Rate):
        return f"{value.per_second:g}/s, {value.burst:,} at once"
    if "bytes" in name:
        return f"{value // MIB} MiB" if value >= MIB else f"{value // KIB} KiB"
    return f"{value:g} s" if "seconds" in name else f"{value:,}"


def metrics() -> str:
    made = Metrics()
    made.watch(lambda: [RoundFigures("", "", 0, 0, 0, 0)])
    made.certificate_expires(0)
    made.upload("", 0)
    made.responded(200)
    made.rejected("")
    return _table(made)


def helper_metrics() -> str:
    """Those that only a helper has."""
    return _table(HelperMetrics(), "dhdmm_helper")


def _table(made: Metrics, beginning: str = "") -> str:
    rows = [
        f"| `{family.name}` | {family.type} | {family.documentation} |"
        for family in text_string_to_metric_families(made.text().decode())
        if not family.name.endswith("_created") and family.name.startswith(beginning)
    ]
    return "\n".join(["| Metric | Kind | Meaning |", "|---|---|---|", *rows])


def logged() -> str:
    return ", ".join(f"`{key}`" for key in sorted(logs.ALLOWED))


PARTS = {"limits": limits, "metrics": metrics, "helper-metrics": helper_metrics, "logged": logged}


def parts() -> dict[str, str]:
    return {name: PART.format(name=name, text=make()) for name, make in PARTS.items()}


def rewritten(page: str) -> str:
    for name, text in parts().items():
        place = re.compile(rf"<!-- made: {name} -->.*?<!-- end -->", re.DOTALL)
        page = place.sub(lambda _found, text=text: text, page)
    return page


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
