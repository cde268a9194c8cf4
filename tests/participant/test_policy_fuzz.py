"""Any bytes at all: a refusal or the very plan, never another error, never much memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import cbor2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dhdmm.participant.policy import PolicyRefusal, review
from tests.amounts import examples
from tests.participant.data_holder import POLICY, ROSTER
from tests.planning.studies import planned

LARGEST_PEAK = 32 * 2**20
"""The plan has about a kilobyte; reading it takes a few megabytes of tables."""


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < LARGEST_PEAK
    finally:
        tracemalloc.stop()


def refused_or_the_same(encoded: bytes) -> None:
    with little_memory():
        try:
            plan = review(encoded, POLICY, ROSTER).plan
        except PolicyRefusal:
            return
        assert replace(plan).to_bytes() == encoded  # written anew, not as it was kept


def edited(data: bytes, edits: list[tuple[int, bytes, int]]) -> bytes:
    """Each edit cuts some bytes at a place and puts others there."""
    for place, inserted, cut in edits:
        place %= len(data) + 1
        data = data[:place] + inserted + data[place + cut :]
    return data


EDITS = st.lists(
    st.tuples(st.integers(0, 2**16), st.binary(max_size=9), st.integers(0, 9)),
    min_size=1,
    max_size=4,
)
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.sampled_from([0, 1, 2, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**64]),
    st.floats(),
)
VALUES = st.recursive(
    st.one_of(NUMBERS, st.none(), st.booleans(), st.binary(max_size=40), st.text(max_size=9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=5,
)
FIELDS: dict[str, Any] = cbor2.loads(planned().to_bytes())
NATURALS = sorted(name for name, value in FIELDS.items() if type(value) is int)


@pytest.mark.slow
@pytest.mark.fault(41)
@settings(max_examples=examples(40, 1000))
@given(EDITS)
def test_edited_bytes(edits):
    refused_or_the_same(edited(planned().to_bytes(), edits))


@pytest.mark.slow
@settings(max_examples=examples(40, 1000))
@given(st.sampled_from(sorted(FIELDS)), VALUES)
def test_any_value_in_any_field(name, value):
    refused_or_the_same(cbor2.dumps(FIELDS | {name: value}, canonical=True))


@pytest.mark.slow
@settings(max_examples=examples(25, 600))
@given(st.dictionaries(st.sampled_from(NATURALS), st.integers(0, 2**63 - 1), min_size=1))
@example({"participants": 2**62, "degree": 2**62 - 1})
@example({"participants": 2**62, "minimum_survivors": 2**62, "margin": 0})
def test_any_numbers(changes):
    refused_or_the_same(cbor2.dumps(FIELDS | changes, canonical=True))


@pytest.mark.slow
@settings(max_examples=examples(25, 600))
@given(*[st.tuples(st.integers(1, 2**256 - 1), st.integers(1, 2**256 - 1))] * 2)
def test_any_budget_and_noise(rho, variance):
    changes = {"rho": list(rho), "variance": list(variance)}
    refused_or_the_same(cbor2.dumps(FIELDS | changes, canonical=True))


@pytest.mark.slow
@settings(max_examples=examples(40, 1000))
@given(st.sampled_from(["study", "strategy"]), EDITS)
def test_edited_study_or_strategy_inside_a_plan(part, edits):
    inner = edited(FIELDS[part], edits)
    refused_or_the_same(cbor2.dumps(FIELDS | {part: inner}, canonical=True))


@pytest.mark.slow
@settings(max_examples=examples(25, 600))
@given(st.data())
def test_any_value_inside_the_strategy(data):
    """The strategy's own fields, down to the packed arrays, replaced one at a time."""
    document = cbor2.loads(FIELDS["strategy"])
    here = document
    while isinstance(here, list) and here:
        at = data.draw(st.integers(0, len(here) - 1))
        if not isinstance(here[at], list) or data.draw(st.booleans()):
            here[at] = data.draw(VALUES)
            break
        here = here[at]
    strategy = cbor2.dumps(document, canonical=True)
    refused_or_the_same(cbor2.dumps(FIELDS | {"strategy": strategy}, canonical=True))
