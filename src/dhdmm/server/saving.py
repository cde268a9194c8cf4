"""Saving a release in a process of its own: tables and pictures take seconds, and rounds go on.

The release is published before that: its transcript is in the store, from where anybody gets it.
Here it becomes a folder, as a whole or not at all. Whatever happens to this process, nothing is
lost: whoever asked for it tries again, at the latest when the coordinator is started again.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

from dhdmm.errors import DhdmmError, ReleaseError

LOWER_PRIORITY = 5
"""Rounds come first, and yet a release is saved in seconds on a busy machine."""


async def save(transcript: bytes, place: Path) -> None:
    """Save it, and return when it is in its place; the process ends with whoever waits for it.

    Not asyncio's way to begin a process, which copies the page tables of a large one.
    """
    command = [sys.executable, "-m", "dhdmm.server.saving", str(place)]
    child = Popen(command, stdin=PIPE, stdout=DEVNULL, stderr=PIPE)
    try:
        _, said = await asyncio.to_thread(child.communicate, transcript)
    finally:
        child.kill()  # unless it has ended
    if child.returncode:
        last = said.decode(errors="replace").strip().rpartition("\n")[2]
        why = last or f"its process ended with {child.returncode}"
        raise ReleaseError(f"the release was not saved: {why}", where=str(place))


def main() -> None:
    """Read a transcript, check it once more as anybody would check it, and write its release."""
    if sys.platform != "win32":
        os.nice(LOWER_PRIORITY)
    from dhdmm.release.transcript import Transcript
    from dhdmm.release.verify import verify

    try:
        transcript = Transcript.from_bytes(sys.stdin.buffer.read())
        verify(transcript).release.save(Path(sys.argv[1]))
    except DhdmmError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
