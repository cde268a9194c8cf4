"""Whose keys and tokens open which rounds, as the store has it.

All of it is in memory, so that a stranger costs no query. Whoever is not found there may have come
to the store a moment ago, through another worker: the store is asked again, but at most once in
`PAUSE` seconds, and everybody who is waiting for that shares the answer.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from dhdmm.aggregation.roster import KeyIndex
from dhdmm.network.roster import RosterFile
from dhdmm.server.database import Database
from dhdmm.server.responses import store_unavailable
from dhdmm.server.tables import agreements, enrolments, tokens

PAUSE = 1.0
LARGE_ROSTER = 10_000
"""Rosters of so many are searched one by one, and have no place in the dictionary of all keys."""

Rounds = frozenset[str]
Found = TypeVar("Found")
NONE: Rounds = frozenset()


class Members:
    """What the store says of keys and tokens."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._clock = database, clock
        self._rosters: dict[bytes, Rounds] = {}  # for good: a roster never changes
        self._large_rosters: dict[str, KeyIndex] = {}  # the same for rounds of many, in less memory
        self._read_rosters: set[str] = set()
        self._enrolled: dict[bytes, Rounds] = {}
        self._tokens: dict[bytes, tuple[str, int]] = {}
        self._read_at = -math.inf
        self._reading: asyncio.Task[None] | None = None

    def forget(self) -> None:
        """The store has changed by our own doing: ask it at once when somebody is not found."""
        self._read_at = -math.inf

    async def rounds_of(self, key: bytes, round_id: str | None = None) -> Rounds:
        """The rounds in which this key has a seat; read anew if the one asked for is missing."""

        def look() -> Rounds | None:
            found = self._rosters.get(key, NONE) | self._enrolled.get(key, NONE)
            found |= {
                one for one, keys in self._large_rosters.items() if keys.find(key) is not None
            }
            return found if (round_id in found if round_id else found) else None

        if round_id is None:
            await self._refresh()
        return await self._found(look) or NONE

    async def round_of(self, token: str) -> str | None:
        """The round that this enrolment token is for, until it expires."""
        digest = sha256(token.encode()).digest()
        known = await self._found(lambda: self._tokens.get(digest))
        return known[0] if known is not None and known[1] >= time.time() else None

    async def _found(self, look: Callable[[], Found | None]) -> Found | None:
        found = look()
        if found is None:
            await self._read_anew()
            found = look()
        return found

    async def _refresh(self) -> None:
        if self._clock() - self._read_at >= PAUSE:
            await self._read_anew()

    async def _read_anew(self) -> None:
        """What is read was written no earlier than this was called."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_in_time())
        await asyncio.shield(self._reading)

    async def _read_in_time(self) -> None:
        await asyncio.sleep(max(self._read_at + PAUSE - self._clock(), 0))
        self._reading = None  # who comes from now on waits for the next one
        self._read_at = self._clock()
        try:
            await asyncio.to_thread(self._read)
        except SQLAlchemyError:
            raise store_unavailable() from None

    # The store, in a thread

    def _read(self) -> None:
        with self._database.reading() as connection:
            self._read_new_rosters(connection)
            enrolled: dict[bytes, Rounds] = {}
            for round_id, key in connection.execute(select(enrolments.c.round, enrolments.c.key)):
                if round_id not in self._read_rosters:
                    enrolled[key] = enrolled.get(key, NONE) | {round_id}
            usable = select(tokens.c.digest, tokens.c.round, tokens.c.expires).where(
                tokens.c.expires >= int(time.time())
            )
            self._tokens = {
                digest: (round_id, expires)
                for digest, round_id, expires in connection.execute(usable)
            }
        self._enrolled = enrolled

    def _read_new_rosters(self, connection: Connection) -> None:
        agreed = set(connection.execute(select(agreements.c.round)).scalars())
        for round_id in agreed - self._read_rosters:
            found = select(agreements.c.roster).where(agreements.c.round == round_id)
            roster = RosterFile.from_bytes(connection.execute(found).scalar_one()).roster
            if len(roster) >= LARGE_ROSTER:
                self._large_rosters[round_id] = roster.keys
            else:
                for key in roster.identities:
                    self._rosters[key] = self._rosters.get(key, NONE) | {round_id}
            self._read_rosters.add(round_id)
