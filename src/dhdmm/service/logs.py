"""The coordinator's log: one event a line, and only keys that were thought about.

What is not on the list is not written, whoever logs it: a participant's name, a key, a token, a
message. An error is its type and where it was raised. Its text is left out, since the text of a
database's error may hold the values of the statement.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import MutableMapping
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import structlog

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
        "scheme", "port", "signal", "error", "raised",
    }
)  # fmt: skip
"""Keys that may be written. A new one needs a thought: whose secret could be its value?"""

LONGEST = 200
_PLACES = re.compile(
    r"/(?:healthz|readyz|metrics|openapi\.json|v1/(?:tokens|rounds|studies/[0-9a-f]{64}/rounds"
    r"|rounds/[0-9a-f]{32}(?:/(?:enrolment|close|abort|draft|plan|roster|message|transcript"
    r"|release\.zip))?))"
)
_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]

Event = MutableMapping[str, Any]


def configure(*, as_json: bool, stream: TextIO | None = None) -> None:
    """Log to the stream from here on: as JSON lines, or for a person to read.

    What libraries log takes the same way; of them, only warnings.
    """
    out = sys.stderr if stream is None else stream
    show = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(
        colors=out.isatty()
    )  # fmt: skip
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _errors_without_their_text,
            _only_allowed,
            show,
        ],
        logger_factory=structlog.PrintLoggerFactory(out),
    )
    logging.basicConfig(handlers=[_FromLibraries()], level=logging.WARNING, force=True)


def logger() -> Any:
    """A logger with `info`, `warning` and `error`, each given an event and its values.

    Whoever embeds the service without `configure` hears nothing, rather than everything.
    """
    return structlog.get_logger() if structlog.is_configured() else _SILENT


def _say_nothing(_logger: object, _method: str, _event: Event) -> Event:
    raise structlog.DropEvent


_SILENT = structlog.wrap_logger(None, processors=[_say_nothing])


def place(path: str) -> str:
    """A request's path if it is one of ours; strangers do not write into our log."""
    return path if _PLACES.fullmatch(path) else "elsewhere"


def _errors_without_their_text(_logger: object, _method: str, event: Event) -> Event:
    told = event.pop("exc_info", None)
    raised = told if isinstance(told, BaseException) else sys.exc_info()[1] if told else None
    if isinstance(told, tuple):
        raised = told[1]
    if raised is not None:
        event["error"] = type(raised).__name__
        event["raised"] = " < ".join(
            f"{Path(frame.filename).name}:{frame.lineno}"
            for frame in reversed(traceback.extract_tb(raised.__traceback__)[-8:])
        )
    return event


def _only_allowed(_logger: object, _method: str, event: Event) -> Event:
    return {key: _short(value) for key, value in event.items() if key in ALLOWED}


def _short(value: object) -> object:
    """Numbers as they are; anything else as a short text; bytes and what an error says, never."""
    if value is None or isinstance(value, bool | int | float):
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
        write(f"{record.name}: {said.strip()}", exc_info=record.exc_info)
