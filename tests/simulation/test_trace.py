"""A trace survives its file, and nothing else is one."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from dhdmm.aggregation.method import ThreatModel
from dhdmm.errors import DataError
from dhdmm.planning.methods import METHODS
from dhdmm.simulation.trace import Trace


def test_trace_comes_back_from_its_file(tmp_path: Path) -> None:
    trace = Trace.empty(METHODS[ThreatModel.MALICIOUS].phases, 5)
    trace.asked[2, 3], trace.sent_bytes[1, 4], trace.closing_seconds[0] = True, 7, 0.5
    trace.plan_bytes, trace.release_seconds = 1234, 0.25
    trace.save(tmp_path / "trace.npz")
    again = Trace.load(tmp_path / "trace.npz")
    for field in fields(Trace):
        assert np.array_equal(getattr(again, field.name), getattr(trace, field.name)), field.name


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x05\x06" + bytes(18)])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trace.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match="not a trace"):
        Trace.load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a trace") as error:
        Trace.load(tmp_path / "absent.npz")
    assert error.value.where == str(tmp_path / "absent.npz")
