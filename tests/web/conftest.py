"""One coordinator for the tests that only ask it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.coordinators import Listening
from tests.service.quick import quick_coordinators as quick_coordinators
from tests.web.coordinators import served


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listening]:
    folder: Path = tmp_path_factory.mktemp("coordinator")
    with served(folder) as made:
        yield made
