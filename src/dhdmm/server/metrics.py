"""What the coordinator tells a monitoring system: how much, how fast, how many; never who.

No label has a participant's name, key or address, nor anything else that a stranger could choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dhdmm.aggregation.method import OVER

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class RoundFigures(NamedTuple):
    """What is shown of a round: its id in hexadecimal, its phase's name and its counts."""

    round: str
    phase: str
    enrolled: int
    alive: int
    departed: int
    dropped: int


class Metrics:
    """One registry for one process. Give it to whoever has something to count."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        count, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        measure = partial(Histogram, registry=registry)
        self._uploads = count("dhdmm_uploads", "Messages of participants by reply", ["reply"])
        self._upload_bytes = count("dhdmm_upload_bytes", "Bytes of participants' messages")
        self._batch = measure("dhdmm_batch_messages", "Messages in one commit", buckets=BATCHES)
        self._commit = measure("dhdmm_commit_seconds", "Seconds of one commit", buckets=SECONDS)
        self._failed = count("dhdmm_failed_commits", "Times that the store failed")
        defects = "Defects met, each in the log with its id"
        self._internal = count("dhdmm_internal_errors", defects)
        self._responses = count("dhdmm_responses", "Answers by status", ["status"])
        refused = "Connections and requests turned away by a limit"
        self._rejected = count("dhdmm_rejected", refused, ["reason"])
        self._connections = gauge("dhdmm_open_connections", "Connections open now")
        bodies = "Bytes of memory promised to request bodies"
        self._body_bytes = gauge("dhdmm_body_bytes", bodies)
        ended = "Rounds that ended in this process"
        self._ended = count("dhdmm_rounds_ended", ended, ["phase"])
        for phase in sorted(OVER):  # an increase is seen only of what was there before
            self._ended.labels(phase)
        self._expiry: Gauge | None = None
        self._found: dict[tuple[Counter, str | int], Counter] = {}

    def _labelled(self, counter: Counter, label: str | int) -> Counter:
        """Found once, since every request is counted under one."""
        found = self._found.get((counter, label))
        if found is None:
            found = self._found[counter, label] = counter.labels(str(label))
        return found

    def upload(self, reply: str, size: int) -> None:
        """A message was answered: `reply` is the word of the answer or of the refusal."""
        self._labelled(self._uploads, reply).inc()
        self._upload_bytes.inc(size)

    def committed(self, messages: int, seconds: float) -> None:
        """A batch became durable."""
        self._batch.observe(messages)
        self._commit.observe(seconds)

    def commit_failed(self) -> None:
        self._failed.inc()

    def internal_error(self) -> None:
        self._internal.inc()

    def round_ended(self, phase: str) -> None:
        self._ended.labels(phase).inc()

    def responded(self, status: int) -> None:
        self._labelled(self._responses, status).inc()

    def rejected(self, reason: str) -> None:
        """A limit was met: `reason` is one of our own words."""
        self._rejected.labels(reason).inc()

    def show_connections(self, count: Callable[[], int]) -> None:
        """Called whenever somebody reads the metrics, as is the next one."""
        self._connections.set_function(count)

    def show_body_bytes(self, count: Callable[[], int]) -> None:
        self._body_bytes.set_function(count)

    def certificate_expires(self, timestamp: float) -> None:
        """Not shown where there is none: a proxy's certificate is no business of ours."""
        if self._expiry is None:
            self._expiry = Gauge(
                "dhdmm_certificate_expires",
                "When the TLS certificate expires; only if there is one",
                registry=self._registry,
            )
        self._expiry.set(timestamp)

    def watch(self, rounds: Callable[[], Iterable[RoundFigures]]) -> None:
        """Show these rounds; asked for anew whenever somebody reads the metrics."""
        self._registry.register(_Rounds(rounds))

    def text(self) -> bytes:
        """The page that Prometheus reads."""
        return generate_latest(self._registry)


class HelperMetrics(Metrics):
    """Also what a helper has done since its process began."""

    def __init__(self) -> None:
        super().__init__()
        count, registry = partial(Counter, registry=self._registry), self._registry
        under_way = "Rounds of a helper that have been asked about and are not answered"
        self._open = Gauge("dhdmm_helper_open_rounds", under_way, registry=registry)
        reports = "Reports by what a helper said of them: accepted, refused"
        self._reports = count("dhdmm_helper_reports", reports, ["reply"])
        for reply in ("accepted", "refused"):
            self._reports.labels(reply)
        self._answers = count("dhdmm_helper_answers", "Sums that a helper has given, one a round")

    def show_open_rounds(self, number: Callable[[], int]) -> None:
        """Called whenever somebody reads the metrics."""
        self._open.set_function(number)

    def helped(self, accepted: int, refused: int, answered: bool) -> None:
        """A leader was answered: so many reports were new or refused; it may have got the sum."""
        self._reports.labels("accepted").inc(accepted)
        self._reports.labels("refused").inc(refused)
        self._answers.inc(answered)


class _Rounds(Collector):
    def __init__(self, rounds: Callable[[], Iterable[RoundFigures]]) -> None:
        self._rounds = rounds

    def collect(self) -> Iterator[Metric]:
        phase = GaugeMetricFamily(
            "dhdmm_round_phase", "1 for a round's phase", labels=["round", "phase"]
        )
        people = GaugeMetricFamily(
            "dhdmm_round_participants", "Participants by standing", labels=["round", "standing"]
        )
        for figures in self._rounds():
            phase.add_metric([figures.round, figures.phase], 1)
            for standing in ("enrolled", "alive", "departed", "dropped"):
                people.add_metric([figures.round, standing], getattr(figures, standing))
        yield from (phase, people)
