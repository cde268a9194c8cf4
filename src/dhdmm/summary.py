"""How the values of the public API present themselves: one line, and a small table in notebooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any


class Summarised(ABC):
    """Base class of values with a short `repr` and a summary for notebooks.

    Neither may show a secret or start a long computation.
    """

    @abstractmethod
    def _summary(self) -> Mapping[str, Any]:
        """What the value is, by name; quick to find out."""

    def _preview(self) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """The headers and rows of a table that notebooks show below the summary."""
        return (), ()

    def __repr__(self) -> str:
        facts = " ".join(f"{name}={value!r}" for name, value in self._summary().items())
        return f"<{type(self).__name__} {facts}>"

    def _repr_html_(self) -> str:
        facts = "".join(
            f"<tr><th>{escape(name)}</th><td>{_shown(value)}</td></tr>"
            for name, value in self._summary().items()
        )
        headers, rows = self._preview()
        return f"<strong>{type(self).__name__}</strong>{_table(facts)}" + (
            _table(_row("th", headers) + "".join(_row("td", row) for row in rows))
            if headers
            else ""
        )


def _table(rows: str) -> str:
    return f"<table>{rows}</table>"


def _row(tag: str, cells: Sequence[Any]) -> str:
    return "<tr>" + "".join(f"<{tag}>{_shown(cell)}</{tag}>" for cell in cells) + "</tr>"


def _shown(value: Any) -> str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return escape(f"{value:,}" if number else str(value))
