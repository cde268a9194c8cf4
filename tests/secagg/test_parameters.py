"""The graph's parameters against the published table, exact arithmetic and hostile plans."""

import dataclasses
import itertools
import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhdmm.secagg.parameters import (
    MODELS,
    GraphParameters,
    ParameterError,
    ThreatModel,
    check,
    choose,
    counts,
)
from tests.amounts import examples

SEMI_HONEST, MALICIOUS = ThreatModel.SEMI_HONEST, ThreatModel.MALICIOUS
SIZES = (100, 1_000, 3_000, 10_000, 100_000, 1_000_000)

TABLE = {
    (SEMI_HONEST, 0.05, 0.05): ((12, 6), (34, 18), (36, 20), (38, 21), (40, 22), (44, 24)),
    (SEMI_HONEST, 0.1, 0.1): ((22, 11), (52, 28), (58, 31), (60, 32), (66, 35), (70, 37)),
    (SEMI_HONEST, 0.2, 0.2): ((42, 21), (112, 59), (126, 66), (136, 71), (150, 78), (160, 83)),
    (SEMI_HONEST, 0.49, 0.05): (
        (48, 43), (138, 111), (164, 131), (176, 140), (194, 154), (208, 165),
    ),
    (MALICIOUS, 0.05, 0.05): ("complete", (61, 42), (68, 47), (74, 51), (80, 55)),
    (MALICIOUS, 0.1, 0.1): ("complete", (113, 77), (132, 90), (144, 98), (159, 108)),
    (MALICIOUS, Fraction(1, 3), 0.05): ("complete", (152, 124), (186, 151), (206, 167), (226, 183)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "corrupt", "dropout", "n", "expected"),
    [(*key, n, e) for key, row in TABLE.items() for n, e in zip(SIZES, row, strict=False)],
)
def test_reproduces_the_published_table(model, corrupt, dropout, n, expected):
    chosen = choose(n, corrupt, dropout, model)
    if expected == "complete":
        assert chosen.complete
        assert chosen.degree == n - 1
        assert chosen.margin == 0
    else:
        assert not chosen.complete
        assert (chosen.degree, chosen.threshold) == expected


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("n", [3, 4, 5, 8, 20, 60, 100, 250, 1_000, 30_000])
def test_participants_accept_what_was_chosen(model, n):
    check(choose(n, 0.05, 0.05, model), n, 0.05, 0.05, model)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("n", [0, 1, 2])
def test_refuses_rounds_whose_sum_reveals_an_input(model, n):
    with pytest.raises(ParameterError, match="participants: a round needs 3"):
        choose(n, 0, 0, model)


def test_three_participants_use_the_complete_graph_and_all_must_survive():
    for model in MODELS:
        assert choose(3, 0.05, 0.05, model) == GraphParameters(2, 2, 3, 1, 0, complete=True)


@pytest.mark.parametrize("bad", [-0.1, 1.0, math.nan, math.inf])
def test_refuses_fractions_that_are_none(bad):
    with pytest.raises(ParameterError, match="at least 0 and below 1"):
        choose(100, bad, 0.05, MALICIOUS)
    with pytest.raises(ParameterError, match="at least 0 and below 1"):
        choose(100, 0.05, bad, MALICIOUS)


def test_decimal_fractions_mean_what_is_written():
    assert counts(100, 0.29, 0.29) == (29, 71)
    assert 0.29 * 100 < 29  # the binary double would lose one corrupt participant


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "corrupt", "dropout", "model"),
    [(100, 0.5, 0.5, SEMI_HONEST), (50, 0.4, 0.4, MALICIOUS), (300, 0.5, 0.4, MALICIOUS)],
)
def test_names_the_nearest_feasible_parameters(n, corrupt, dropout, model):
    with pytest.raises(ParameterError, match="feasible with dropout up to") as refusal:
        choose(n, corrupt, dropout, model)
    words = str(refusal.value).split()
    largest = [float(after) for before, after in itertools.pairwise(words) if before == "to"]
    best_dropout, best_corrupt = largest
    choose(n, corrupt, best_dropout, model)
    choose(n, best_corrupt, dropout, model)
    for gamma, delta in ((corrupt, best_dropout + 0.01), (best_corrupt + 0.01, dropout)):
        with pytest.raises(ParameterError):
            choose(n, round(gamma, 2), round(delta, 2), model)


