"""Tables for trying a study out: made up from its schema alone, or one table dealt out.

A NumPy generator is fine here: nothing that it draws is secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from dhdmm.participant.sources import open_source
from dhdmm.study.spec import Study

MOST_RECORDS = 50


def made_up(study: Study, participants: int) -> Iterator[pa.Table]:
    """One table a participant, every value as likely as the others; a new person each record."""
    generator = np.random.default_rng(0)
    person = study.privacy.person
    most = min(MOST_RECORDS, study.aggregation.max_records_per_participant)
    for sizes in generator.integers(min(10, most), most + 1, participants):
        size = int(sizes)
        columns: dict[str, Any] = {
            attribute.name: attribute.examples(generator.integers(0, attribute.size, size))
            for attribute in study.schema.attributes
        }
        if person is not None:
            columns[person.column] = np.arange(size)
        yield pa.table(columns)


def dealt_out(study: Study, path: Path, participants: int) -> Iterator[pa.Table]:
    """The rows of one table, in turn; those of a CSV file stay text, as the study reads it."""
    source = open_source(path, [attribute.name for attribute in study.schema.attributes])
    with source.connection(threads=None) as connection:
        relation = source.attach(connection, range(len(source.names)))
        rows: pa.Table = connection.sql(f"SELECT * FROM {relation}").to_arrow_table()
    everything = rows.rename_columns(source.names)
    for one in range(participants):
        yield everything.take(list(range(one, len(everything), participants)))


def write(table: pa.Table, path: Path) -> None:
    """As CSV: text for whoever reads it with a study."""
    csv.write_csv(table, path)
