"""Tables for trying a study out are tables that the study can count."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dhdmm.demo.made_up import dealt_out, made_up, write
from dhdmm.participant.tabulate import tabulate
from dhdmm.study.spec import Study
from tests.participant.histograms import contents
from tests.round.small import small_text

STUDY = Study.from_text(small_text())
ROWS = [{"age": str(age % 10), "sex": "FM"[age % 2], "note": f"{age};"} for age in range(23)]


def _saved(path: Path) -> Path:
    table = pa.Table.from_pylist(ROWS)
    if path.suffix == ".parquet":
        pq.write_table(table.set_column(0, "age", table["age"].cast(pa.int64())), path)
    else:
        lines = ["age;sex;note", *(f'{row["age"]};{row["sex"]};"{row["note"]}"' for row in ROWS)]
        path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["patients.csv", "patients.parquet"])
def test_a_table_is_dealt_out_whole_and_in_turn(tmp_path: Path, name: str) -> None:
    tables = list(dealt_out(STUDY, _saved(tmp_path / name), 5))
    assert [len(table) for table in tables] == [5, 5, 5, 4, 4]
    for one, table in enumerate(tables):
        path = tmp_path / f"{one}.csv"
        write(table, path)
        codes = [(int(row["age"]), "FM".index(row["sex"])) for row in ROWS[one::5]]
        assert contents(tabulate(path, STUDY.schema).histogram) == Counter(codes)


def test_every_made_up_value_is_in_the_domain(tmp_path: Path) -> None:
    for one, table in enumerate(made_up(STUDY, 5)):
        write(table, tmp_path / "made-up.csv")
        report = tabulate(tmp_path / "made-up.csv", STUDY.schema).report
        assert (report.rows, report.dropped) == (len(table), 0), one
