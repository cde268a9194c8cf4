"""Attacks that succeed against the published algorithm, and what becomes of them here.

Each comes as a pair: the same adversary against the model of the paper and against dhdmm. What is
statistical is seeded and raises a false alarm with probability below 10⁻⁴ (audit.FALSE_ALARM).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from hashlib import sha256

import numpy as np
import pytest

from dhdmm.cohort.members import permissive, pinned
from dhdmm.errors import StrategyError
from dhdmm.participant.policy import PolicyReason, PolicyRefusal, review
from dhdmm.planning.draft import draft
from dhdmm.planning.draft import plan as make_plan
from dhdmm.planning.plan import Plan
from dhdmm.privacy.keystream import KeyStream
from dhdmm.release.decode import decode
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.spec import Study
from tests.planning.studies import records, with_triangle
from tests.privacy.audit import ALARM, audit, in_bulk, views
from tests.privacy.paper_model import PaperProtocol
from tests.protocol.network import roster_of

CELLS = 6
STUDY = """
study: attacked
schema: {value: {type: integer, range: [0, 5]}}
workload: [{name: prefixes, ranges: {of: value, kind: prefix}}]
privacy: {unit: record, rho: 0.5, corrupt_fraction: 0.1}
aggregation:
  {threat_model: semi-honest, participants: 20, max_dropout: 0.2, max_records_per_participant: 2}
