"""Cohorts as Ray actors, for more than one machine: `pip install "dhdmm[ray]"`.

Without a cluster one is started here and stopped afterwards. To use another, connect to it with
`ray.init(address=…)` before, or name it in RAY_ADDRESS. Nothing is reported to anybody.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from dhdmm.aggregation.modulus import Vector
from dhdmm.cohort.members import Answer, Cohort, Invitation, Messages
from dhdmm.cohort.people import People
from dhdmm.cohort.usage import Usage
from dhdmm.cohort.workers import (
    ONE_THREAD,
    Frame,
    Host,
    decode_answers,
    decode_usage,
    decode_vector,
    encode_setup,
)
from dhdmm.errors import DhdmmError

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


class RayCohort:
    """Members in an actor somewhere in the cluster."""

    def __init__(self, ray: Any, setup: Frame) -> None:
        self._ray = ray
        remote = ray.remote(num_cpus=1, runtime_env={"env_vars": ONE_THREAD})(Host)
        self._host = remote.remote(setup)
        self._waiting: deque[Any] = deque()

    def send(self, messages: Messages) -> None:
        self._waiting.append(self._host.answer.remote({"messages": messages}))

    def collect(self) -> dict[int, Answer]:
        return decode_answers(self._ray.get(self._waiting.popleft()))

    def total(self, positions: Iterable[int]) -> Callable[[], Vector]:
        asked = self._host.answer.remote({"total": list(positions)})
        return lambda: decode_vector(self._ray.get(asked))

    def usage(self) -> Usage:
        return decode_usage(self._ray.get(self._host.answer.remote({"usage": None})))

    def close(self) -> None:
        self._ray.kill(self._host)


@contextmanager
def ray_cohorts(
    invitation: Invitation, people: People, workers: int | None, resident_limit: int | None
) -> Iterator[list[Cohort]]:
    """One actor for each processor of the cluster."""
    ray = _ray()
    ours = not ray.is_initialized()
    if ours:
        elsewhere = "RAY_ADDRESS" in os.environ
        here: dict[str, Any] = {} if elsewhere else {"num_cpus": workers or os.cpu_count()}
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR", **here)
    cohorts: list[Cohort] = []
    try:
        count = workers or int(ray.cluster_resources()["CPU"])
        for w in range(count):
            cohorts.append(
                RayCohort(ray, encode_setup(invitation, people.part(w, count), resident_limit))
            )
        yield cohorts
    finally:
        for cohort in cohorts:
            cohort.close()
        if ours:
            ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise DhdmmError(
            "Ray is not installed", hint='pip install "dhdmm[ray]", or use another engine'
        ) from None
    return ray
