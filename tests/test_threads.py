"""Linear algebra keeps to one thread while a plan is checked."""

from __future__ import annotations

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dhdmm.threads import SAID, one_blas_thread


def threads() -> set[int]:
    return {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"}


def test_one_thread_and_then_as_many_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SAID, raising=False)
    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        if before != {2}:
            pytest.skip("this library has one thread only")
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == before
        with one_blas_thread():  # found before
            assert threads() == {1}


def test_nothing_is_looked_for_where_the_environment_says_it(monkeypatch) -> None:
    monkeypatch.setenv(SAID, "1")
    monkeypatch.setattr("dhdmm.threads._libraries", None)
    with one_blas_thread():
        pass
