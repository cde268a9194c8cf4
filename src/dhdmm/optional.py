"""Modules that not every system has: Windows has no fcntl, no resource and no uvloop."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def optional_module(name: str) -> Any:
    """The module, or None where the system does not have it."""
    try:
        return import_module(name)
    except ImportError:
        return None
