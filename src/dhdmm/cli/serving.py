"""What `dhdmm serve` does while it serves.

Heavy imports stand at the top: the command imports this module when everything is in order.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from dhdmm.aggregation.method import ENROLMENT
from dhdmm.network.problems import Problem
from dhdmm.network.status import Status
from dhdmm.server.database import StoreUnavailable
from dhdmm.server.defects import watched
from dhdmm.server.logs import logger
from dhdmm.server.process import Server
from dhdmm.server.retention import purge
from dhdmm.server.studies import Hub

Work = Callable[[], Coroutine[Any, Any, None]]
"""Something to do while the server runs."""

WATCH_SECONDS = 0.2
PURGE_SECONDS = 3600.0
LINGER_SECONDS = 1.0
"""For participants that wait for the end: time to hear of it and to fetch the transcript."""


async def serve(
    server: Server, hub: Hub, rounds: list[str], beside: list[Work], screen: Console | None
) -> None:
    """Run the server, and these tasks beside it."""
    async with _shown(hub, rounds, screen):
        working = [watched(_while_serving(server, w), hub.observer, server.stop) for w in beside]
        tasks = [asyncio.create_task(work) for work in working]
        await server.serve()
        for task in tasks:
            task.cancel()


def final_statuses(hub: Hub) -> list[Status]:
    """How rounds ended, by the store; if it is away, as this process last knew them."""
    try:
        return asyncio.run(hub.statuses(limit=None))
    except Problem:
        return hub.live_statuses()


async def _while_serving(server: Server, work: Work) -> None:
    while not server.started:
        await asyncio.sleep(WATCH_SECONDS)
    await work()


async def purge_hourly(hub: Hub, keep: int) -> None:
    """Purge old rounds now and every hour; a store that fails is tried again an hour later."""
    while True:
        try:
            gone = await asyncio.to_thread(purge, hub.database, keep)
        except StoreUnavailable as error:
            logger().error("not purged", exc_info=error)
        else:
            if gone:
                logger().info("purged", count=len(gone))
        await asyncio.sleep(PURGE_SECONDS)


async def stop_when_saved(server: Server, hub: Hub) -> None:
    """Stop when all rounds are over and their releases are saved."""
    await hub.published()
    await asyncio.sleep(LINGER_SECONDS)
    server.stop()


@contextlib.asynccontextmanager
async def _shown(hub: Hub, rounds: list[str], screen: Console | None) -> AsyncIterator[None]:
    """One bar per round while a person watches, below what is logged; nothing in a pipe."""
    if screen is None:
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=screen) as bars:
        work = watched(_watch(hub, rounds, bars), hub.observer, bars.stop)
        watching = asyncio.create_task(work)
        try:
            yield
        finally:
            watching.cancel()


async def _watch(hub: Hub, rounds: list[str], bars: Progress) -> None:
    tasks: dict[str, TaskID] = {name: bars.add_task("starting", total=None) for name in rounds}
    while True:
        for status in hub.live_statuses():
            if status.round not in tasks:
                tasks[status.round] = bars.add_task("", total=None)
            bars.update(tasks[status.round], **_bar(status))
        await asyncio.sleep(WATCH_SECONDS)


def _bar(status: Status) -> dict[str, Any]:
    if status.state == ENROLMENT.name:
        done, total = status.enrolled, status.maximum
    elif status.remaining_s is None:
        done, total = status.alive, status.enrolled
    else:
        done, total = status.received, status.invited
    words = f"{status.study} {status.round[:8]} {status.state.replace('-', ' ')}"
    return {"description": words, "completed": done, "total": total}
