"""What every test relies on: reproducible hypothesis runs, no timing verdicts, short pauses."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.forked import forking

settings.register_profile("dhdmm", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("dhdmm")

# Workers, and the processes that they start, share the cores: a thread each for linear algebra.
os.environ["OMP_NUM_THREADS"] = "1"
# Modules are compiled once, not again by each worker and each process that a test starts.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

PAUSES = {"dhdmm.server.members": {"PAUSE": 0.02}}
"""How long a coordinator in this process waits before it reads its store again."""


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused callers wait for a fresh look at the store: seconds in all, of which no test asks."""
    for name, values in PAUSES.items():
        if name in sys.modules:
            for constant, seconds in values.items():
                monkeypatch.setattr(sys.modules[name], constant, seconds)


async def _save_here(transcript: bytes, place: Path) -> None:
    """What `dhdmm.server.saving` does, without the second that its process takes to start."""
    from dhdmm.errors import DhdmmError, ReleaseError
    from dhdmm.release.transcript import Transcript
    from dhdmm.release.verify import verify

    def save() -> None:
        verify(Transcript.from_bytes(transcript)).release.save(place)

    try:
        await asyncio.to_thread(save)
    except DhdmmError as error:
        raise ReleaseError(str(error), where=str(place)) from None


@pytest.fixture(autouse=True)
def _saving_without_a_process(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Coordinators in the test's process save there, but where the saving process is tested."""
    if "dhdmm.server.studies" in sys.modules and not request.node.get_closest_marker("saving"):
        monkeypatch.setattr(sys.modules["dhdmm.server.studies"], "save", _save_here)


@pytest.fixture(scope="session")
def forked_dhdmm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for the PATH with a `dhdmm` that starts at once: for tests of many commands."""
    with forking(tmp_path_factory.mktemp("forked")) as programs:
        yield programs
