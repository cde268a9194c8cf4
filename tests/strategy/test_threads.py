"""Linear algebra has one thread while strategies are judged."""

from __future__ import annotations

import pytest
import scipy.linalg  # its BLAS is another one than NumPy's
from threadpoolctl import ThreadpoolController, threadpool_info

from dhdmm.strategy.threads import one_thread


def threads() -> list[int]:
    return [found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"]


def test_every_library_has_one_thread_inside_and_as_many_as_before_outside() -> None:
    assert scipy.linalg.blas
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        before = threads()
        if before != [2, 2]:
            pytest.fail(f"expected two libraries that can have two threads: {before}")
        with one_thread():
            assert threads() == [1, 1]
        assert threads() == before
