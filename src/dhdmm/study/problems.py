"""The model's complaints in a user's words: one error with its line, its key and the near miss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dhdmm.errors import StudyError
from dhdmm.study.document import Place
from dhdmm.study.names import nearest

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

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


def study_error(error: ValidationError, values: Any, place: Place) -> StudyError:
    """The first problem in the file. Alternatives of one value are told together."""
    details = [(_place(detail, values, place), detail) for detail in error.errors()]
    first, _ = min(details, key=lambda entry: (_line(entry[0]), -len(entry[0].path)))
    same = [detail for here, detail in details if here.path == first.path]
    what, hint = _words(same)
    return first.error(what, hint or None)


def _place(detail: ErrorDetails, values: Any, place: Place) -> Place:
    """The key that an error is about; what the model calls its alternatives is no key."""
    for key in detail["loc"]:
        if isinstance(values, dict) and key in values:
            values, place = values[key], place / str(key)
        elif isinstance(values, list) and isinstance(key, int) and key < len(values):
            values, place = values[key], place / key
    if detail["type"] == "unknown_key":
        return place / str(detail["ctx"]["key"])
    return place


def _line(place: Place) -> int:
    return place.lines.get(place.path, 0)


def _words(details: Sequence[ErrorDetails]) -> tuple[str, str]:
    expected = [_EXPECTED[d["type"]] for d in details if d["type"] in _EXPECTED]
    if len(expected) == len(details):
        return f"expected {' or '.join(dict.fromkeys(expected))}", ""
    detail = next(d for d in details if d["type"] not in _EXPECTED)
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in ("study", "unknown_key"):
        return detail["msg"], context.get("hint", "")
    if kind == "missing":
        return f"missing key '{detail['loc'][-1]}'", ""
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f"must be {words} {context[name]:,}, not {detail['input']!r}", ""
    return _other_words(kind, context, detail)


def _other_words(kind: str, context: dict[str, Any], detail: ErrorDetails) -> tuple[str, str]:
    match kind:
        case "literal_error":
            return _choice(detail["input"], context["expected"])
        case "union_tag_not_found":
            return "missing key 'type'", "one of integer, category, number"
        case "union_tag_invalid":
            what, hint = _choice(context["tag"], context["expected_tags"])
            return f"type: {what}", hint
        case "too_short":
            return f"needs at least {context['min_length']} entries", ""
        case "too_long":
            return f"takes at most {context['max_length']} entries", ""
        case "string_pattern_mismatch":
            return f"{detail['input']!r} cannot be a name", "use 1 to 100 printable characters"
    return detail["msg"][:1].lower() + detail["msg"][1:], ""


def _choice(given: Any, expected: str) -> tuple[str, str]:
    choices = [word.strip("' ") for word in expected.replace(" or ", ", ").split(",")]
    return f"{given!r} is not one of {', '.join(choices)}", nearest(given, choices) or ""
