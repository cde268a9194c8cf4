"""What a histogram holds, in plain Python."""

from __future__ import annotations

from dhdmm.study.histogram import Histogram


def contents(histogram: Histogram) -> dict[tuple[int, ...], int]:
    return dict(zip(map(tuple, histogram.codes.tolist()), histogram.counts.tolist(), strict=True))
