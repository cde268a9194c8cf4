"""How a data holder's own columns become what a study asks for: `--columns visits.map.yaml`.

    columns:
      age: {column: AGE_YEARS, missing: ["", NA, -1]}
      sex: {column: Sex, ignore_case: true, recode: {m: male, f: female}}
      ward: {sql: "split_part(unit_code, '-', 1)"}

The file is the holder's: it is never sent, and what it says becomes SQL on the holder's machine
only. A column with any option but a name is read as text, like a field of a CSV file; the options
apply in the order of `OPTIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from dhdmm.errors import DataError, StudyError
from dhdmm.participant.coding import BLANKS
from dhdmm.study import document
from dhdmm.study.attributes import Attribute
from dhdmm.study.attributes.columns import ColumnKind
from dhdmm.study.forms import Name, Section, Value
from dhdmm.study.names import literal
from dhdmm.study.problems import study_error
from dhdmm.study.schema import Schema

OPTIONS = ("missing", "thousands", "decimal", "recode", "ignore_case", "date")
"""What is done to the text, one after the other; blanks around it are taken off first."""

Text = Annotated[str, Field(max_length=200)]
Mark = Annotated[str, Field(min_length=1, max_length=1)]


class Column(Section):
    """Where an attribute's values are, and how they are read.

    Attributes:
        column: The name of the table's column; by default the attribute's.
        sql: Instead of it, an expression over the table's columns, in the SQL of DuckDB or of the
            table's own warehouse.
        missing: Texts that stand for no value.
        thousands: A mark between groups of digits, which is taken out.
        decimal: The mark before a number's fraction, if that is not a point.
        date: The format of a date, such as `%d.%m.%Y`.
        recode: Values of the table, each with the value of the study that it means.
        ignore_case: Upper and lower case are the same, in the study's values and in `recode`.
    """

    column: Name | None = None
    sql: str | None = None
    missing: list[Value] = []  # noqa: RUF012 - pydantic copies it
    thousands: Mark | None = None
    decimal: Mark | None = None
    date: Text | None = None
    recode: dict[Value, Value] = {}  # noqa: RUF012 - pydantic copies it
    ignore_case: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the column is read as it is."""
        return self.sql is None and not any(getattr(self, option) for option in OPTIONS)

    def recoding(self, attribute: Attribute) -> dict[str, str]:
        """Every text that means another one; in lower case if case does not count."""
        known = attribute.present.texts() if self.ignore_case else ()
        given = {text_of(key): text_of(value) for key, value in self.recode.items()}
        meant = {text: text for text in known} | given
        if not self.ignore_case:
            return meant
        folded: dict[str, str] = {}
        for key, value in meant.items():
            if folded.setdefault(key.lower(), value) != value:
                raise DataError(
                    f"without case, '{key}' could mean two values of '{attribute.name}'",
                    hint="leave ignore_case out there, and list the spellings under recode",
                )
        return folded

    def value_sql(self, raw: str, attribute: Attribute) -> str:
        """DuckDB's SQL for what the attribute reads; NULL where there is no value."""
        blanks = literal(f"^[{BLANKS}]+|[{BLANKS}]+$")
        text = f"regexp_replace(({raw})::VARCHAR, {blanks}, '', 'g')"
        if self.missing:
            listed = ", ".join(literal(text_of(value)) for value in self.missing)
            text = f"CASE WHEN {text} NOT IN ({listed}) THEN {text} END"
        if self.thousands:
            text = f"replace({text}, {literal(self.thousands)}, '')"
        if self.decimal:
            text = f"replace({text}, {literal(self.decimal)}, '.')"
        meant = self.recoding(attribute)
        if meant:
            key = f"lower({text})" if self.ignore_case else text
            whens = " ".join(f"WHEN {literal(k)} THEN {literal(v)}" for k, v in meant.items())
            text = f"CASE {key} {whens} ELSE {text} END"
        return f"try_strptime({text}, {literal(self.date)})" if self.date else text

    @property
    def kind(self) -> ColumnKind:
        """What `value_sql` holds: text, unless it has been read as a moment."""
        return ColumnKind.TIMESTAMP if self.date else ColumnKind.FIELD


class _File(Section):
    columns: dict[Name, Column | Name]


Columns = Mapping[str, Column]
Given = Mapping[str, Any] | str | PathLike[str] | None
"""A mapping file, or what one says: for each attribute a column's name, or its options."""


def columns_of(given: Given) -> Columns:
    """What a data holder says of its columns, checked; a file's mistakes name their line."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return _checked({"columns": dict(given)}, document.Place())
    path = Path(given)
    values, place = document.parse(document.read_text(path), path.name)
    return _checked(values, place)


def given_on_command_line(written: Sequence[str], schema: Schema, ignore_case: bool) -> Columns:
    """Of mapping files and `ATTRIBUTE=COLUMN`, the later before the earlier."""
    found: dict[str, Column] = {}
    for text in written:
        name, mark, column = text.partition("=")
        named = bool(mark) and not Path(text).exists()
        found |= columns_of({name: column} if named else text)
    if ignore_case:
        for name in schema.names:
            found[name] = found.get(name, Column()).model_copy(update={"ignore_case": True})
    return found


def _checked(values: Any, place: document.Place) -> Columns:
    if not isinstance(values, dict):
        raise place.error("a mapping file is a mapping", "begin with 'columns:'")
    plain = {
        key: {
            name: entry.model_dump(exclude_defaults=True) if isinstance(entry, Column) else entry
            for name, entry in entries.items()
        }
        if isinstance(entries, dict)
        else entries
        for key, entries in values.items()
    }
    try:
        read = _File.model_validate(plain).columns
    except ValidationError as error:
        raise study_error(error, plain, place) from None
    for name, column in read.items():
        if isinstance(column, Column) and column.column and column.sql:
            raise StudyError(f"'{name}' has both a column and sql", where=str(place / "columns"))
    return {
        name: Column(column=entry) if isinstance(entry, str) else entry
        for name, entry in read.items()
    }


def text_of(value: Value) -> str:
    """A value as a field of a CSV file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
