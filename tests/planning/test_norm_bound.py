"""The length that no honest input exceeds, and what it means in answers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhdmm.errors import PrivacyError
from dhdmm.participant.measure import measure
from dhdmm.planning import methods
from dhdmm.planning import plan as plans
from dhdmm.planning.calibrate import LARGEST_VALIDATION_DELTA, norm_bound, validation_delta
from dhdmm.planning.draft import plan as make_plan
from dhdmm.planning.figures import item_figures, liar_errors, plan_figures, validation_words
from dhdmm.privacy.keystream import KeyStream
from dhdmm.study.histogram import Histogram
from tests.planning.studies import study
from tests.round.small import small_plan
from tests.secagg.seeded import seeded


@given(
    st.fractions(9, 10**8, max_denominator=10**6),
    st.integers(1, 10**5),
    st.integers(1, 10**6),
    st.integers(1, 10**12),
)
def test_the_bound_is_the_formula_rounded_up(
    variance: Fraction, rows: int, records: int, squared: int
) -> None:
    x = 80 * math.log(2)
    noise = math.sqrt(float(variance) * (rows + 2 * math.sqrt(rows * x) + 2 * x))
    formula = records * math.sqrt(squared) + noise
    bound = norm_bound(variance, rows, records, squared)
    assert formula <= bound * (1 + 1e-12)
    assert bound <= formula * 1.01 + 2 * math.sqrt(float(variance)) + 4


def test_honest_inputs_are_shorter_and_not_by_much() -> None:
    """A hundred of the longest honest tables; each is longer with probability 2⁻⁸⁰."""
    plan = small_plan()
    full = Histogram.of_records(np.tile([[3, 1]], (50, 1)))
    for i in range(100):
        noise = KeyStream.from_key_for_tests(seeded(i)(32))
        entries = plan.modulus.signed(measure(plan, full, noise))
        length = math.sqrt(float((entries.astype(float) ** 2).sum()))
        assert length <= plan.norm_bound
        assert length > 0.5 * plan.norm_bound


def test_no_vector_within_the_bound_moves_an_answer_further_than_is_said() -> None:
    """The worst for each answer is along its own reconstruction."""
    plan = small_plan()
    cells = [Histogram.of_records(np.array([[age, sex]])) for age in range(10) for sex in range(2)]
    strategy = np.array([plan.strategy.measure(cell) for cell in cells], float).T
    prefixes = np.kron(np.tril(np.ones((10, 10))), np.ones(2))
    reconstruction = np.vstack([np.eye(20), prefixes]) @ np.linalg.pinv(strategy)
    worst = plan.norm_bound * np.linalg.norm(reconstruction, axis=1)
    assert np.allclose(worst, liar_errors(plan) * plan.expected_error().standard_errors)


@pytest.mark.parametrize(
    ("level", "said"),
    [
        ("none", "nothing is checked: one participant with another program can move every answer"),
        ("sum", "the sum is checked against what participants commit to, unless one of them helps"),
        ("bounded", "times its standard error, at most ±"),
    ],
)
def test_a_plan_says_what_a_liar_can_do(level: str, said: str) -> None:
    plan = small_plan(validation=level)
    items = item_figures(plan.study, plan.expected_error().standard_errors)
    assert said in validation_words(plan, items)
    figures = plan_figures(plan)
    assert figures["validation"] == level
    assert figures["liars"] == validation_words(plan, items)


@pytest.mark.slow
def test_inputs_are_as_large_as_is_said() -> None:
    none, sums, bounded = (small_plan(validation=level) for level in ("none", "sum", "bounded"))
    assert none.input_bytes < sums.input_bytes < bounded.input_bytes
    proof, longer_length = 5 * 48 + 128 * 16 + 32 * (20 + 132 + 4), 4
    assert bounded.input_bytes - sums.input_bytes == proof + longer_length


def test_studies_that_ask_for_validation_need_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "LIBRARY", "a_library_that_is_not_there")
    small_plan()
    with pytest.raises(PrivacyError, match=r"pip install 'dhdmm\[validation\]'"):
        small_plan(validation="sum")


def test_a_bound_beyond_what_can_be_proved_is_refused_with_the_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plans, "norm_bound", lambda *_: 2**62)
    small_plan(validation="sum")
    with pytest.raises(PrivacyError, match="inputs cannot be validated: a bound of 4,6"):
        small_plan(validation="bounded")


def test_a_budget_that_the_proofs_do_not_cover_is_refused_with_the_plan() -> None:
    """(1 + e^ε)(n·2⁻⁸⁰ + n²·2⁻¹²⁸) may be 2⁻⁴⁴: ε = 13 with 2¹⁷ participants, not much more."""
    assert validation_delta(13, 2**17) < LARGEST_VALIDATION_DELTA < validation_delta(13.5, 2**17)
    generous = {"epsilon": 30.0}
    make_plan(study(generous), 12)
    with pytest.raises(PrivacyError, match="validation would add"):
        make_plan(study(generous, {"validation": "sum"}), 12)
