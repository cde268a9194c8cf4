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
    """Peak memory of this process or, on Linux, of another one; 0 where it is unknown.

    On Linux it is VmHWM: ru_maxrss of a started process begins with the memory of its parent.
    """
    status = Path(f"/proc/{process or 'self'}/status")
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text("utf-8"))
    except OSError:
        found = None
    if found:
        return int(found[1]) * 1024
    if process is not None or find_spec("resource") is None:
        return 0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAX_RSS_UNIT
