"""What a command needs that the smallest installation lacks, in words that say how to get it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

from dhdmm.errors import DhdmmError

Extra = Literal["join", "serve"]
PURPOSES: dict[Extra, str] = {
    "join": "speaking with a coordinator",
    "serve": "coordinating rounds, or showing pages in a browser,",
}
PACKAGES: dict[Extra, tuple[str, ...]] = {
    "join": ("httpcore",),
    "serve": (
        *("alembic", "fastapi", "jinja2", "prometheus_client"),
        *("sqlalchemy", "structlog", "uvicorn"),
    ),
}


def require(extra: Extra) -> None:
    """Nothing is imported here: whatever is there is imported where it is used."""
    for package in PACKAGES[extra]:
        if find_spec(package) is None:
            raise DhdmmError(
                f"{PURPOSES[extra]} needs the package '{package}', which is not installed",
                hint=f"install dhdmm with its extra '{extra}': pip install 'dhdmm[{extra}]'",
            )
