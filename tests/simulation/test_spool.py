"""Values are in a file, and come back."""

import pytest

from dhdmm.cohort.spool import Spool


def test_values_of_every_length_come_back() -> None:
    spool, model = Spool(), {}
    for turn, size in enumerate([0, 512, 513, 100_000, 40_000, 3, 100_001]):
        for key in ("a", "b", f"{turn}"):
            spool[key] = model[key] = bytes([turn]) * size
    assert dict(spool) == model
    assert len(spool) == len(model)
    del spool["a"], model["a"]
    assert "a" not in spool
    assert dict(spool) == model
    with pytest.raises(KeyError):
        spool["a"]
    with pytest.raises(KeyError):
        del spool["a"]
    spool.close()


def test_a_replaced_value_takes_its_old_place() -> None:
    spool = Spool()
    for size in (5000, 4000, 5000, 4999):
        spool["state"] = bytes(size)
    assert spool._end == 5000
    spool.close()
