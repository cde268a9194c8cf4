"""The plugin of `make test-fast`: what needs no process, socket, browser or database server.

A test that starts one of these all the same fails here with the name of the table it belongs in.
"""

from __future__ import annotations

import multiprocessing.util
import sys
from collections.abc import Iterator
from typing import Any

import pytest

FORBIDDEN = {
    "subprocess.Popen": "starts a process",
    "os.exec": "starts a process",
    "os.fork": "starts a process",
    "os.forkpty": "starts a process",
    "os.posix_spawn": "starts a process",
    "os.system": "starts a process",
    "socket.bind": "listens at a socket",
}

_guarded = False
_seen: list[str] = []


def _refuse(what: str) -> None:
    _seen.append(what)
    pytest.fail(f"a fast test {what}: list it in tests/fast.py", pytrace=False)


def _audit(event: str, _arguments: tuple[Any, ...]) -> None:
    if _guarded and event in FORBIDDEN:
        _refuse(FORBIDDEN[event])


def _spawn(*_arguments: Any) -> int:
    """`multiprocessing` starts its processes without an audit event."""
    if _guarded:
        _refuse("starts a process")
    return _spawned(*_arguments)


_spawned = multiprocessing.util.spawnv_passfds


def pytest_configure() -> None:
    sys.addaudithook(_audit)
    multiprocessing.util.spawnv_passfds = _spawn  # type: ignore[assignment]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    global _guarded
    _guarded = True
    yield
    _guarded = False


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Code under test may have caught the refusal."""
    outcome: Any = yield
    report = outcome.get_result()
    if _seen:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} {_seen[0]}: list it in tests/fast.py"
        _seen.clear()
