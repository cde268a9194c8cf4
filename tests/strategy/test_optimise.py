"""The strategy's claims on small domains, where everything can be recomputed densely."""

from __future__ import annotations

import numpy as np
import pytest
from dense import check_against_dense, random_workload

from dhdmm.strategy.optimise import optimise


@pytest.mark.parametrize("seed", range(400))
def test_random_unions_match_dense_arithmetic(seed):
    w = random_workload(seed)
    strategy = optimise(w)
    check_against_dense(strategy, w)
    assert 1 - 1e-9 <= strategy.ratio <= 1.02
