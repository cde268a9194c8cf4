"""`dhdmm simulate` as a person types it."""

import json
from pathlib import Path

import pytest

from dhdmm.cli.simulate import simulate
from dhdmm.errors import DataError
from dhdmm.simulation.trace import Trace
from tests.cli.commands import called
from tests.round.small import small_text

FIELDS = (
    *("participants", "threat_model", "degree", "threshold", "rows", "participant_ms"),
    *("coordinator_s", "total_s", "participant_sent_bytes", "participant_received_bytes"),
    *("coordinator_sent_bytes", "coordinator_received_bytes", "plan_bytes", "survivors"),
    *("sum_correct", "wall_s", "cpu_s"),
)
NETWORK = ("--participant-mbps", "1", "--coordinator-mbps", "1000", "--latency-ms", "100")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(small_text(), encoding="utf-8")
    return path


def test_json_has_every_promised_field(study: Path) -> None:
    options = ("--participants", "20", "--threat-model", "semi-honest", "--dropout", "0.05")
    said = json.loads(called(simulate, study, *options, *NETWORK, "--seed", "7", "--json"))
    assert set(FIELDS) <= set(said)
    assert (said["participants"], said["survivors"]) == (20, 19)
    assert said["threat_model"] == "semi-honest"
    assert said["sum_correct"] is True
    assert said["total_s"] > 0.8  # four phases, there and back


@pytest.mark.slow
def test_counted_figures_repeat_with_the_seed(study: Path) -> None:
    options = ("--compute-model", *NETWORK, "--straggler-share", "0.2", "--json")
    one, other = (json.loads(called(simulate, study, *options)) for _ in range(2))
    for name in FIELDS[:-2]:
        assert one[name] == other[name], name


def test_people_read_phases_and_totals_in_80_columns(study: Path) -> None:
    said = called(simulate, study, "--records-per-participant", "2")
    assert max(map(len, said.splitlines())) <= 80
    for word in ("keys", "choices", "shares", "inputs", "acks", "reveals", "in all"):
        assert f"\n{word} " in said
    assert "The sum is exact." in said
    assert "No cryptography was executed." in called(simulate, study, "--engine", "model")


def test_trace_is_saved(study: Path, tmp_path: Path) -> None:
    called(simulate, study, "--trace", tmp_path / "trace.npz")
    assert Trace.load(tmp_path / "trace.npz").participants == 12


@pytest.mark.slow
def test_a_table_is_dealt_out(study: Path, tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    table.write_text("age,sex\n" + "3,F\n4,M\n" * 12, encoding="utf-8")
    options = ("--data", table, "--records-per-participant", "2", "--json")
    assert json.loads(called(simulate, study, *options))["sum_correct"] is True
    with pytest.raises(DataError, match="24 records are too few for 12 × 3"):
        called(simulate, study, "--data", table, "--records-per-participant", "3")
