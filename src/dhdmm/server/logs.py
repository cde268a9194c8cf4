"""The coordinator's log: one event per line, and only the keys on a list.

What is not on the list is not written, whoever logs it: a participant's name, a key, a token, a
message. An error is its type and where it was raised; a defect has its whole traceback. The text of
an error is left out, since that of a database's error may hold the values of the statement.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, TextIO

import structlog
from rich.console import Console
from rich.text import Text

ALLOWED = frozenset(
    {
        # structlog's own
        "event", "level", "timestamp",
        # rounds
        "round", "study_digest", "plan_digest", "roster_digest", "threat_model", "phase", "state",
        "reason", "minimum", "maximum", "enrolled", "alive", "departed", "survivors", "version",
        # work
        "messages", "count", "bytes", "seconds", "connections",
        # requests
        "method", "path", "status",
        # the process
        "scheme", "port", "signal", "error", "raised", "id", "traceback",
    }
)  # fmt: skip
"""Keys that may be written. A new one needs a thought: whose secret could be its value?"""

REPORTED = "reported_as"
"""An error that was logged already has its id under this name."""
LONGEST = 200
MOST_FRAMES = 50
"""Of one error in a traceback: the innermost."""
_PLACES = re.compile(
    r"/(?:healthz|readyz|metrics|openapi\.json|v1/(?:coordinator|tokens|rounds|studies/[0-9a-f]{64}/rounds"
    r"|rounds/[0-9a-f]{32}(?:/(?:enrolment|close|abort|draft|plan|roster|message|transcript"
    r"|release\.zip))?))"
)

Event = MutableMapping[str, Any]


def configure(
    *, as_json: bool, stream: TextIO | None = None, console: Console | None = None
) -> None:
    """Log from here on: JSON lines to the stream, or what a person reads to the console.

    What libraries log takes the same way; of them, only warnings. Somebody who watches a console is
    told of warnings and errors only.
    """
    out = sys.stderr if stream is None else stream
    least = logging.INFO if console is None else logging.WARNING
    screen = Console(file=out) if console is None else console
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _errors_without_their_text,
            _only_allowed,
            structlog.processors.JSONRenderer() if as_json else _for_people,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.PrintLoggerFactory(out) if as_json else lambda: _Screen(screen),
    )
    logging.basicConfig(handlers=[_FromLibraries()], level=logging.WARNING, force=True)


def logger() -> Any:
    """A logger with `info`, `warning` and `error`, each given an event and its values.

    Without `configure` nothing is logged, rather than everything.
    """
    return structlog.get_logger() if structlog.is_configured() else _SILENT


def _say_nothing(_logger: object, _method: str, _event: Event) -> Event:
    raise structlog.DropEvent


_SILENT = structlog.wrap_logger(None, processors=[_say_nothing])


def place(path: str) -> str:
    """A request's path if it is one of ours; strangers cannot write into our log."""
    return path if _PLACES.fullmatch(path) else "elsewhere"


def _errors_without_their_text(_logger: object, _method: str, event: Event) -> Event:
    told = event.pop("exc_info", None)
    raised = told if isinstance(told, BaseException) else sys.exc_info()[1] if told else None
    traced = event.pop("traceback", None)
    if isinstance(traced, BaseException):
        event["traceback"] = _Traceback(_traceback(traced))
    if raised is not None:
        event["error"] = type(raised).__name__
        event["raised"] = " < ".join(
            f"{Path(frame.filename).name}:{frame.lineno}"
            for frame in reversed(traceback.extract_tb(raised.__traceback__)[-8:])
        )
    return event


class _Traceback(str):
    """Made here, and therefore written whole."""


def _traceback(error: BaseException) -> str:
    """As Python shows it, without what the errors say: lines of programs, and no values."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    earlier = "" if before is None else _traceback(before) + "which led to\n"
    frames = traceback.extract_tb(error.__traceback__)[-MOST_FRAMES:]
    return "".join([earlier, *traceback.format_list(frames), type(error).__name__, "\n"])


def _for_people(_logger: object, method: str, event: Event) -> str:
    """A line, and the traceback under it."""
    traced = event.pop("traceback", "")
    when, level, what = (event.pop(key, "") for key in ("timestamp", "level", "event"))
    values = " ".join(f"{key}={value}" for key, value in event.items())
    return f"{when} {level}: {what} {values}\n{traced}".rstrip()


class _Screen:
    """A person's console, which may have progress bars below what is printed."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def msg(self, message: str) -> None:
        self._console.print(Text(message), soft_wrap=True)

    debug = info = warning = error = msg


def _only_allowed(_logger: object, _method: str, event: Event) -> Event:
    return {key: _short(value) for key, value in event.items() if key in ALLOWED}


def _short(value: object) -> object:
    """Numbers as they are; anything else as a short text; bytes and what an error says, never."""
    if value is None or isinstance(value, bool | int | float | _Traceback):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return "bytes"
    if isinstance(value, BaseException):
        return type(value).__name__
    return str(value)[:LONGEST]


class _FromLibraries(logging.Handler):
    """What a library's logger says: the sentence it was written with, not the values in it."""

    def emit(self, record: logging.LogRecord) -> None:
        said = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
        write = logger().error if record.levelno >= logging.ERROR else logger().warning
        error = record.exc_info[1] if record.exc_info else None
        if hasattr(error, REPORTED):
            return
        write(f"{record.name}: {said.strip()}", exc_info=error, traceback=error)
