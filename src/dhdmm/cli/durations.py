"""How long, as a person writes it: 90d, 2w, 12h, 30m, 45s."""

from __future__ import annotations

import re

from dhdmm.errors import DhdmmError

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_WRITTEN = re.compile(r"(\d{1,6})([smhdw])")


def seconds_of(written: str) -> int:
    """The number of seconds.

    >>> seconds_of("90d"), seconds_of("30m")
    (7776000, 1800)
    """
    found = _WRITTEN.fullmatch(written)
    if found is None:
        hint = "a whole number and one of s, m, h, d, w, such as 90d"
        raise DhdmmError("not a duration", where=written[:40], hint=hint)
    return int(found[1]) * SECONDS[found[2]]
