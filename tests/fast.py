"""The plugin of `make test-fast`: tests that need no process, socket, browser or database server.

Left out are tests that ask for one of `FIXTURES`, and those marked `slow` or `soak`. A test that is
not left out and starts a process or listens fails.
"""

from __future__ import annotations

import multiprocessing.util
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

FIXTURES = {"browser", "coordinator", "forked_dhdmm", "postgres", "server", "site"}
"""Whoever asks for these has a server, a browser or another process."""
FORBIDDEN = {
    "subprocess.Popen": "starts a process",
    "os.exec": "starts a process",
    "os.fork": "starts a process",
    "os.forkpty": "starts a process",
    "os.posix_spawn": "starts a process",
    "os.system": "starts a process",
    "socket.bind": "listens at a socket",
}
"""Audit events of the interpreter."""
EXAMPLES = 20
"""Of a property, where its test does not say how many; `make test` has five times as many."""

_spawn = multiprocessing.util.spawnv_passfds
_guarded = False
_seen: list[str] = []


# Which tests


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if not _is_fast(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if _is_fast(item)]


def _is_fast(item: pytest.Item) -> bool:
    return not (
        "[postgresql" in item.nodeid
        or item.get_closest_marker("slow")
        or item.get_closest_marker("soak")
        or FIXTURES & set(getattr(item, "fixturenames", ()))
    )


# The guard


def pytest_configure() -> None:
    settings.register_profile("fast", settings(), max_examples=EXAMPLES)
    settings.load_profile("fast")
    sys.addaudithook(_audit)
    multiprocessing.util.spawnv_passfds = _spawn_unless_guarded


def _audit(event: str, _arguments: tuple[Any, ...]) -> None:
    if _guarded and event in FORBIDDEN:
        _refuse(FORBIDDEN[event])


def _spawn_unless_guarded(*arguments: Any) -> int:
    """`multiprocessing` starts its processes without an audit event."""
    if _guarded:
        _refuse("starts a process")
    return _spawn(*arguments)


def _refuse(what: str) -> None:
    _seen.append(what)
    pytest.fail(f"a fast test {what}: mark it slow", pytrace=False)


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
    if _seen:
        report = outcome.get_result()
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} {_seen[0]}: mark it slow"
        _seen.clear()
