"""How often `make test` repeats a test with other random input; `make soak` has all the rest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

SOAK_PROFILE = "soak"
"""Of Hypothesis; `make soak` runs every property with it."""


def seeds(few: int, many: int) -> list[Any]:
    """The first few for every run, the others for the soak."""
    return [*range(few), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(few, many))]


def examples(few: int, many: int) -> int:
    """Of a property whose examples take long; those that say nothing have the profile's."""
    return many if settings.get_current_profile_name() == SOAK_PROFILE else few
