"""A YAML text as plain values that remember their lines.

Scalars follow YAML 1.2, in which `no` is a word and `1e-6` a number; digits with a leading zero
stay text, so that codes like 01 survive. Aliases, tags and repeated keys are refused: a study is
read by people who must see all of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from dhdmm.errors import StudyError

LARGEST_FILE = 256 * 1024
DEEPEST = 12
LONGEST_INTEGER = 18
LONGEST_SHOWN = 60

Key = str | int
_CONSTANTS = {"": None, "~": None, "null": None, "true": True, "false": False}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][-+]?[0-9]{1,4})?")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")


def plain_scalar(text: str) -> str | int | float | bool | None:
    """What an unquoted word means.

    >>> [plain_scalar(text) for text in ("no", "true", "12", "1e-6", "007", "0:100:5")]
    ['no', True, 12, 1e-06, '007', '0:100:5']
    """
    if text.lower() in _CONSTANTS and text in (text.lower(), text.title(), text.upper()):
        return _CONSTANTS[text.lower()]
    if _LEADING_ZERO.fullmatch(text):
        return text
    if _INTEGER.fullmatch(text) and len(text) <= LONGEST_INTEGER:
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def shown(value: object) -> str:
    """A value in an error message: all of it, if it is short."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


@dataclass(frozen=True)
class Place:
    """A position in a study, for error messages: `place / "workload" / 0`."""

    source: str = ""
    path: tuple[Key, ...] = ()
    lines: dict[tuple[Key, ...], int] = field(default_factory=dict, repr=False)

    def __truediv__(self, key: Key) -> Place:
        return Place(self.source, (*self.path, key), self.lines)

    def __str__(self) -> str:
        parts = [
            f"[{key}]" if isinstance(key, int) else f".{key[:LONGEST_SHOWN]}" for key in self.path
        ]
        known = [
            self.path[:n] for n in range(len(self.path), -1, -1) if self.path[:n] in self.lines
        ]
        line = f":{self.lines[known[0]]}" if known else ""
        return ": ".join(
            text for text in (f"{self.source}{line}", "".join(parts).lstrip(".")) if text
        )

    def error(self, what: str, hint: str | None = None) -> StudyError:
        return StudyError(what, where=str(self) or None, hint=hint)

    @contextmanager
    def located(self) -> Iterator[None]:
        """An error that does not know where it arose learns that it was here."""
        try:
            yield
        except StudyError as error:
            raise self.error(error.what, error.hint) from None


def read_text(path: Path) -> str:
    """The file as text, refused when it is too large, absent or not UTF-8."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise StudyError("the file is not UTF-8 text", where=f"{path.name}:{line}") from None
    except OSError as error:
        raise StudyError(f"cannot read the file: {error.strerror}", where=str(path)) from None
    if len(raw) > LARGEST_FILE:
        raise StudyError(f"the file is larger than {LARGEST_FILE // 1024} KiB", where=path.name)
    return text


def parse(text: str, source: str) -> tuple[Any, Place]:
    """The values of a YAML text, and the place of the whole."""
    if len(text) > LARGEST_FILE:
        raise StudyError(f"the text is larger than {LARGEST_FILE // 1024} KiB", where=source)
    root = Place(source)
    try:
        events = yaml.parse(text, Loader=yaml.SafeLoader)
        value = _YamlReader(root, events).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}" if mark else source
        what = error.problem or error.context or "unknown problem"
        raise StudyError(f"not valid YAML: {what}", where=where, hint=_advice(what)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise StudyError("the text holds a control character", where=f"{source}:{line}") from None
    return value, root


class _Dumper(yaml.SafeDumper):
    """Quotes every text that would be read back as something else; never writes an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = plain_scalar(text) == text
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def write(values: Any) -> str:
    """Values as a YAML text that `parse` reads back."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def inline(value: Any) -> str:
    """A value as it may stand within brackets on one line."""
    wide = 10**9
    text = yaml.dump(
        [value], Dumper=_Dumper, default_flow_style=True, allow_unicode=True, width=wide
    )
    return text.strip()[1:-1]


def _advice(problem: str) -> str | None:
    if "mapping values are not allowed" in problem:
        return "put the text into quotes if it holds a colon, or check the indentation"
    if r"'\t'" in problem:
        return "indent with spaces, not tabs"
    return None


class _YamlReader:
    """Recursive descent over the parser's events; depth is bounded by `DEEPEST`."""

    def __init__(self, root: Place, events: Iterator[Any]) -> None:
        self.root, self.events = root, events

    def document(self) -> Any:
        next(self.events)  # the start of the stream
        if isinstance(next(self.events), yaml.StreamEndEvent):
            raise self.root.error("the file is empty")
        value = self.value(next(self.events), self.root)
        next(self.events)  # the end of the document
        extra = next(self.events)
        if not isinstance(extra, yaml.StreamEndEvent):
            self.mark(extra, self.root)
            raise self.root.error("a second document follows", "one file holds one study")
        return value

    def mark(self, event: Any, place: Place) -> None:
        place.lines[place.path] = event.start_mark.line + 1

    def value(self, event: Any, place: Place) -> Any:
        place.lines.setdefault(place.path, event.start_mark.line + 1)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise place.error("anchors and aliases (& and *) are not allowed", "write it out")
        if event.tag is not None:
            raise place.error(f"tags like {shown(event.tag)} are not allowed")
        if isinstance(event, yaml.ScalarEvent):
            return plain_scalar(event.value) if event.implicit[0] else event.value
        if len(place.path) >= DEEPEST:
            raise place.error(f"nested deeper than {DEEPEST} levels")
        return self.items(place) if isinstance(event, yaml.SequenceStartEvent) else self.map(place)

    def items(self, place: Place) -> list[Any]:
        values: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            values.append(self.value(event, place / len(values)))
        return values

    def map(self, place: Place) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise place.error("a key must be a word", 'put text that begins with "{" in quotes')
            key = self.value(event, place / event.value)
            if key is None or isinstance(key, float):
                raise place.error(f"{shown(event.value)} cannot be a key")
            here = place / str(key)
            if key in values:
                first = here.lines[here.path]
                self.mark(event, here)
                raise here.error(
                    f"key {shown(key)} is repeated", f"it is first given in line {first}"
                )
            self.mark(event, here)
            values[key] = self.value(next(self.events), here)
        return values
