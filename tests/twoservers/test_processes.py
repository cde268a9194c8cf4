"""Leader and helper as processes that are killed, and a helper that is away for long."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from dhdmm.cli.local_network import LocalNetwork
from dhdmm.release.release import Release
from dhdmm.release.verify import verify
from dhdmm.twoservers.leader import SETTLING
from tests.round.small import small_text

pytestmark = pytest.mark.slow

COUNT, PHASE_SECONDS = 4, 3.0


def test_a_round_survives_both_servers_and_waits_for_the_helper(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    text = small_text(threat_model="two-servers", participants=COUNT, dropout=0, corrupt=0.2)
    study.write_text(text)
    tables = []
    for number in range(COUNT):
        tables.append(tmp_path / f"{number}.csv")
        tables[-1].write_text("age,sex\n" + "3,F\n" * (number + 1))
    folder = tmp_path / "network"
    folder.mkdir()
    with LocalNetwork(study, folder, tables, phase_seconds=600.0) as network:
        for number in range(COUNT):
            network.join(number)
            _await(network, lambda status, there=number + 1: status.received >= there)
            if number == 0:
                network.stop_coordinator(signal.SIGKILL)
                network._phase_seconds = PHASE_SECONDS  # from now on a deadline would pass
                network.start_coordinator(network.port)
            if number == 1:
                network.stop_helper(signal.SIGKILL)
        _await(network, lambda status: status.state == SETTLING.name)
        time.sleep(PHASE_SECONDS + 1)
        network.stop_coordinator(signal.SIGKILL)
        network.start_coordinator(network.port)
        _await(network, lambda status: status.state == SETTLING.name)
        network.start_helper(network.helper_port)
        _await(network, lambda status: status.over)
        release = Release.load(network.release())
        assert not list((folder / "helper-secrets").iterdir())
        network.await_end()
        assert {network.printed(number)["ending"] for number in range(COUNT)} == {"released"}
    assert release.survivors == COUNT
    assert "signed its half" in " ".join(verify(release.transcript).checks)


def _await(network: LocalNetwork, reached) -> None:
    for status in network.statuses():
        if reached(status) or status.over:
            assert reached(status), status
            return
