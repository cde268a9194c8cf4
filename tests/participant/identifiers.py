"""Whom an identifier names, in plain Python; and columns of identifiers of every type."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
from hypothesis import strategies as st

from dhdmm.study.attributes import IntegerAttribute
from dhdmm.study.schema import Schema

MOST_ROWS = 30
SCHEMA = Schema((IntegerAttribute("row", 0, MOST_ROWS),))
"""Every row has a cell of its own, so a histogram tells which rows were kept."""

WITHOUT_WIDTH = "\u180e\u200b\u200c\u200d\u2060\ufeff"
BLANK = {chr(code) for code in range(0x110000) if chr(code).isspace()} | set(WITHOUT_WIDTH)
WORDS = "nan NaN NAN nat NaT na NA n/a #N/A <NA> null NULL None none inf -inf Infinity -infinity"


def named(value: Any) -> Any:
    """The person; None where nobody is named."""
    if isinstance(value, str):
        text = value.strip("".join(BLANK))
        return None if text == "" or text.lower() in WORDS.lower().split() else text
    if isinstance(value, float | Decimal):
        return value + 0 if math.isfinite(value) else None  # -0.0 + 0 is 0.0
    return value


TEXT = (
    st.text(sorted(BLANK), max_size=3)
    | st.text("aB", max_size=2)
    | st.builds(
        "{}{}{}".format, st.sampled_from(sorted(BLANK)), st.sampled_from("abA"), st.just("")
    )
    | st.builds(
        "{}{}".format, st.sampled_from(WORDS.split()), st.sampled_from(["", " ", "\t", "x"])
    )
    | st.sampled_from(["a b", "ab", "a,0", 'a"', "é", "a\n", "0", "-1"])
)
NUMBERS = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 1e6, 2.0**40, math.nan, math.inf, -math.inf])
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), TEXT),
    "large text": (pa.large_string(), TEXT),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), TEXT),
    "integers": (pa.int64(), st.integers(-3, 3)),
    "unsigned": (pa.uint64(), st.sampled_from([0, 7, 2**40])),
    "floats": (pa.float64(), NUMBERS),
    "short floats": (pa.float32(), NUMBERS),
    "decimals": (
        pa.decimal128(20, 2),
        st.sampled_from([Decimal(text) for text in ("0", "-0.00", "1.5", "1.50", "7", "1e15")]),
    ),
    "dates": (pa.date32(), st.dates(date(2024, 2, 28), date(2024, 3, 2))),
    "moments": (
        pa.timestamp("us"),
        st.datetimes(datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 0, 3)),
    ),
    "moments in UTC": (
        pa.timestamp("us", "UTC"),
        st.sampled_from([datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)]),
    ),
    "truth": (pa.bool_(), st.booleans()),
    "nothing": (pa.null(), st.none()),
}
UUIDS = [UUID(int=value) for value in (0, 1, 1, 2**127)]


def columns(name: str) -> st.SearchStrategy[list[Any]]:
    return st.lists(COLUMNS[name][1] | st.none(), min_size=15, max_size=MOST_ROWS)


def table(held: pa.DataType, values: list[Any]) -> pa.Table:
    return pa.table({"id": pa.array(values, held), "row": range(len(values))})
