"""Requests that wait for a turn: a crowd shares one, and nobody waits for those who do not come."""

import asyncio
from hashlib import sha256

import pytest

from dhdmm.server import pending
from dhdmm.server.pending import RequestQueue
from dhdmm.server.requests import Upload

LONG = 3600.0


def message(position: int) -> Upload:
    return Upload(position, b"a message")


async def gathered(queue: RequestQueue, enough: int, seconds: float) -> bool:
    """Whether the turn begins by itself, without anybody else coming."""
    turn = asyncio.create_task(queue.gather(enough, seconds))
    for _ in range(5):
        await asyncio.sleep(0)
    done = turn.done()
    turn.cancel()
    return done


@pytest.mark.parametrize(("there", "begins"), [(0, False), (2, False), (3, True), (4, True)])
def test_a_turn_waits_for_all_who_are_missing(there: int, begins: bool) -> None:
    async def ask() -> bool:
        queue = RequestQueue()
        for position in range(there):
            queue.add(message(position))
        return await gathered(queue, 3, LONG)

    assert asyncio.run(ask()) is begins


def test_the_last_one_who_comes_begins_the_turn() -> None:
    async def ask() -> list[bool]:
        queue = RequestQueue()
        turn = asyncio.create_task(queue.gather(3, LONG))
        begun = []
        for position in range(3):
            queue.add(message(position))
            for _ in range(5):
                await asyncio.sleep(0)
            begun.append(turn.done())
        return begun

    assert asyncio.run(ask()) == [False, False, True]


def test_a_turn_waits_no_longer_than_it_may() -> None:
    async def ask() -> int:
        queue = RequestQueue()
        queue.add(message(0))
        await queue.gather(3, 0.01)
        return len(queue)

    assert asyncio.run(ask()) == 1


def test_only_those_who_stay_are_kept_for_others() -> None:
    async def ask() -> list[bool]:
        queue = RequestQueue()
        found = [queue.first_waits]
        queue.add(Upload(1, b"", waits=True))
        found.append(queue.first_waits)
        queue.take(1)
        queue.add(Upload(2, b""))
        queue.add(Upload(3, b"", waits=True))
        return [*found, queue.first_waits]

    assert asyncio.run(ask()) == [False, True, False]


def test_an_outbox_remembers_few_digests_and_fetches_the_others_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pending, "REMEMBERED", 2)

    async def ask() -> list[bool]:
        outbox = pending.Outbox(lambda: None)
        for position in range(3):
            asking = asyncio.create_task(outbox.take(position))
            await asyncio.sleep(0)
            outbox.put(position, b"message")
            assert await asking is None
            assert await outbox.take(position) == b"message"
        digest = sha256(b"message").hexdigest()
        return [outbox.has_nothing_after(position, digest) for position in range(3)]

    assert asyncio.run(ask()) == [False, True, True]
