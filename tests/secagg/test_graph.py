"""Communication graphs: regular, symmetric, and uniform over what they may be."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from dhdmm.aggregation.errors import LocalProtocolError
from dhdmm.aggregation.randomness import uniform_below, uniform_permutation
from dhdmm.secagg.graph import complete_neighbours, harary_neighbours, sample_out_neighbours
from tests.secagg.seeded import scripted, seeded

FALSE_ALARM = 1e-6


def looks_uniform(counts: Counter, outcomes: int) -> bool:
    """Pearson's χ²; a uniform source fails once in a million seeds."""
    expected = counts.total() / outcomes
    missing = (outcomes - len(counts)) * expected
    statistic = missing + sum((count - expected) ** 2 / expected for count in counts.values())
    return statistic < chi2.isf(FALSE_ALARM, outcomes - 1)


@given(n=st.integers(4, 60), data=st.data())
def test_harary_graph_is_regular_symmetric_and_loopless(n, data):
    k = 2 * data.draw(st.integers(1, (n - 1) // 2))
    neighbours = harary_neighbours(n, k, seeded(n))
    assert neighbours.shape == (n, k)
    assert (np.diff(neighbours, axis=1) > 0).all()
    edges = {(i, j) for i in range(n) for j in neighbours[i].tolist()}
    assert all((j, i) in edges and i != j for i, j in edges)


def test_harary_graph_is_connected_by_its_circle():
    neighbours = harary_neighbours(500, 2, seeded("circle"))
    previous, here, seen = -1, 0, 0
    while seen == 0 or here != 0:
        forward = [int(j) for j in neighbours[here] if j != previous]
        previous, here, seen = here, forward[0], seen + 1
    assert seen == 500


def test_harary_cycles_are_uniform():
    draws = seeded("cycles")
    counts = Counter(harary_neighbours(6, 2, draws).tobytes() for _ in range(6000))
    assert looks_uniform(counts, math.factorial(5) // 2)


def test_degree_one_less_than_participants_is_the_complete_graph():
    def nobody(size):
        raise AssertionError("no randomness is needed")

    for n in (2, 3, 4, 7):
        neighbours = harary_neighbours(n, n - 1, nobody)
        assert (neighbours == complete_neighbours(n)).all()
        assert all(set(row.tolist()) == set(range(n)) - {i} for i, row in enumerate(neighbours))


@pytest.mark.parametrize(("n", "k"), [(10, 3), (10, 0), (10, 10), (10, 12), (10, -2)])
def test_refuses_impossible_degrees(n, k):
    with pytest.raises(LocalProtocolError):
        harary_neighbours(n, k, seeded(0))


@given(n=st.integers(2, 80), data=st.data())
def test_out_neighbours_are_distinct_others_in_order(n, data):
    position = data.draw(st.integers(0, n - 1))
    k = data.draw(st.integers(1, n - 1))
    chosen = sample_out_neighbours(position, n, k, seeded((n, k)))
    assert len(chosen) == k
    assert position not in chosen
    assert (np.diff(chosen) > 0).all()
    assert 0 <= chosen[0] <= chosen[-1] < n


@pytest.mark.slow
@pytest.mark.parametrize("position", [0, 2, 5])
def test_out_neighbours_are_uniform_over_subsets(position):
    draws = seeded(("subsets", position))
    counts = Counter(tuple(sample_out_neighbours(position, 6, 3, draws)) for _ in range(4000))
    assert looks_uniform(counts, math.comb(5, 3))


@pytest.mark.parametrize(("position", "n", "k"), [(6, 6, 2), (-1, 6, 2), (0, 6, 6), (0, 6, 0)])
def test_refuses_impossible_choices(position, n, k):
    with pytest.raises(LocalProtocolError):
        sample_out_neighbours(position, n, k, seeded(0))


def test_bounded_integers_are_uniform_and_a_plain_remainder_is_not():
    draws = seeded("bounded")
    fair = uniform_below(draws, np.full(20_000, 5, dtype=np.uint32))
    assert looks_uniform(Counter(fair.tolist()), 5)
    folded = np.frombuffer(draws(20_000), dtype=np.uint8) % 8 % 5
    assert not looks_uniform(Counter(folded.tolist()), 5)


def test_rejected_words_are_drawn_again_in_place():
    words = scripted(
        np.array([7, 3, 6], dtype="<u4").tobytes(),  # 7 and 6 are not below 5
        np.array([5, 4], dtype="<u4").tobytes(),
        np.array([8 + 1], dtype="<u4").tobytes(),  # only three bits count
    )
    assert uniform_below(words, np.full(3, 5, dtype=np.uint32)).tolist() == [1, 3, 4]


def test_bounds_may_differ_and_reach_every_size():
    bounds = np.array([1, 2, 3, 2**31 - 1, 2**32 - 1], dtype=np.uint32)
    assert (uniform_below(seeded(1), bounds) < bounds).all()


def test_permutation_with_a_tie_is_discarded():
    tied = np.array([4, 9, 4], dtype="<u8").tobytes()
    distinct = np.array([4, 9, 1], dtype="<u8").tobytes()
    assert uniform_permutation(scripted(tied, distinct), 3).tolist() == [2, 0, 1]


@pytest.mark.fault(31)
def test_failing_randomness_is_an_error_and_not_a_smaller_draw():
    def short(size):
        return bytes(range(256))[: size - 1]

    for draw in (
        lambda: uniform_permutation(short, 4),
        lambda: uniform_below(short, np.full(4, 5, dtype=np.uint32)),
        lambda: sample_out_neighbours(0, 9, 3, short),
    ):
        with pytest.raises(LocalProtocolError):
            draw()
