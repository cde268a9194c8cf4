"""What a process has used: processor time, and memory at its most."""

from __future__ import annotations

import re
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

MAX_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


class Usage(NamedTuple):
    """What a process has used so far."""

    cpu_seconds: float
    peak_bytes: int


def own_usage() -> Usage:
    return Usage(time.process_time(), peak_bytes())


def peak_bytes(process: int | None = None) -> int:
    """Of this process, or of another one on Linux; unknown (0) elsewhere, and on Windows.

    Not ru_maxrss where Linux says it better: in a process that another one started, that begins
    with the memory of the other.
    """
    status = Path(f"/proc/{process or 'self'}/status")
    try:
        told = re.search(r"VmHWM:\s+(\d+) kB", status.read_text("utf-8"))
    except OSError:
        told = None
    if told:
        return int(told[1]) * 1024
    if process is not None or find_spec("resource") is None:
        return 0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAX_RSS_UNIT
