"""Errors that nobody expected, which are defects of ours: none of them goes unseen.

This is the one place that catches whatever is raised. An error caught here gets an id, is logged
with its traceback and counted; whoever asked is answered 500 with the id.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from dhdmm.network.problems import Problem
from dhdmm.server.logs import REPORTED, logger
from dhdmm.server.responses import internal_error


class DefectCounter(Protocol):
    """Is told of every defect, for metrics."""

    def internal_error(self) -> None: ...


@dataclass
class Defect:
    """What became of a block: the id of the error that ended it, or None."""

    id: str | None = None

    def problem(self) -> Problem:
        """The answer to whoever asked; a new one for each of them."""
        assert self.id is not None
        return internal_error(self.id)


def report(error: Exception, counter: DefectCounter, **about: object) -> Defect:
    """Log it with its traceback and count it; once, however often it is raised again."""
    known: str | None = getattr(error, REPORTED, None)
    if known is not None:
        return Defect(known)
    defect = Defect(secrets.token_hex(8))
    setattr(error, REPORTED, defect.id)
    logger().error("internal error", id=defect.id, exc_info=error, traceback=error, **about)
    counter.internal_error()
    return defect


@contextmanager
def caught(counter: DefectCounter, **about: object) -> Iterator[Defect]:
    """A block that may end with any error, after which the program goes on."""
    defect = Defect()
    try:
        yield defect
    except Exception as error:  # noqa: BLE001 - reported, and handed on by its id
        defect.id = report(error, counter, **about).id


async def watched(
    work: Awaitable[None], counter: DefectCounter, failed: Callable[[], None], **about: object
) -> None:
    """A task that does not die in silence: if it fails, that is reported and `failed` called."""
    with caught(counter, **about) as defect:
        await work
    if defect.id is not None:
        failed()
