"""The store is used in other threads than the event loop's; where it cannot be used, a 503."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from dhdmm.server.database import Database, StoreUnavailable
from dhdmm.server.responses import store_unavailable

Result = TypeVar("Result")


async def in_thread(work: Callable[[], Result]) -> Result:
    """What `work` returns in another thread."""
    try:
        return await asyncio.to_thread(work)
    except StoreUnavailable:
        raise store_unavailable() from None


async def query(database: Database, read: Callable[[Connection], Result]) -> Result:
    """What is read from the store with a connection."""

    def work() -> Result:
        with database.reading() as connection:
            return read(connection)

    return await in_thread(work)
