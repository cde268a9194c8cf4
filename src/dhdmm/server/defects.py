"""Unexpected errors, which are defects of ours: every one is logged and counted.

This is the one place that catches whatever is raised. An error caught here gets an id, is logged
with its traceback and counted; whoever asked is answered 500 with the id.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable

from dhdmm.server.logs import REPORTED, logger
from dhdmm.server.metrics import Metrics


def report(error: Exception, metrics: Metrics, **about: object) -> str:
    """Log it with its traceback and count it; once, however often it is raised again. Its id."""
    known: str | None = getattr(error, REPORTED, None)
    if known is not None:
        return known
    id = secrets.token_hex(8)
    setattr(error, REPORTED, id)
    logger().error("internal error", id=id, exc_info=error, traceback=error, **about)
    metrics.internal_error()
    return id


class caught:
    """A block that may end with any error, after which the program goes on: `with caught(…)`.

    Its `id` is that of the error that ended the block, or None.
    """

    def __init__(self, metrics: Metrics, **about: object) -> None:
        self._metrics, self._about = metrics, about
        self.id: str | None = None

    def __enter__(self) -> caught:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _at: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self.id = report(error, self._metrics, **self._about)
        return True


async def watched(
    work: Awaitable[None], metrics: Metrics, failed: Callable[[], None], **about: object
) -> None:
    """Await the work; if it fails, report the error and call `failed`."""
    with caught(metrics, **about) as defect:
        await work
    if defect.id is not None:
        failed()
