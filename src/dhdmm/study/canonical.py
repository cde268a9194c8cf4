"""A checked study as bytes, and the way back.

The bytes are JSON in one spelling: sorted keys, no spaces, no null, the shortest form of a number,
and what is ordered (attributes, labelled values) as a list. They are the study's identity: a
study that was read from bytes keeps them, and is never encoded again for a comparison.

Format 2 says `"format": 2` and leaves out everything that has its default value, so a key that is
new, and not used, changes nothing. Format 1, of dhdmm 0.1.0, has no number and writes some defaults
out. A study is written in the first format that can say it: it has one digest, whichever version
reads its file. Defaults never change; tests/study/test_canonical.py has the list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from pydantic import ValidationError

import dhdmm
from dhdmm import formats
from dhdmm.errors import StudyError
from dhdmm.study.document import Place
from dhdmm.study.models import KEYS_SINCE, NAMED_BY_PEOPLE, StudyModel
from dhdmm.study.problems import study_error

WRITTEN_OUT = frozenset(
    {
        *("groupings", "workload.weight", "workload.terms.weight", "privacy.relation"),
        *("aggregation.threat_model", "aggregation.max_dropout"),
    }
)
"""The keys that format 1 writes out though they have their default value."""

_refused = partial(StudyError, where="study")


def write(model: StudyModel) -> bytes:
    """The study in the first format that can say it: equal studies give equal bytes."""
    brief = model.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)
    if any(True for _ in _newer_keys(brief)):
        values = {"format": formats.STUDY.writes, **brief}
    else:
        values = _written_out(model.model_dump(by_alias=True, exclude_none=True), brief, ())
    return _spelled(values | {"schema": _listed(values["schema"])})


def form(model: StudyModel) -> dict[str, Any]:
    """The study with every key that has a value, for programs that show or edit it."""
    values = model.model_dump(by_alias=True, exclude_none=True)
    values["schema"] = _listed(values["schema"])
    shortest: dict[str, Any] = _shortest(values)
    return shortest


def read(encoded: bytes, made_by: str | None = None) -> StudyModel:
    """The study with these bytes; refuses every other spelling of it.

    `made_by` is the dhdmm that made the file they stand in.
    """
    values = _parsed(encoded, made_by)
    number = values.pop("format", 1)
    try:
        values["schema"] = _unique([_named(entry) for entry in values["schema"]])
        newer = next(_newer_keys(values), None) if number == 1 else None
        if newer is not None:
            since = f"dhdmm {KEYS_SINCE[newer]} and later know it, in format 2"
            raise _refused(f"study format 1 has no key '{newer}'", hint=since)
        return StudyModel.model_validate(values)
    except ValidationError as error:
        problem = study_error(error, values, Place("study"))
        maker = f"made by dhdmm {made_by}; this is dhdmm {dhdmm.__version__}"
        hint = problem.hint if made_by in (None, dhdmm.__version__) else maker
        raise StudyError(problem.what, where=problem.where, hint=hint) from None
    except (TypeError, KeyError, AttributeError, ValueError):
        raise StudyError("not an encoded study") from None


def format_of(encoded: bytes) -> int:
    """The number of the format that these bytes of a study are in."""
    return int(json.loads(encoded).get("format", 1))


def _parsed(encoded: bytes, made_by: str | None) -> dict[str, Any]:
    """The values, if the bytes are their one spelling; no model is asked."""
    try:
        values = json.loads(encoded.decode("ascii"))
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise StudyError("not an encoded study")
    if "format" in values:
        number = formats.readable(formats.STUDY, values["format"], _refused, made_by)
        if number == 1:
            raise StudyError("not an encoded study", where="study", hint="format 1 has no number")
    try:
        spelled = _spelled(values)
    except ValueError:  # a number that is none, or null
        spelled = b""
    if spelled != encoded:
        raise StudyError(
            "the encoding of the study is not the canonical one",
            where="study",
            hint="sorted keys, no spaces, no null, numbers in their shortest form",
        )
    return values


def _spelled(values: dict[str, Any]) -> bytes:
    text = json.dumps(_shortest(values), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def _shortest(value: Any) -> Any:
    """Floats are written with the fewest digits that read back, whole ones as integers."""
    if isinstance(value, dict):
        return {key: _shortest(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_shortest(entry) for entry in value]
    if value is None:
        raise ValueError("null")
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if whole else value


def _written_out(full: Any, brief: Any, path: tuple[str, ...]) -> Any:
    """What is not at its default, and what format 1 writes out all the same."""
    if isinstance(full, list) and full and isinstance(full[0], dict):
        return [_written_out(*pair, path) for pair in zip(full, brief, strict=True)]
    if not isinstance(full, dict):
        return full
    return {
        key: _written_out(value, brief.get(key, value), (*path, key))
        for key, value in full.items()
        if key in brief or ".".join((*path, key)) in WRITTEN_OUT
    }


def _newer_keys(value: Any, within: str = "") -> Iterator[str]:
    """The keys that dhdmm 0.1.0 did not know, as `KEYS_SINCE` has them."""
    if isinstance(value, dict):
        for key, entry in value.items():
            here = f"{within}{'*' if within[:-1] in NAMED_BY_PEOPLE else key}"
            if here in KEYS_SINCE:
                yield here
            if not isinstance(entry, str):
                yield from _newer_keys(entry, f"{here}.")
            elif (word := f"{here}.{entry}") in KEYS_SINCE:
                yield word
    elif isinstance(value, list):
        for entry in value:
            yield from _newer_keys(entry, within)


def _listed(schema: dict[str, Any]) -> list[Any]:
    """Attributes in their order."""
    return [_ordered(name, entry) for name, entry in schema.items()]


def _ordered(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    """An attribute that knows its name, and its labelled values as pairs."""
    if isinstance(entry.get("values"), dict):
        entry = {**entry, "values": [list(pair) for pair in entry["values"].items()]}
    return {**entry, "name": name}


def _named(entry: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The inverse of `_ordered`."""
    rest = {key: value for key, value in entry.items() if key != "name"}
    values = rest.get("values")
    if values and all(isinstance(pair, list) for pair in values):
        rest["values"] = _unique(values)
    return entry["name"], rest


def _unique(pairs: list[Any]) -> dict[Any, Any]:
    """The pairs as a mapping; a name that occurs twice would hide one of them."""
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("a name is repeated")
    return mapping
