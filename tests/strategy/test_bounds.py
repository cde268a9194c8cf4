"""Lower bounds on the error of every strategy: below the truth, and near it where it is known."""

from __future__ import annotations

import numpy as np
import pytest

from dhdmm.strategy.optimum import Dual, DualBlock, lowered_roots


@pytest.mark.parametrize("n", [1, 4, 16, 64])
def test_certified_bound_stays_below_a_bound_that_is_known_exactly(n: int) -> None:
    """All values of one attribute, n a power of four: ‖D^½‖_*² = n, without any rounding."""
    dual = Dual([DualBlock(np.eye(n), np.zeros(n, np.int64), 1)], np.array([float(n)]))
    bound = dual.certified_bound(np.ones(1))
    assert n * (1 - 1e-11) < bound < n


@pytest.mark.parametrize("n", [1, 2, 3, 10, 100])
def test_roots_of_eigenvalues_are_rounded_down(n: int) -> None:
    for scale in (1.0, 4.0, 0.25):
        trace = lowered_roots(scale * np.eye(n)).sum()
        assert n * scale**0.5 * (1 - 1e-11) < trace < n * scale**0.5
