"""What every test relies on: reproducible hypothesis runs, no timing verdicts, one thread each."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.amounts import SOAK_PROFILE
from tests.forked import forking

if TYPE_CHECKING:
    from tests.participant.postgres import Server

settings.register_profile("dhdmm", derandomize=True, deadline=None, print_blob=True)
settings.register_profile(SOAK_PROFILE, settings.get_profile("dhdmm"), max_examples=1000)
settings.load_profile("dhdmm")

# Workers, and the processes that they start, share the cores: a thread each for linear algebra.
os.environ["OMP_NUM_THREADS"] = "1"
# Modules are compiled once, not again by each worker and each process that a test starts.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# A shell that runs tests in its background has them ignore Ctrl-C, and all processes they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Collecting makes millions of objects that all stay: a third of its time was looking for garbage.
gc.disable()


def pytest_collection_finish() -> None:
    """Nor is it looked for among them while tests run."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.fixture(scope="session")
def forked_dhdmm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for the PATH with a `dhdmm` that starts at once: for tests of many commands."""
    with forking(tmp_path_factory.mktemp("forked")) as programs:
        yield programs


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One server for all tests of a worker but those that stop it: each has a database."""
    from tests.participant.postgres import require_postgres, running_server

    require_postgres()
    with running_server() as server:
        yield server