def hostile(**changes):
    return dataclasses.replace(choose(1_000, 0.05, 0.05, MALICIOUS), **changes)


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (hostile(threshold=1), "E4"),
        (hostile(threshold=0), "no graph"),
        (hostile(threshold=31), "E4"),  # t = k/2: both shares of one participant
        (hostile(threshold=41), "E4"),
        (hostile(threshold=43), "E3"),
        (hostile(threshold=62), "no graph"),
        (hostile(degree=1_000), "no graph"),
        (hostile(degree=999), "no graph"),  # complete, but says it is not
        (hostile(degree=16, threshold=11), "E3"),
        (hostile(margin=19), "E7"),
        (hostile(minimum_survivors=500), "950 follow"),
        (hostile(corrupt=0), "950 follow"),
    ],
)
def test_participant_refuses_hostile_parameters(plan, reason):
    with pytest.raises(ParameterError, match=reason):
        check(plan, 1_000, 0.05, 0.05, MALICIOUS)


def test_every_threshold_of_one_is_refused():
    for model in MODELS:
        for n in (3, 10, 100, 1_000):
            for k in {2, n // 2 + n // 2 % 2, n - 1}:
                c, s = counts(n, 0, 0)
                plan = GraphParameters(k, 1, s, c, 0, complete=k == n - 1)
                with pytest.raises(ParameterError):
                    check(plan, n, 0, 0, model)


def test_small_graph_that_two_bitmaps_could_split_is_refused():
    plan = GraphParameters(16, 11, 95, 5, 50, complete=False)  # satisfies E3, E4 and E5
    with pytest.raises(ParameterError, match="E5b"):
        check(plan, 100, 0.05, 0.05, MALICIOUS)


def test_odd_harary_degree_is_refused():
    plan = GraphParameters(35, 18, 950, 50, 0, complete=False)
    with pytest.raises(ParameterError, match="even degree"):
        check(plan, 1_000, 0.05, 0.05, SEMI_HONEST)


# An independent evaluation of E1–E7, in rationals, straight from the formulas.


def exact_hypergeometric_tail(population, marked, draws, x):
    hits = sum(
        math.comb(marked, y) * math.comb(population - marked, draws - y)
        for y in range(max(0, x), draws + 1)
    )
    return Fraction(hits, math.comb(population, draws))


def exact_conditions(n, c, s, k, t, model):
    sigma, eta = Fraction(1, 2**40), Fraction(1, 2**30)

    def tail(marked, x):
        return exact_hypergeometric_tail(n - 1, marked, k, x)

    if n * tail(n - s, k - t + 1) > eta:
        return False
    if model is SEMI_HONEST:
        absent = c + n - s
        cut = Fraction(math.comb(n - k, absent - k), math.comb(n, absent)) if absent >= k else 0
        return n * tail(c, t) <= sigma / 2 and Fraction(n * (n - k - 1), 2) * cut <= sigma / 2
    if n * tail(c, 2 * t - k) > sigma / 4:
        return False
    m = (n - c) // 2
    at_t = {size: tail(size - 1 + c, t) for size in range(1, m + 1)}
    two_bitmaps = Fraction(0)
    for size in range(1, m + 1):
        closed = tail(size - 1 + c, 2 * t - k) ** size
        accepted = sum(
            math.comb(n - c - size, kappa - size) * at_t[kappa] ** size
            for kappa in range(size, m + 1)
        )
        two_bitmaps += math.comb(n - c, size) * min(closed, accepted)
    drowned = sum(
        math.comb(n - 1, y) * Fraction(k, n - 1) ** y * Fraction(n - 1 - k, n - 1) ** (n - 1 - y)
        for y in range(3 * k + 1, n)
    )
    return (
        sum(math.comb(n - c, z) * p**z for z, p in at_t.items()) <= sigma / 4
        and two_bitmaps <= sigma / 4
        and n * drowned <= eta
    )


def high_precision_margin_sum(n, c, k, f, summands=12, terms=100):
    """E7's sum beyond f with 40 digits; what is cut off is below 1e-9 of it."""
    m = (n - c) // 2
    with mpmath.workdps(40):
        total = mpmath.mpf(0)
        for phantoms in range(f + 1, f + 1 + summands):
            trials = n - c - phantoms
            q = mpmath.mpf(math.comb(n - 1 - phantoms, k)) / math.comb(n - 1, k)
            term = mpmath.binomial(trials, m + 1) * q ** (m + 1) * (1 - q) ** (trials - m - 1)
            tail = mpmath.mpf(0)
            for y in range(m + 1, min(trials, m + terms) + 1):
                tail += term
                term *= q / (1 - q) * (trials - y) / (y + 1)
            total += math.comb(n - c, phantoms) * tail
    return total


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "unmet", "exposed"),
    [(1_000, 20, 0), (3_000, 52, 0), (10_000, 157, 2), (100_000, 1432, 22)],
)
def test_margin_is_the_smallest_that_covers_phantoms(n, unmet, exposed):
    # Pr[Bin > m] falls below the smallest double at the last two sizes, but C(n − c, f) outweighs
    # it: evaluated with underflow 153 and 1012 would come out, too few.
    chosen = choose(n, 0.05, 0.05, MALICIOUS)
    assert chosen.margin == unmet + exposed
    needed = mpmath.mpf(2) ** -42
    assert high_precision_margin_sum(n, chosen.corrupt, chosen.degree, unmet) <= needed
    assert high_precision_margin_sum(n, chosen.corrupt, chosen.degree, unmet - 1) > needed


