"""What a stranger may send in place of a strategy."""

from __future__ import annotations

from dataclasses import replace

import cbor2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workloads import marginals, one_attribute, plain

from dhdmm.errors import StrategyError
from dhdmm.strategy import encoding
from dhdmm.strategy import strategy as strategy_module
from dhdmm.strategy.encoding import pack, unpack
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.factor import Ranges

STRATEGY = optimise(plain((4, 3), [[Ranges.each(4), Ranges.prefixes(3)]]))
DATA = STRATEGY.to_bytes()


def changed(path: list[int], value: object, data: bytes = DATA) -> bytes:
    """The encoding with one part replaced."""
    document = cbor2.loads(data)
    parent = document
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    return cbor2.dumps(document, canonical=True)


AXIS, BLOCK, SIDE = [2, 0], [3, 0], [3, 0, 1, 0]
RESIDUAL_BLOCK = next(i for i, b in enumerate(STRATEGY.blocks) if b.residuals)
RESIDUAL = [3, RESIDUAL_BLOCK, 0, 0]
T = STRATEGY.blocks[0].sides[0].T
ROWS = len(T)


def triangle(matrix: np.ndarray) -> bytes:
    return pack(matrix[np.triu_indices(ROWS)])


def wide(value: int) -> bytes:
    """All entries of T this large."""
    return pack(np.full(ROWS * (ROWS + 1) // 2, value))


RESIDUAL_SIDE = [3, RESIDUAL_BLOCK, 1, 0]
HUGE_ENTRIES = changed([*RESIDUAL, 2], 2**40, changed([*RESIDUAL_SIDE, 5], wide(2**30)))


def axis(orbits: int) -> list[object]:
    """An attribute of so many values, none like another."""
    identity = pack(np.arange(orbits))
    return [orbits, orbits, orbits, identity, identity, 0, pack(np.zeros(0, np.int64))]


def with_zero_vector(data: bytes) -> bytes:
    """The second attribute has a vector of zeros, and the block with a residual measures that."""
    _, _, orbits, _, _, count, extra = cbor2.loads(data)[2][1]
    known = unpack(extra, count * orbits, "the vectors")
    longer = changed([2, 1, 6], pack(np.concatenate([known, np.zeros(orbits, np.int64)])), data)
    zeros = pack(np.full(ROWS, 1 + orbits + count))
    return changed([2, 1, 5], count + 1, changed([*RESIDUAL_SIDE, 4], zeros, longer))


HOSTILE = {
    "a block of zeros": (
        changed([*RESIDUAL, 2], 2**39, with_zero_vector(DATA)),
        "measures nothing",
    ),
    "an attribute of many orbits": (changed(AXIS, axis(8000)), "8,000 orbits"),
    "many attributes of some orbits": (changed([2], [axis(2000)] * 9), "2,000 orbits"),
    "empty": (b"", "not CBOR"),
    "truncated": (DATA[:-1], "not CBOR"),
    "trailing bytes": (DATA + b"\0", "canonical"),
    "not an array": (cbor2.dumps({"a": 1}), "not a strategy"),
    "another document": (changed([0], b"dhdmm study"), "not a strategy"),
    "a later format": (
        changed([1], 5),
        "strategy format 5; this is dhdmm .*, which reads formats 1–4",
    ),
    "a boolean format": (changed([1], True), "True is not the number of a strategy format"),
    "an array too long": (cbor2.dumps([*cbor2.loads(DATA), 0]), "the document"),
    "indefinite length": (b"\x9f" + DATA[1:] + b"\xff", "canonical"),
    "no attribute": (changed([2], []), "no attribute"),
    "no row": (changed([3], []), "no row"),
    "too many attributes": (changed([2], [cbor2.loads(DATA)[2][0]] * 129), "at most 128"),
    "huge attribute": (changed([*AXIS, 0], 2**40), "attribute's values"),
    "attribute without values": (changed([*AXIS, 0], 0), "attribute's values"),
    "more merged values than values": (changed([*AXIS, 1], 5), "merged values"),
    "float size": (changed([*AXIS, 0], 4.0), "attribute's values"),
    "NaN size": (changed([*AXIS, 0], float("nan")), "attribute's values"),
    "negative size": (changed([*AXIS, 0], -4), "attribute's values"),
    "map with a gap": (changed([*AXIS, 3], pack(np.array([0, 2, 3, 3]))), "gaps"),
    "map out of range": (changed([*AXIS, 3], pack(np.array([0, 1, 2, -1]))), "gaps"),
    "text for a map": (changed([*AXIS, 3], "0123"), "packed array"),
    "map too short": (changed([*AXIS, 3], pack(np.arange(40))), "does not have 4 entries"),
    "wider than needed": (changed([*AXIS, 3], b"\x08" + bytes([0, 2, 4, 6])), "canonical"),
    "vectors without end": (changed([*AXIS, 5], 2**50), "attribute's vectors"),
    "block without a side": (changed([*BLOCK, 1], []), "without a side"),
    "huge rows": (changed([*SIDE, 1], [2**40, 2**40]), "side's rows"),
    "huge products": (changed([*SIDE, 1], [ROWS, 2**40]), "side's products"),
    "fewer products than rows": (changed([*SIDE, 1], [ROWS, ROWS - 1]), "side's products"),
    "plain basis written out": (
        changed([*SIDE, 2], pack(np.ones(ROWS)), changed([*SIDE, 3], pack(np.ones(ROWS)))),
        "canonical",
    ),
    "axis that does not exist": (changed([*SIDE, 0], [7]), "an axis"),
    "axes out of order": (changed([*SIDE, 0], [1, 0]), "increasing"),
    "vector that does not exist": (changed([*SIDE, 4], pack(np.full(ROWS, 99))), "out of range"),
    "NaN bytes for T": (changed([*SIDE, 5], np.full(ROWS, np.nan).tobytes()), "T "),
    "floats for T": (changed([*SIDE, 5], [1.0] * ROWS), "packed array"),
    "singular T": (changed([*SIDE, 5], triangle(T * (1 - np.eye(ROWS, dtype=int)))), "singular"),
    "entries near 2**63": (changed([*SIDE, 5], wide(2**62)), "bits"),
    "entries over 53 bits": (HUGE_ENTRIES, "53 bits"),
    "singular contrast": (changed([*RESIDUAL, 2], 3), "singular"),
    "contrast of float": (changed([*RESIDUAL, 2], 3.5), "contrast's p"),
    "residual twice": (
        changed([*RESIDUAL[:-1]], [cbor2.loads(DATA)[3][RESIDUAL_BLOCK][0][0]] * 2),
        "twice",
    ),
    "residual of no attribute": (changed([*RESIDUAL, 0], 9), "residual's attribute"),
    "residual of no part": (changed([*RESIDUAL, 1], 9), "residual's part"),
}


@pytest.mark.fault(28)
@pytest.mark.parametrize("name", HOSTILE)
def test_refuses_with_its_own_reason(name):
    data, reason = HOSTILE[name]
    with pytest.raises(StrategyError, match=reason):
        Strategy.from_bytes(data)


@pytest.mark.fault(28)
def test_a_truth_value_is_no_number():
    """Also where the same residual was read before, with the number that is equal to it."""
    document = cbor2.loads(optimise(marginals((4, 3), 2)).to_bytes())
    residuals = [residual for block in document[3] for residual in block[0]]
    again = next(r for i, r in enumerate(residuals) if 1 in r and r in residuals[:i])
    again[again.index(1)] = True
    with pytest.raises(StrategyError, match="not an integer"):
        Strategy.from_bytes(cbor2.dumps(document))


@pytest.mark.fault(28)
def test_refuses_what_exceeds_the_byte_limit(monkeypatch):
    monkeypatch.setattr(encoding, "LARGEST_BYTES", len(DATA) - 1)
    with pytest.raises(StrategyError, match="exceed the limit"):
        Strategy.from_bytes(DATA)


@pytest.mark.fault(28)
def test_refuses_more_rows_than_the_limit(monkeypatch):
    monkeypatch.setattr(encoding, "LARGEST_ROWS", STRATEGY.rows - 1)
    with pytest.raises(StrategyError, match="rows"):
        Strategy.from_bytes(DATA)


def test_decoded_strategy_measures_and_reconstructs_like_the_original():
    decoded = Strategy.from_bytes(DATA)
    x = np.arange(12).reshape(4, 3)
    assert np.array_equal(decoded.measure(x), STRATEGY.measure(x))
    assert decoded.sensitivity_squared == STRATEGY.sensitivity_squared
    with pytest.raises(StrategyError, match="attach"):
        decoded.reconstruct(decoded.measure(x))
    attached = decoded.attach(STRATEGY.workload)
    assert np.allclose(attached.variances(), STRATEGY.variances())
    assert np.isclose(attached.rmse, STRATEGY.rmse)


@pytest.mark.parametrize(
    "w", [marginals((5, 4, 3), 2), one_attribute(Ranges.all(9)), one_attribute(Ranges.total(1))]
)
def test_encoding_is_the_same_after_decoding(w):
    data = optimise(w).to_bytes()
    read = Strategy.from_bytes(data)
    assert encoding.encode(read.axes, read.blocks) == data


def test_a_strategy_keeps_its_bytes_with_and_without_its_workload(monkeypatch):
    monkeypatch.setattr(strategy_module, "encode", None)  # nothing is written again
    read = Strategy.from_bytes(DATA)
    assert read.to_bytes() == DATA
    assert read.over(STRATEGY.workload).to_bytes() == DATA


def test_a_rescaled_strategy_has_bytes_of_its_own():
    larger = Strategy.from_bytes(DATA).rescaled(10 * STRATEGY.sensitivity_squared**0.5)
    assert larger.to_bytes() != DATA
    assert Strategy.from_bytes(larger.to_bytes()).sensitivity_squared == larger.sensitivity_squared


@pytest.mark.slow
@given(st.integers(0, len(DATA) - 1), st.integers(0, 255))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_any_changed_byte_is_refused_or_another_canonical_strategy(position, value):
    data = DATA[:position] + bytes([value]) + DATA[position + 1 :]
    try:
        strategy = Strategy.from_bytes(data)
    except StrategyError:
        return
    assert encoding.encode(strategy.axes, strategy.blocks) == data
    assert strategy.sensitivity_squared > 0


@pytest.mark.slow
@given(st.lists(st.integers(-(2**40), 2**40), max_size=30))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_packing_round_trips(values):
    array = np.array(values, np.int64)
    assert np.array_equal(unpack(pack(array), len(values), "it"), array)


@pytest.mark.parametrize("count", [0, 1, 7, encoding.FEW])
@pytest.mark.parametrize("largest", [0, 1, 5, 2**40])
def test_few_numbers_are_read_like_many(monkeypatch, count, largest) -> None:
    values = np.arange(count) * (largest // max(count, 1)) * (-1) ** np.arange(count)
    data = pack(values)
    few = unpack(data, count, "it")
    monkeypatch.setattr(encoding, "FEW", -1)
    many = unpack(data, count, "it")
    assert few.dtype == many.dtype == np.int64
    assert few.tolist() == many.tolist() == values.tolist()


@pytest.mark.parametrize("few", [encoding.FEW, -1])
@pytest.mark.parametrize(
    "data",
    [bytes([2, 0b100]), bytes([3, 0b0010, 0]), bytes([1, 0b1001]), bytes([3, 0, 0b10])],
    ids=["too few bits", "a bit too wide", "padding", "padding in the last byte"],
)
def test_numbers_are_packed_in_one_way(monkeypatch, few, data) -> None:
    monkeypatch.setattr(encoding, "FEW", few)
    with pytest.raises(StrategyError, match="it"):
        unpack(data, 3, "it")


def test_pieces_written_out_together_are_those_written_out_alone() -> None:
    strategy = optimise(
        plain((4, 3), [[Ranges.each(4), Ranges.prefixes(3)], [Ranges.all(4), Ranges.total(3)]])
    )
    for factor in (1, 2**20, 2**29):  # the last are too large for what is done together
        first, *others = strategy.blocks[0].sides
        larger = replace(first, T=first.triangle * factor)
        blocks = replace(strategy.blocks[0], sides=(larger, *others)), *strategy.blocks[1:]
        together = [side for block in Strategy(strategy.axes, blocks)._pieces for side in block]
        alone = [side.pieces(strategy.axes) for block in blocks for side in block.sides]
        assert any("table" in vars(piece) for found in together for piece in found) == (factor < 9)
        for found, one in zip(together, alone, strict=True):
            for piece, other in zip(found, one, strict=True):
                assert np.array_equal(piece.table, other.table)
                assert np.array_equal(piece.squared_norms, other.squared_norms)
                assert (piece.largest, piece.largest_norm) == (other.largest, other.largest_norm)
