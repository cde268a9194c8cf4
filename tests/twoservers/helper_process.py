"""A helper in a process of its own, on its real store and secrets: to be killed at any moment.

    python -m tests.twoservers.helper_process FOLDER

Requests and answers are frames of a 4-byte length and so many bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from dhdmm.server.database import Database
from dhdmm.server.helper_store import HelperStore, Opened, SecretFile
from tests.twoservers.parties import Parties

NAME = "00" * 16
COUNT = 40


def parties(**given: object) -> Parties:
    """Those whom both processes know."""
    return Parties("killed", COUNT, COUNT - 2, **given)


def main(folder: Path) -> None:
    store = HelperStore(Database(f"sqlite:///{folder / 'helper.db'}"))
    if store.find(NAME) is None:
        store.add(NAME, Opened("", b"", b""))
    secrets = SecretFile(folder, NAME)
    helper = parties(secrets=secrets, journal=store.journal(NAME)).helper
    serve_frames(helper.answer)


def serve_frames(answer: Callable[[bytes], bytes]) -> None:
    """Until nothing more is asked."""
    sys.stdout.buffer.write(b"ready")
    sys.stdout.buffer.flush()
    while size := sys.stdin.buffer.read(4):
        said = answer(sys.stdin.buffer.read(int.from_bytes(size, "big")))
        sys.stdout.buffer.write(len(said).to_bytes(4, "big") + said)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
