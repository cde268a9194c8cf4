"""What a table holds, column by column, for the first draft of a study about it: `init --from`."""

from __future__ import annotations

from typing import Any

from dhdmm.participant.reading import find
from dhdmm.participant.sources import LocalSource
from dhdmm.study.attributes.columns import ColumnKind, SeenColumn

MOST_VALUES = 100_000
"""Different values of a column that are looked at."""
UNREADABLE = (ColumnKind.MIXED, ColumnKind.OTHER)


def seen_columns(table: Any, most: int) -> list[SeenColumn]:
    """Every column's different values, of which a draft lists `most`; in a file or a warehouse."""
    source = find(table, ())
    columns = [SeenColumn(name, most) for name in source.names]
    readable = [at for at in range(len(columns)) if source.kind(at) not in UNREADABLE]
    if not isinstance(source, LocalSource):
        for at in readable:
            for value, rows in source.different(at, MOST_VALUES):
                columns[at].add(value or "", rows)
        return columns
    with source.connection(None) as connection:
        relation = source.attach(connection, readable)
        for at in readable:
            query = (
                f"SELECT c{at}::VARCHAR, count(*) FROM {relation}"
                f" GROUP BY 1 ORDER BY 1 LIMIT {MOST_VALUES}"
            )
            for value, rows in connection.execute(query).fetchall():
                columns[at].add(value or "", rows)
    return columns