def accepts(plan, n, gamma, delta, model):
    try:
        check(plan, n, gamma, delta, model)
    except ParameterError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("n", "gamma", "delta"), [(5, 0.2, 0.2), (12, 0.1, 0.1), (19, 0.06, 0), (30, 0.05, 0.1)]
)
def test_agrees_with_exact_arithmetic_on_every_small_graph(model, n, gamma, delta):
    c, s = counts(n, gamma, delta)
    for k in range(2, n):
        if model is SEMI_HONEST and k % 2 and k < n - 1:
            continue
        for t in range(1, k + 1):
            margin = s - c - 1  # as large as can be, so that E7 decides nothing here
            plan = GraphParameters(k, t, s, c, margin, complete=k == n - 1)
            assert accepts(plan, n, gamma, delta, model) == exact_conditions(n, c, s, k, t, model)


@pytest.mark.parametrize("model", MODELS)
def test_exact_arithmetic_finds_no_smaller_degree_or_threshold(model):
    n, gamma, delta = 210, Fraction(1, 3), 0.05
    c, s = counts(n, gamma, delta)
    chosen = choose(n, gamma, delta, model)
    assert not chosen.complete
    assert exact_conditions(n, c, s, chosen.degree, chosen.threshold, model)
    assert not exact_conditions(n, c, s, chosen.degree, chosen.threshold - 1, model)
    for k in range(chosen.degree - 4, chosen.degree):
        if model is SEMI_HONEST and k % 2:
            continue
        assert not any(exact_conditions(n, c, s, k, t, model) for t in range(k // 2, k + 1))


round_sizes = st.integers(3, 400)
percent = st.integers(0, 30).map(lambda p: Fraction(p, 100))


def degree_or_none(n, gamma, delta, model):
    try:
        return choose(n, gamma, delta, model)
    except ParameterError:
        return None


@pytest.mark.slow
@settings(max_examples=examples(20, 400), deadline=None)
@given(round_sizes, percent, percent, st.sampled_from(MODELS))
def test_more_corruption_or_dropout_never_needs_fewer_neighbours(n, gamma, delta, model):
    base = degree_or_none(n, gamma, delta, model)
    more = Fraction(1, 20)
    for harder in (
        degree_or_none(n, gamma + more, delta, model),
        degree_or_none(n, gamma, delta + more, model),
    ):
        if harder is not None:
            assert base is not None
            assert base.complete or harder.degree >= base.degree


@pytest.mark.slow
@settings(max_examples=examples(20, 400), deadline=None)
@given(round_sizes, percent, percent, st.sampled_from(MODELS))
def test_whatever_is_chosen_passes_the_participants_check(n, gamma, delta, model):
    chosen = degree_or_none(n, gamma, delta, model)
    if chosen is not None:
        check(chosen, n, gamma, delta, model)
        assert chosen.honest_floor >= 1
        assert chosen.threshold >= 2
