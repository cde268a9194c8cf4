"""What of an exhibit must not change while its format number stays.

Most files are the same to the byte whenever they are made. Where a library has its own say (an
SQLite file, Parquet, a picture) or floating point (a table), it is the content or the form.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import cbor2
import numpy as np
import pyarrow.parquet as pq

from tests.museum import stores


def content(path: Path) -> Any:
    """What two exhibits made from the same inputs share."""
    if path.name in ("ledger", "coordinator.db"):
        return stores.read(path)
    by_suffix: dict[str, Callable[[Path], Any]] = {
        ".parquet": lambda path: pq.read_schema(path).to_string(),
        ".svg": _words,
        ".csv": _labels,
        ".npz": _arrays,
    }
    if path.name == "release.json":
        document = json.loads(path.read_text("utf-8"))
        document["files"] = list(document["files"])
        document["provenance"]["epsilon"] = f"{document['provenance']['epsilon']:.9g}"
        return document
    return by_suffix.get(path.suffix, Path.read_bytes)(path)


def form(path: Path) -> Any:
    """What every file of one kind and format shares, whatever it says: names of keys and columns.

    None where the form has no names.
    """
    if path.name in ("ledger", "coordinator.db"):
        return _columns(stores.read(path))
    if path.name == "store.json":
        return _columns(json.loads(path.read_text("utf-8")))
    if path.suffix in (".json", ".identity"):
        return sorted(_keys(json.loads(path.read_text("utf-8"))))
    if path.suffix == ".cbor":
        return sorted(_keys(cbor2.loads(path.read_bytes())))
    if path.suffix in (".csv", ".parquet", ".npz"):
        return _header(path)
    return None


def _labels(path: Path) -> list[list[str]]:
    """A table without its numbers."""
    rows = list(csv.reader(io.StringIO(path.read_text("utf-8"))))
    first = rows[0].index("value")
    return [rows[0], *(row[:first] for row in rows[1:])]


def _words(path: Path) -> list[str]:
    """What a picture says without its numbers, and the kinds of its marks."""
    elements = list(ElementTree.parse(path).iter())
    texts = [element.text for element in elements if element.tag.endswith("}text")]
    kinds = sorted({element.get("class", "") for element in elements})
    return [text for text in texts if text and not re.search(r"\d", text)] + kinds


def _arrays(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as stored:
        return {name: (stored[name].dtype.str, stored[name].tolist()) for name in stored.files}


def _header(path: Path) -> Any:
    if path.suffix == ".npz":
        return sorted(_arrays(path))
    return pq.read_schema(path).names if path.suffix == ".parquet" else _labels(path)[0]


def _columns(dump: stores.Dump) -> dict[str, Any]:
    return {name: [table["made by"], table["columns"]] for name, table in dump["tables"].items()}


def _keys(value: Any, path: str = "") -> Iterator[str]:
    """The paths of all keys; what is in a list has no number."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield f"{path}.{key}"
            yield from _keys(entry, f"{path}.{key}")
    elif isinstance(value, list):
        yield from {key for entry in value for key in _keys(entry, f"{path}[]")}
