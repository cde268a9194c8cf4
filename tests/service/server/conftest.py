"""What several tests of the coordinator look at."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
import structlog

from dhdmm.service import logs


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The coordinator's log, as JSON lines."""
    written = io.StringIO()
    handlers, level = logging.root.handlers[:], logging.root.level
    logs.configure(as_json=True, stream=written)
    yield written
    structlog.reset_defaults()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
