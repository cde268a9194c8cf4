"""A table in a warehouse by one text: the warehouse's address, and behind it which table.

`postgresql://reader@host/hospital?table=discharges`, `duckdb://hospital.duckdb?table=discharges`;
`schema=…` where the table is not in the default one. Whatever else stands behind the question mark
is the driver's. An address may hold a password, so neither errors nor representations show it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit

from dhdmm.errors import DataError

if TYPE_CHECKING:
    from dhdmm.participant.warehouse import Table

SCHEME = re.compile(r"[A-Za-z][\w+.-]+:/")
"""Two characters at least, since C:/ is a drive; one slash is enough to be meant as an address."""
OURS = ("table", "schema")


@dataclass(frozen=True)
class TableAddress:
    """Where a participant's table is; shown by the table's name alone."""

    url: str = field(repr=False)
    table: str
    schema: str | None = None

    def __str__(self) -> str:
        return f"warehouse table '{self.table}'"

    @classmethod
    def parse(cls, text: str) -> TableAddress:
        try:
            parts = urlsplit(text)
            said = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError:  # whose message repeats the address
            raise _incomplete("this is not the address of a warehouse") from None
        ours = {name: value for name, value in said if name in OURS}
        if not ours.get("table"):
            raise _incomplete("the address names no table")
        rest = urlencode([(name, value) for name, value in said if name not in OURS])
        return cls(parts._replace(query=rest).geturl(), ours["table"], ours.get("schema"))

    def open(self) -> Table:
        """The table, as an expression that the warehouse will count."""
        try:
            from dhdmm.participant import warehouse
        except ModuleNotFoundError as error:
            if error.name != "ibis":
                raise
            raise DataError(
                "a table in a warehouse needs ibis, which is not installed",
                where=str(self),
                hint="pip install 'dhdmm[warehouse]'",
            ) from None
        self._require_file()
        return warehouse.table(self.url, self.table, database=self.schema)

    def _require_file(self) -> None:
        """DuckDB would make a new database where none is."""
        parts = urlsplit(self.url)
        path = Path(parts.netloc + parts.path)
        if parts.scheme == "duckdb" and not path.is_file():
            raise DataError("there is no such DuckDB file", where=str(path))


def is_address(text: str) -> bool:
    return SCHEME.match(text) is not None


def _incomplete(what: str) -> DataError:
    return DataError(what, hint="give one such as postgresql://reader@host/database?table=name")