"""


def key_stream(*seed: object) -> KeyStream:
    return KeyStream.from_key_for_tests(sha256(repr(seed).encode()).digest())


@cache
def planned() -> Plan:
    return make_plan(Study.from_text(STUDY), roster=roster_of(20))


def one_hot(cell: int) -> np.ndarray:
    return np.eye(CELLS)[cell]


def ours(plan: Plan, rounds: int):
    """The verdict on one record more or less, with dropouts at the limit and all corrupt known."""
    stream = key_stream("ours")
    one, zero = (
        views(plan, in_bulk(plan), victim, records(1), rounds, stream)
        for victim in (records(0, 3), records(3))
    )
    return audit(one, zero, float(plan.rho), plan.promise.epsilon, plan.promise.delta)


def theirs(protocol: PaperProtocol, honest_survivors: int, rounds: int):
    """The same against the paper: noise of corrupt clients is removed, dropouts are not there."""
    A, stream = np.vstack([np.eye(CELLS), np.ones(CELLS)]), key_stream("theirs")

    def view(victim: np.ndarray) -> np.ndarray:
        total = protocol.encode(A, victim, rounds, stream)
        for _ in range(honest_survivors - 1):
            total += protocol.encode(A, one_hot(1), rounds, stream)
        return (protocol.decode(total) * protocol.gamma).round().astype(np.int64)

    one, zero = view(one_hot(0) + one_hot(3)), view(one_hot(3))
    return audit(one, zero, protocol.rho, np.inf, 1e-6)


# ---- tiny negative entries ----------------------------------------------------------------------


@pytest.mark.fault(32)
def test_paper_tiny_negative_entries_read_exact_counts():
    """−10⁻⁹·predicate has no sensitivity to speak of, so no noise; its floor is −1 a record."""
    dice = np.random.default_rng(1)
    protocol = PaperProtocol(clients=100, rho=0.1, theta=0.1)
    hostile = -1e-9 * np.eye(CELLS)
    stream, cells = key_stream("tiny"), dice.integers(CELLS, size=100)
    total = sum(protocol.encode(hostile, one_hot(cell), 1, stream) for cell in cells)
    read_off = -protocol.decode(total)[0] * protocol.gamma
    assert read_off.tolist() == np.bincount(cells, minlength=CELLS).tolist()


def hostile_plan(**changes: object) -> Plan:
    """The smallest entries an integer strategy can have: −1 where a predicate holds."""
    strategy = with_triangle(planned().strategy, -np.eye(CELLS, dtype=np.int64))
    return replace(planned(), strategy=strategy, **changes)


@pytest.mark.fault(32)
def test_tiny_negative_entries_cannot_be_written_down():
    encoded = with_triangle(planned().strategy, -1e-9 * np.eye(CELLS)).to_bytes()
    with pytest.raises(StrategyError, match="singular"):  # what is left of them is zero
        Strategy.from_bytes(encoded)


@pytest.mark.fault(30)
def test_smallest_entries_with_little_noise_are_refused():
    plan = hostile_plan(participant_variance=Fraction(9))
    variance = Fraction(1) / (2 * plan.rho * plan.honest_floor)
    policy = pinned(permissive(planned()), roster_of(20))
    assert variance < 9  # what −1 entries would be given by the formula alone
    with pytest.raises(PolicyRefusal) as refusal:
        review(hostile_plan(participant_variance=variance).to_bytes(), policy, roster_of(20))
    assert refusal.value.reason is PolicyReason.NOISE_TOO_SMALL


def test_smallest_entries_reveal_no_more_than_the_budget():
    """A planner scales them up until every participant has σ ≥ 3 of noise."""
    plan = draft(planned().study, hostile_plan().strategy).plan(20, roster_of(20).digest)
    verdict = ours(plan, 50_000)
    assert not verdict.violations
    assert verdict.rho > 0.9 * float(plan.rho)


# ---- θ in the prose, dropout --------------------------------------------------------------------


def test_paper_prose_variance_breaks_the_claim_elevenfold():
    """ρ is off by 1/(θ(1−θ)) = 11.1: 5.6 where 0.5 is claimed."""
    protocol = PaperProtocol(clients=20, rho=0.5, theta=0.1, gamma=100, prose=True)
    verdict = theirs(protocol, honest_survivors=18, rounds=20_000)
    assert verdict.violations
    assert verdict.rho == pytest.approx(0.5 / (0.1 * 0.9), rel=0.05)


@pytest.mark.slow
def test_paper_algorithm_without_dropouts_keeps_its_claim():
    """The control: the audit does not cry wolf at the variance of the algorithm."""
    protocol = PaperProtocol(clients=20, rho=0.5, theta=0.1, gamma=100)
    assert not theirs(protocol, honest_survivors=18, rounds=50_000).violations


def test_paper_dropouts_break_the_claim():
    """ρ grows by (1−θ)/(1−θ−δ) = 9/7: 0.643 where 0.5 is claimed."""
    protocol = PaperProtocol(clients=20, rho=0.5, theta=0.1, gamma=100)
    verdict = theirs(protocol, honest_survivors=14, rounds=50_000)
    assert verdict.violations == {"rho"}
    assert verdict.rho == pytest.approx(0.643, rel=0.05)


def test_dropouts_and_collusion_at_the_limit_stay_within_the_budget():
    assert planned().parameters.minimum_survivors == 16
    assert planned().parameters.corrupt == 2
    verdict = ours(planned(), 50_000)
    assert not verdict.violations
    assert verdict.rho > 0.9 * float(planned().rho)  # the audit would have seen more


# ---- bias of the floor --------------------------------------------------------------------------

PEOPLE = 2000


def people(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(CELLS, size=PEOPLE)


def test_paper_floor_biases_every_measurement():
    """About n/2γ a coordinate with one record a client, many times the noise."""
    protocol = PaperProtocol(clients=PEOPLE, rho=0.5, theta=0.1, gamma=10.0)
    A = np.random.default_rng(2).uniform(0.1, 0.9, size=(200, CELLS))
    counts = np.bincount(people(3), minlength=CELLS)
    stream = key_stream("floor")
    total = sum(
        protocol.encode(A, one_hot(cell), 1, stream)[0]
        for cell, n in enumerate(counts)
        for _ in range(n)
    )
    error = protocol.decode(total) - A @ counts
    noise = np.sqrt(PEOPLE * protocol.variance(A)) / protocol.gamma
    assert error.mean() == pytest.approx(-PEOPLE / (2 * protocol.gamma), rel=0.1)
    assert abs(error.mean()) > 10 * noise


def test_integer_strategy_has_no_bias():
    plan, rounds, stream = planned(), 4000, key_stream("no floor")
    tables = people(4)[:40].reshape(20, 2)
    contribute = in_bulk(plan)
    total = np.zeros((rounds, plan.strategy.rows), plan.modulus.dtype)
    for table in tables:
        plan.modulus.add(total, contribute(records(*table), rounds, stream))
    error = decode(plan, total) - plan.strategy.measure(records(*tables.ravel()))
    standard_error = np.sqrt(20 * float(plan.participant_variance) / rounds)
    assert np.abs(error.mean(axis=0)).max() < (ALARM + 1) * standard_error
