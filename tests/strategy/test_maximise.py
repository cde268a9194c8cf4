"""The exact maximum of a sum of tables, against writing everything out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dhdmm.errors import StrategyError
from dhdmm.strategy import maximise
from dhdmm.strategy.maximise import TableSum, maximum


def random_tables(seed: int, dtype: type) -> tuple[dict[int, int], list]:
    rng = np.random.default_rng(seed)
    domain = {a: int(rng.integers(1, 6)) for a in range(5)}
    sets = [s for size in (1, 2, 3) for s in itertools.combinations(range(5), size)]
    chosen = [sets[i] for i in rng.choice(len(sets), 8, replace=False)]
    tables = [(s, rng.integers(-50, 50, [domain[a] for a in s]).astype(dtype)) for s in chosen]
    return domain, tables


def written_out(domain: dict[int, int], tables: list) -> int:
    total = np.zeros(list(domain.values()), object)
    for held, T in tables:
        total = total + T.reshape([domain[a] if a in held else 1 for a in domain])
    return int(total.max())


@pytest.mark.parametrize("dtype", [np.int64, object])
@pytest.mark.parametrize("direct", [0, maximise.DIRECT])
@pytest.mark.parametrize("seed", range(15))
def test_equals_writing_everything_out(seed, direct, dtype):
    domain, tables = random_tables(seed, dtype)
    total = TableSum(domain, [held for held, _ in tables], dtype, direct)
    for table in tables:
        total.add(table)
    assert maximum(total.tables) == written_out(domain, tables)


def test_refuses_rather_than_guess_when_too_many_combinations_stay_open(monkeypatch):
    monkeypatch.setattr(maximise, "WIDEST", 1)
    monkeypatch.setattr(maximise, "LARGEST_EXCESS", -0.01)
    domain, tables = random_tables(1, np.int64)
    total = TableSum(domain, [held for held, _ in tables], np.int64, 0)
    for table in tables:
        total.add(table)
    with pytest.raises(StrategyError, match="largest column norm"):
        maximum(total.tables)


@pytest.mark.parametrize("few", [0, 4])
@pytest.mark.parametrize("seed", range(15))
def test_a_maximum_that_is_not_found_is_bounded_from_above(monkeypatch, seed, few):
    domain, tables = random_tables(seed, np.int64)
    total = TableSum(domain, [held for held, _ in tables], np.int64, 0)
    for table in tables:
        total.add(table)
    truth = written_out(domain, tables)
    monkeypatch.setattr(maximise, "WIDEST", 1)
    monkeypatch.setattr(maximise, "FEW_CLASSES", few)
    monkeypatch.setattr(maximise, "LARGEST_EXCESS", 100)
    assert truth <= maximum(total.tables)
    assert maximum(total.tables) <= sum(int(T.max()) for _, T in total.tables)
