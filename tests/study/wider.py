"""A study model with one more optional key, as a later version may have it: `servers`."""

from __future__ import annotations

from typing import Literal

import pytest

from dhdmm.study import canonical, models, spec
from dhdmm.study.models import AggregationModel, StudyModel

KEY, SINCE = "aggregation.servers", "0.3"


class WiderAggregation(AggregationModel):
    servers: Literal[1, 2] = 1


class WiderStudy(StudyModel):
    aggregation: WiderAggregation | None = None


def with_one_more_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on studies have it."""
    monkeypatch.setitem(models.KEYS_SINCE, KEY, SINCE)
    for module in (canonical, spec):
        monkeypatch.setattr(module, "StudyModel", WiderStudy)
