"""Every cell as a one-record table in DuckDB, the judge of what a query's SQL means."""

import duckdb
import numpy as np

from dhdmm.study.attributes import (
    CategoryAttribute,
    IntegerAttribute,
    MeasureAttribute,
    NumberAttribute,
)
from dhdmm.study.names import column

TYPES = {str: "VARCHAR", int: "BIGINT", bool: "BOOLEAN"}


def raw_values(attribute):
    """(SQL type, one raw value per code); bins are stood for by their lower edge."""
    if attribute.missing_code is not None:
        kind, values = raw_values(attribute.present)
        return kind, [*values, None]
    if isinstance(attribute, IntegerAttribute):
        return "BIGINT", list(range(attribute.low, attribute.high + 1))
    if isinstance(attribute, CategoryAttribute):
        return TYPES[type(attribute.values[0])], list(attribute.values)
    if isinstance(attribute, NumberAttribute):
        return "DOUBLE", list(attribute.edges[:-1])
    if isinstance(attribute, MeasureAttribute):
        return "DOUBLE", [float(attribute.low), float(attribute.high)]
    moments = attribute.examples(np.arange(attribute.size)).tolist()
    return attribute.sql_type, moments


def duckdb_matrix(workload):
    """(queries, cells): query i's SQL answered by DuckDB on the table that holds only cell j."""
    schema = workload.schema
    connection = duckdb.connect()
    kinds = [raw_values(attribute) for attribute in schema.attributes]
    columns = [
        f"{column(a.name)} {kind}" for a, (kind, _) in zip(schema.attributes, kinds, strict=True)
    ]
    connection.execute(f"CREATE TABLE data (cell BIGINT, {', '.join(columns)})")
    records = [
        (cell, *(values[c] for (_, values), c in zip(kinds, schema.codes(cell), strict=True)))
        for cell in range(schema.cells)
    ]
    row = f"({', '.join('?' * (len(kinds) + 1))})"
    values = [value for record in records for value in record]
    connection.execute(f"INSERT INTO data VALUES {', '.join([row] * len(records))}", values)
    answers = np.zeros((workload.queries, schema.cells))
    for i in range(workload.queries):
        sql = workload.query(i).sql
        assert sql.startswith("SELECT ")
        per_record = f"SELECT cell, {sql.removeprefix('SELECT ')} GROUP BY cell"
        for cell, answer in connection.execute(per_record).fetchall():
            answers[i, cell] = answer
    return answers
