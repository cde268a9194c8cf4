"""Levels above an attribute's values, such as counties of ZIP codes, from a table in a file.

A study file names the table beside it; what is read is embedded in the study, so that it is part of
its identity and nobody else needs the file.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dhdmm.errors import DataError, StudyError
from dhdmm.study.attributes import Attribute
from dhdmm.study.attributes.base import Partition
from dhdmm.study.document import Place, plain_scalar
from dhdmm.study.names import nearest

LARGEST_TABLE = 32 * 2**20
NAMED = 5
"""Codes that an error lists."""

Beside = Callable[[str], bytes]
"""Reads a file by its name beside the study."""
Rows = Mapping[str, Sequence[str]]
"""The labels of a code, one for each level."""


# ---- from the file ------------------------------------------------------------------------------


def in_folder(folder: Path) -> Beside:
    """Files in a folder, up to what a table may have and a byte more."""

    def read(name: str) -> bytes:
        with (folder / name).open("rb") as file:
            return file.read(LARGEST_TABLE + 1)

    return read


def in_memory(tables: Mapping[str, str]) -> Beside:
    """Texts by their names."""

    def read(name: str) -> bytes:
        if name not in tables:
            hint = "give it too: its file beside the study's, or tables= of Study.from_text"
            raise StudyError(f"'{name}' is beside the study, and only the study is here", hint=hint)
        return tables[name].encode()

    return read


def embedded(values: dict[str, Any], beside: Beside, place: Place) -> dict[str, Any]:
    """A study's values with every `from` replaced by what the file holds."""
    schema, groupings = dict(_section(values, "schema")), dict(_section(values, "groupings"))
    for section, kept, read in (
        ("schema", schema, _listed_values),
        ("groupings", groupings, _levels),
    ):
        for name, entry in kept.items():
            if isinstance(entry, dict) and "from" in entry:
                kept[name] = read(str(name), entry, beside, place / section / str(name))
    changed = {"schema": schema, "groupings": groupings}
    return values | {key: held for key, held in changed.items() if key in values}


def _section(values: dict[str, Any], key: str) -> dict[Any, Any]:
    held = values.get(key)
    return held if isinstance(held, dict) else {}


def _listed_values(
    name: str, entry: dict[str, Any], beside: Beside, place: Place
) -> dict[str, Any]:
    """A category's values are those of the table's column of its name, or of the first."""
    header, rows, _ = _table(entry, beside, place)
    column = header.index(name) if name in header else 0
    values = list(dict.fromkeys(row[column] for row in rows))
    read = [plain_scalar(value) for value in values]
    whole = all(type(value) is int for value in read)
    rest = {key: value for key, value in entry.items() if key not in ("from", "sha256")}
    return rest | {"values": read if whole else values}


def _levels(name: str, entry: dict[str, Any], beside: Beside, place: Place) -> dict[str, Any]:
    levels = entry.get("levels")
    if not isinstance(levels, list) or not levels:
        raise place.error("'from' needs the 'levels' that it holds", "such as levels: [county]")
    header, rows, where = _table(entry, beside, place)
    code = header.index(entry["of"]) if entry.get("of") in header else 0
    for level in levels:
        if level not in header:
            raise (place / "levels").error(
                f"the table has no column '{level}'", nearest(level, header)
            )
    columns = [header.index(level) for level in levels]
    mapping: dict[str, list[str]] = {}
    for number, row in enumerate(rows, start=2):
        labels = [row[column] for column in columns]
        if mapping.setdefault(row[code], labels) != labels:
            raise StudyError(
                f"{row[code]!r} is listed twice, differently", where=f"{where}:{number}"
            )
    rest = {key: value for key, value in entry.items() if key not in ("from", "sha256")}
    return rest | {"mapping": mapping}


def _table(
    entry: dict[str, Any], beside: Beside, place: Place
) -> tuple[list[str], list[list[str]], str]:
    """(header, rows, name) of the CSV file that an entry names."""
    given = entry["from"]
    if not isinstance(given, str):
        raise (place / "from").error("expected the name of a CSV file")
    try:
        raw = beside(given)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise (place / "from").error(f"cannot read '{given}': {error.strerror}") from None
    except StudyError as error:
        raise (place / "from").error(error.what, error.hint) from None
    except UnicodeDecodeError:
        raise (place / "from").error(f"'{given}' is not UTF-8 text") from None
    if len(raw) > LARGEST_TABLE:
        raise (place / "from").error(f"'{given}' is larger than {LARGEST_TABLE // 2**20} MiB")
    digest = hashlib.sha256(raw).hexdigest()
    if entry.get("sha256", digest) != digest:
        raise (place / "sha256").error(f"'{given}' has another SHA-256: {digest}")
    return *_rows(text, given), given


def _rows(text: str, where: str) -> tuple[list[str], list[list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        header = [name.strip() for name in next(reader, [])]
        rows = [[field.strip() for field in row] for row in reader if row]
    except csv.Error as error:
        raise StudyError(f"not a CSV table: {error}", where=f"{where}:{reader.line_num}") from None
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header) or not all(row):
            raise StudyError("a row needs a value in every column", where=f"{where}:{number}")
    if not rows:
        raise StudyError("the table is empty", where=where)
    return header, rows


# ---- to groupings -------------------------------------------------------------------------------


def partitions(attribute: Attribute, levels: int, mapping: Rows) -> Iterator[Partition]:
    """The attribute's values in groups, for each level."""
    labels = _labels(attribute, levels, mapping)
    for level in range(levels):
        numbers: dict[str, int] = {}
        group = [numbers.setdefault(row[level], len(numbers)) for row in labels]
        yield Partition(np.array(group, np.int64), list(numbers))


def _labels(attribute: Attribute, levels: int, mapping: Rows) -> list[Sequence[str]]:
    """(size,): the labels of each value; every value has them, and no other code has."""
    found: list[Sequence[str] | None] = [None] * attribute.present.size
    unknown = []
    for code, labels in mapping.items():
        if len(labels) != levels:
            raise StudyError(f"{code!r} has {len(labels)} labels, not one for each level")
        position = _position(attribute.present, code)
        if position is None:
            unknown.append(code)
        else:
            found[position] = labels
    if unknown:
        raise StudyError(
            f"{_named(unknown)} in the mapping {_are(unknown)} no value of '{attribute.name}'",
            hint=nearest(unknown[0], [attribute.label(i) for i in range(attribute.present.size)])
            if attribute.present.size <= 10_000
            else None,
        )
    without = [attribute.label(i) for i, labels in enumerate(found) if labels is None]
    if without:
        raise StudyError(
            f"the mapping says nothing of {_named(without)}, of '{attribute.name}'",
            hint="every value has a row; give those outside a level a label such as 'elsewhere'",
        )
    return [labels for labels in found if labels is not None]


def _position(attribute: Attribute, code: str) -> int | None:
    for value in (code, plain_scalar(code)):
        try:
            return attribute.code(value)
        except DataError:
            continue
    return None


def _named(codes: Sequence[str]) -> str:
    listed = ", ".join(repr(code) for code in codes[:NAMED])
    return f"{listed} and {len(codes) - NAMED:,} more" if len(codes) > NAMED else listed


def _are(codes: Sequence[str]) -> str:
    return "is" if len(codes) == 1 else "are"


def digest_of(mapping: Rows) -> str:
    """SHA-256 of the rows in order of their codes, for people to compare."""
    text = "\n".join("\t".join((code, *mapping[code])) for code in sorted(mapping))
    return hashlib.sha256(text.encode()).hexdigest()
