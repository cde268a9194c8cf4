"""The processes that plan for the builder: few, started early, ended when nobody waits for them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from dhdmm.cohort.workers import ONE_THREAD
from dhdmm.network.problems import Problem, Reason
from dhdmm.web.drafting import LAST, NOWHERE

MOST = 2
"""Processes that plan at one time; a third person is asked to come again."""
SECONDS = 30.0
"""For the figures of one study."""
DRAFT_SECONDS = 240.0
"""For a draft that a round is begun with: found once, and worth waiting for."""
LONGEST_LINE = 32 * 2**20

COMMAND = (sys.executable, "-m", "dhdmm.web.drafting")


class Planners:
    """One run for each asker: a new question ends the one before."""

    def __init__(self, command: tuple[str, ...] = COMMAND) -> None:
        self._command = command
        self._idle: list[Process] = []
        self._running: dict[str, Process] = {}

    async def ask(
        self,
        who: str,
        ask: str,
        text: str,
        seconds: float = SECONDS,
        tables: Mapping[str, str] | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """The planner's answers, the last of which is one of `LAST`."""
        self._end_run_of(who)
        if len(self._running) >= MOST:
            raise Problem(503, Reason.BUSY, "others are planning", retry_after=2)
        process = self._running[who] = await self._ready_process()
        finished = False
        try:
            assert process.stdin is not None
            wanted = {"ask": ask, "text": text, "tables": tables}
            process.stdin.write(json.dumps(wanted).encode() + b"\n")
            end = asyncio.get_running_loop().time() + seconds
            while not finished:
                answer = await _answer(process, end)
                finished = answer["kind"] in LAST and process.returncode is None
                yield answer
                if answer["kind"] in LAST:
                    break
        finally:
            if self._running.get(who) is process:
                del self._running[who]
            if finished and process.returncode is None and len(self._idle) < MOST:
                self._idle.append(process)
            else:
                _kill(process)

    async def warm_up(self) -> None:
        """Have a process ready before somebody asks."""
        if not self._idle and not self._running:
            self._idle.append(await self._started())

    async def close(self) -> None:
        processes = [*self._idle, *self._running.values()]
        self._idle.clear()
        for process in processes:
            _kill(process)
        await asyncio.gather(*(process.wait() for process in processes))

    def _end_run_of(self, who: str) -> None:
        before = self._running.pop(who, None)
        if before is not None:
            _kill(before)

    async def _ready_process(self) -> Process:
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
        return await self._started()

    async def _started(self) -> Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            limit=LONGEST_LINE,
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,  # Ctrl-C is for the coordinator to act upon
        )


async def _answer(process: Process, end: float) -> dict[str, Any]:
    """The next line, or what there is to say instead."""
    assert process.stdout is not None
    left = end - asyncio.get_running_loop().time()
    try:
        line = await asyncio.wait_for(process.stdout.readline(), max(left, 0))
    except TimeoutError:
        _kill(process)
        what, hint = "planning takes too long", "export the study and use dhdmm plan"
        return {"kind": "error", **NOWHERE, "what": what, "hint": hint}
    if not line:
        _kill(process)
        return {"kind": "error", **NOWHERE, "what": "planning was ended"}
    answer: dict[str, Any] = json.loads(line)
    return answer


def _kill(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
