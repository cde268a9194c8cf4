"""What a participant contributes: exact integers plus noise, modulo m; nothing is clipped."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhdmm.errors import PrivacyError, Refused
from dhdmm.participant.measure import measure
from dhdmm.planning.draft import plan as make_plan
from dhdmm.planning.plan import Plan
from dhdmm.privacy.gaussian import DiscreteGaussian
from dhdmm.privacy.keystream import KeyStream
from dhdmm.release.decode import decode
from tests.planning.studies import planned, records, study
from tests.protocol.network import roster_of
from tests.sums import PlainSum

KEY = bytes(range(32))


def plan_for_twelve() -> Plan:
    return make_plan(study(), roster=roster_of(12), strategy=planned().strategy)


def drawn(plan: Plan, key: bytes) -> np.ndarray:
    stream = KeyStream.from_key_for_tests(key)
    return DiscreteGaussian(plan.participant_variance).sample(plan.strategy.rows, stream)


@pytest.mark.slow
@settings(max_examples=20)
@given(st.lists(st.integers(0, 4), max_size=3), st.binary(min_size=32, max_size=32))
def test_a_measurement_is_the_exact_one_plus_noise(values, key):
    plan = plan_for_twelve()
    contribution = measure(plan, records(*values), KeyStream.from_key_for_tests(key))
    exact = plan.strategy.to_sparse().toarray() @ np.bincount(values, minlength=5)[:5]
    assert contribution.dtype == plan.modulus.dtype
    assert contribution.max() < plan.modulus.value
    assert decode(plan, contribution).tolist() == (exact + drawn(plan, key)).tolist()


def test_sums_are_decoded_exactly():
    """Twelve participants at their record bound, all in the cell with the largest entries."""
    plan = plan_for_twelve()
    keys = [bytes([i]) * 32 for i in range(12)]
    full = records(0, 0, 0)
    inputs = {
        i: measure(plan, full, KeyStream.from_key_for_tests(key)) for i, key in enumerate(keys)
    }
    total = PlainSum(plan.round(bytes(16))).sum(inputs).total
    expected = 12 * plan.strategy.measure(full) + sum(drawn(plan, key) for key in keys)
    assert decode(plan, total).tolist() == expected.tolist()


def test_a_participant_without_records_contributes_noise():
    contribution = measure(planned(), records(), KeyStream.from_key_for_tests(KEY))
    assert decode(planned(), contribution).tolist() == drawn(planned(), KEY).tolist()


def test_two_measurements_of_one_table_differ():
    stream = KeyStream.from_key_for_tests(KEY)
    first, second = (measure(planned(), records(2), stream) for _ in range(2))
    assert first.tolist() != second.tolist()


def test_refuses_more_records_than_the_bound():
    with pytest.raises(Refused, match="max_records_per_participant = 3"):
        measure(planned(), records(0, 1, 2, 3), KeyStream.from_key_for_tests(KEY))


def test_the_refusal_does_not_say_how_many_records_there_are():
    with pytest.raises(Refused) as refusal:
        measure(planned(), records(*[0] * 777), KeyStream.from_key_for_tests(KEY))
    assert "777" not in str(refusal.value)


def test_refuses_noise_that_cannot_be_drawn_exactly():
    plan = replace(planned(), participant_variance=Fraction(10**18 + 1))
    with pytest.raises(PrivacyError):
        measure(plan, records(1), KeyStream.from_key_for_tests(KEY))
