"""Random runs, most of them in the soak: the sum of the announced survivors, or a reason."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.secagg import messages as m
from dhdmm.secagg.coordinator import Coordinator
from tests.protocol.network import MALICIOUS, SEMI_HONEST, assert_sum_is_of_announced_survivors
from tests.protocol.schedule import CALM, EXPECTED_ABORTS, FlakyJournal, Weather, run

STORMS = Weather(silence=0, restart=0.3, crash=0, again=0, foreign=0, deadline=0, journal=0)
CHUNK = 100
CHUNKS = 7  # 700 seeds; the soak has 100,000
SOAK_SEEDS = int(os.environ.get("DHDMM_SOAK_SEEDS", "100000"))


def check(seed: int) -> str:
    """Run a seed and hold it to the oracle; its outcome in words."""
    simulated = run(seed)
    coordinator = simulated.coordinator
    assert all(len(kinds) == 1 for kinds in simulated.released.values()), "both kinds of share"
    assert set(simulated.left.values()) <= EXPECTED_ABORTS
    if coordinator.result is None:
        assert coordinator.abort_reason in EXPECTED_ABORTS
        return f"{simulated.setting.parameters.threat_model} {coordinator.abort_reason}"
    assert_sum_is_of_announced_survivors(coordinator)
    return f"{simulated.setting.parameters.threat_model} finished"


def check_all(seeds: range) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for seed in seeds:
        try:
            outcomes[check(seed)] += 1
        except BaseException:
            print(f"to replay: schedule.run({seed})")
            raise
    return outcomes


@pytest.mark.slow
@pytest.mark.fault(1, 3, 8, 10)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_schedules_give_the_announced_sum_or_abort_with_a_reason(chunk: int) -> None:
    outcomes = check_all(range(chunk * CHUNK, (chunk + 1) * CHUNK))
    # the schedules must not be so stormy that nothing is tested: both models finish and abort
    for threat_model in (SEMI_HONEST, MALICIOUS):
        assert outcomes[f"{threat_model} finished"] >= 10
    assert sum(outcomes.values()) - sum(v for k, v in outcomes.items() if "finished" in k) >= 5


@pytest.mark.slow
def test_calm_schedules_always_finish_with_everybody() -> None:
    for seed in range(60):
        coordinator = run(seed, CALM).coordinator
        assert_sum_is_of_announced_survivors(coordinator)
        assert len(coordinator.result.survivors) == coordinator.parameters.participants


def test_one_seed_replays_one_run() -> None:
    for seed in range(10):
        first, second = run(seed), run(seed)
        assert first.released == second.released
        assert first.coordinator.state == second.coordinator.state
        assert first.coordinator.survivors == second.coordinator.survivors


class Amnesia(FlakyJournal):
    """The weakened variant: nothing is remembered, so a restart draws everything anew."""

    def read(self) -> tuple[bytes, bytes] | None:
        return None


@pytest.mark.fault(6)
def test_simulation_notices_participants_that_draw_anew_after_a_restart() -> None:
    def conflicts(seed: int) -> bool:
        try:
            run(seed, STORMS, journal=Amnesia)
        except RemoteProtocolError as error:
            return error.reason is AbortReason.CONFLICTING_MESSAGE
        return False

    assert sum(conflicts(seed) for seed in range(20)) >= 10


@pytest.mark.fault(8)
def test_simulation_notices_a_coordinator_that_counts_an_input_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forgetful(self: Coordinator, message: m.MaskedInput) -> None:
        add(self, message)
        add(self, message)

    add = Coordinator._add
    monkeypatch.setattr(Coordinator, "_add", forgetful)
    simulated = run(0, CALM)
    with pytest.raises(AssertionError):
        assert_sum_is_of_announced_survivors(simulated.coordinator)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(100))
def test_many_more_random_schedules(part: int) -> None:
    size = -(-SOAK_SEEDS // 100)
    start = 1_000_000 + part * size
    outcomes = check_all(range(start, start + size))
    assert sum(outcomes.values()) == size
