"""Validation errors in a user's words: one error, with its line, its key and a similar name."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from dhdmm.errors import StudyError
from dhdmm.study import attributes
from dhdmm.study.document import Key, Place, shown
from dhdmm.study.models import keys_since
from dhdmm.study.names import near_miss, number_text

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

MOST_MISTAKES = 20
_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


_EXAMPLES = {
    "unit": "whose data is hidden: record, participant or {person: …}",
    "corrupt_fraction": "the share of participants that may conspire, for example 0.05",
    "participants": "a number, or {min: 800, max: 1200}",
    "max_records_per_participant": "the most records that one participant brings",
}


def study_error(error: ValidationError, values: Any, place: Place) -> StudyError:
    """The first problem in the file, with the others. Alternatives for one value are one."""
    found: dict[tuple[Key, ...], tuple[Place, list[ErrorDetails]]] = {}
    for detail in error.errors():
        here = _place(detail, values, place)
        found.setdefault(here.path, (here, []))[1].append(detail)
    ordered = sorted(found.values(), key=lambda entry: (_line(entry[0]), -len(entry[0].path)))
    return together([_error(*entry) for entry in ordered])


def together(errors: Sequence[StudyError]) -> StudyError:
    """One error that says all of them, up to `MOST_MISTAKES`."""
    first, *more = errors[:MOST_MISTAKES]
    first.more = tuple(more)
    return first


def _error(place: Place, same: Sequence[ErrorDetails]) -> StudyError:
    what, hint = _words(same)
    since = keys_since(place.path) if same[0]["type"] == "unknown" else None
    return place.error(what, f"dhdmm {since} and later know it" if since else hint or None)


def _place(detail: ErrorDetails, values: Any, place: Place) -> Place:
    """The key that an error is about; the names of alternatives in the model are no keys."""
    for key in detail["loc"]:
        if isinstance(values, dict) and key in values:
            values, place = values[key], place / str(key)
        elif isinstance(values, list) and isinstance(key, int) and key < len(values):
            values, place = values[key], place / key
    for key in detail.get("ctx", {}).get("at", ()):
        place /= key
    return place


def _line(place: Place) -> int:
    return place.lines.get(place.path, 0)


def _words(details: Sequence[ErrorDetails]) -> tuple[str, str]:
    """(what, hint) of the complaints about one value."""
    expected = [_EXPECTED[d["type"]] for d in details if d["type"] in _EXPECTED]
    if len(expected) == len(details):
        return _expected(" or ".join(dict.fromkeys(expected)), details[0])
    detail = next(d for d in details if d["type"] not in _EXPECTED)
    given, context = detail["input"], detail.get("ctx", {})
    match detail["type"]:
        case "study" | "unknown":
            return context["what"], context["hint"]
        case "missing":
            key = str(detail["loc"][-1])
            return f"missing key '{key}'", _example(key)
        case "union_tag_not_found":
            close = get_close_matches("type", [str(key) for key in given], n=1)
            return "missing key 'type'", f"not '{close[0]}'" if close else _example("type")
        case "union_tag_invalid":
            return _choice(context["tag"], context["expected_tags"])
        case "literal_error":
            return _choice(given, context["expected"])
        case "too_short" if not given:
            return "must not be empty", ""
        case "too_short" | "too_long":
            bound = context.get("min_length", context.get("max_length"))
            return f"needs {bound} entries, not {len(given)}", ""
        case "string_pattern_mismatch":
            return f"{shown(given)} cannot be a name", "use 1 to 100 printable characters"
        case kind if kind in _BOUNDS:
            name, words = _BOUNDS[kind]
            return f"must be {words} {number_text(context[name])}, not {shown(given)}", ""
    return detail["msg"][:1].lower() + detail["msg"][1:], ""


def _example(key: str) -> str:
    """What could stand at a key that is missing."""
    domains = [one.example for one in attributes.TYPES if one.example.startswith(f"{key}:")]
    if domains:
        return f"the domain is needed, for example {domains[0]}"
    kinds = ", ".join(one.kind for one in attributes.TYPES)
    return f"one of {kinds}" if key == "type" else _EXAMPLES.get(key, "")


def _expected(form: str, detail: ErrorDetails) -> tuple[str, str]:
    given = detail["input"]
    if given is None:
        return f"expected {form}, but nothing is given", ""
    if isinstance(given, (list, dict)):
        return f"expected {form}", ""
    one_name = detail["loc"][-1] in ("by", "with_totals")
    return f"expected {form}, not {shown(given)}", f"write [{given}]" if one_name else ""


def _choice(given: Any, expected: str) -> tuple[str, str]:
    expected = expected.replace("True", "true")
    choices = [word.strip("' ") for word in expected.replace(" or ", ", ").split(",")]
    return f"{shown(given)} is not one of {', '.join(choices)}", near_miss(given, choices) or ""
