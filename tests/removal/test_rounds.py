"""Rounds in which excess noise is removed: exactly, by whoever says it, and through restarts."""

from __future__ import annotations

import os
from fractions import Fraction
from hashlib import sha256

import numpy as np
import pytest
from scipy.stats import chi2

from dhdmm import Study
from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.method import PublishedSum, Reply, ThreatModel
from dhdmm.aggregation.wrapping import attach, detach
from dhdmm.cohort.people import Enrolled
from dhdmm.errors import StudyError
from dhdmm.planning.draft import plan
from dhdmm.privacy.keystream import KeyStream
from dhdmm.privacy.removable import SEED_BYTES
from dhdmm.removal.account import Account
from dhdmm.removal.coordinator import REMOVED
from dhdmm.runner import enrol, run_round
from dhdmm.simulation.simulate import simulate
from dhdmm.study.histogram import Histogram
from tests.protocol.network import Stream
from tests.removal.rounds import RemovingTable
from tests.validation.rounds import LENGTH, MODULUS

LAST = "collecting-reveals"
BOTH = pytest.mark.parametrize("threat_model", [ThreatModel.SEMI_HONEST, ThreatModel.MALICIOUS])
STUDY = """
study: answers
schema: {{answer: {{type: integer, range: [0, 299]}}}}
workload: [{{name: answers, by: [answer]}}]
privacy: {{unit: record, rho: 0.125, corrupt_fraction: 0.1}}
aggregation:
  {{participants: 10, max_dropout: 0.3, max_records_per_participant: 100,
    threat_model: {threat_model}, excess_noise: remove, validation: {validation}}}
"""


def study(threat_model: str = "malicious", validation: str = "none") -> Study:
    return Study.from_text(STUDY.format(threat_model=threat_model, validation=validation))


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("level", ["none", "sum", "bounded"])
@pytest.mark.parametrize("gone", [0, 1, 3])
def test_the_sum_has_the_noise_that_is_needed_and_no_other(threat_model, level, gone) -> None:
    table = RemovingTable(level, threat_model, silent=set(range(gone)))
    table.play()
    survivors = range(gone, 10)
    assert table.sum == table.expected(survivors)
    assert table.coordinator.result.unremoved == ()
    assert bool(table.round.removed(10 - gone)) == (gone < 3)
    published = PublishedSum(table.coordinator.survivors, table.sum, table.coordinator.account)
    assert table.method.check_account(table.round, table.roster, published).unremoved == ()


@BOTH
def test_who_stays_away_at_the_end_leaves_its_excess_in_the_sum(threat_model) -> None:
    table = RemovingTable(threat_model=threat_model)
    table.play(until=LAST)
    table.silent = {2, 5}
    table.exchange(lambda i: table.answer(i, lambda _i, said: said))
    assert table.coordinator.result.unremoved == (2, 5)
    assert table.sum == table.expected(range(10), unremoved=(2, 5))


def test_who_sends_no_seeds_leaves_its_excess_in_the_sum() -> None:
    table = RemovingTable().play(until=LAST)
    table.exchange(
        lambda i: (
            attach(b"", detach(table.answer(i, _same))[1]) if i == 4 else table.answer(i, _same)
        )
    )
    assert table.coordinator.result.unremoved == (4,)
    assert table.sum == table.expected(range(10), unremoved=(4,))


def _same(_i: int, said: bytes) -> bytes:
    return said


@pytest.mark.parametrize("size", [1, SEED_BYTES, 4 * SEED_BYTES, 6 * SEED_BYTES])
def test_seeds_of_another_number_are_refused(size) -> None:
    table = RemovingTable().play(until=LAST)
    assert len(table.round.removed(10)) == table.round.noise.parts == 5
    said = table.answer(0, _same)
    with pytest.raises(RemoteProtocolError, match="160 are due"):
        table.coordinator.receive(0, attach(bytes(size), detach(said)[1]))
    assert REMOVED + "0" not in table.store
    assert table.coordinator.receive(0, said) is Reply.ACCEPTED
    assert table.coordinator.receive(0, said) is Reply.REPEATED
    with pytest.raises(RemoteProtocolError, match="conflicting"):
        table.coordinator.receive(0, attach(bytes(160), detach(said)[1]))


def test_seeds_before_the_end_are_refused() -> None:
    table = RemovingTable()
    with pytest.raises(RemoteProtocolError, match="nobody asked"):
        table.coordinator.receive(0, attach(bytes(160), detach(table.machines[0].begin())[1]))
    table = RemovingTable().play(until="collecting-acks")
    with pytest.raises(RemoteProtocolError, match="nobody asked"):
        table.coordinator.receive(0, attach(bytes(160), detach(table.answer(0, _same))[1]))


def test_a_departure_with_seeds_removes_nothing() -> None:
    """It is in no transcript: whoever replays the round would find another sum."""
    table = RemovingTable().play(until=LAST)
    leaving = RemovingTable(journals={}, store={}).machines[0]
    leaving.begin()
    said = detach(leaving.abort(AbortReason.STOPPED))[1]
    assert table.coordinator.receive(0, attach(bytes(160), said)) is Reply.ACCEPTED
    assert REMOVED + "0" not in table.store


def test_false_seeds_move_the_sum_by_what_they_expand_to() -> None:
    """A liar may as well have handed in another vector: what it gains is bounded by the lengths."""
    table = RemovingTable().play(until=LAST)
    false = b"".join(sha256(b"false %d" % part).digest() for part in range(5))
    table.exchange(
        lambda i: (
            attach(false, detach(table.answer(i, _same))[1]) if i == 7 else table.answer(i, _same)
        )
    )
    moved = np.array(table.sum) - table.expected(range(10))
    parts = tuple(range(5))
    expanded = MODULUS.signed(table.round.expanded(parts, false))
    assert moved.tolist() == (table.expanded(7, parts) - expanded).tolist()
    assert np.abs(moved).max() > 0
    longest = float(table.round.noise.most_removed) * (LENGTH + 2 * (LENGTH * 55.5) ** 0.5 + 111)
    assert (expanded.astype(float) ** 2).sum() <= longest


@BOTH
def test_coordinators_that_share_a_round_or_restart_find_the_same(threat_model) -> None:
    table = RemovingTable(threat_model=threat_model, silent={3})
    table.play(until=LAST)
    other = table.method.coordinator(table.round, table.roster, os.urandom, table.store, "other")
    invited = sorted(table.coordinator.invited - table.silent)
    for turn, i in enumerate(invited):
        known = dict(table.store)
        said = table.answer(i, _same)
        one, two = (table.coordinator, other) if turn % 2 else (other, table.coordinator)
        one.receive(i, said)
        two.follow([(k, v) for k, v in table.store.items() if known.get(k) != v])
    table.coordinator.flush()
    other.flush()
    known = dict(table.store)
    other.close_phase()
    table.coordinator.follow([(k, v) for k, v in table.store.items() if known.get(k) != v])
    again = table.method.coordinator(table.round, table.roster, os.urandom, table.store)
    expected = table.expected([i for i in range(10) if i != 3])
    for machine in (table.coordinator, other, again):
        assert MODULUS.signed(machine.result.total).tolist() == expected
        assert machine.account == other.account


@pytest.mark.slow
@BOTH
def test_a_simulated_round_adds_up_with_the_noise_that_is_left(threat_model) -> None:
    asked = study(threat_model.value)
    for dropout in (0.0, {"collecting-inputs": 0.1, "collecting-reveals": 0.2}):
        found = simulate(asked, dropout=dropout, engine="local")
        assert found.sum_correct
        assert found.release.unremoved == (0 if dropout == 0.0 else 2)


FALSE_ALARM = 1e-6
"""Of each of the two tests below; seeds are fixed, so a test that passes goes on passing."""


@pytest.mark.parametrize(("gone", "level"), [(0, 0), (2, 18)])
def test_released_noise_has_the_variance_that_is_stated(monkeypatch, gone, level) -> None:
    monkeypatch.setattr(Enrolled, "randomness", lambda _, i: Stream("variance", gone, i))
    drawn = lambda _, i: KeyStream.from_key_for_tests(sha256(b"%d %d" % (gone, i)).digest())  # noqa: E731
    monkeypatch.setattr(Enrolled, "noise", drawn)
    made = plan(study())
    nobody = [Histogram(np.zeros((0, 1), np.int64), np.zeros(0, np.int64)) for _ in range(10)]
    release = run_round(enrol(made), nobody, dropout=gone / 10, workers=1).release
    assert made.removable.level(release.survivors) == level
    stated = made.noise_variance(release.survivors)
    assert stated == (10 - gone) * made.removable.kept(level)
    squares = float((release.measurement.astype(float) ** 2).sum() / stated)
    rows = len(release.measurement)
    assert chi2.ppf(FALSE_ALARM / 2, rows) < squares < chi2.isf(FALSE_ALARM / 2, rows)
    kept = float((10 - gone) * made.participant_variance / stated)
    if gone == 0:  # and by far not the variance of all that was added
        assert squares / kept < chi2.ppf(FALSE_ALARM / 2, rows)
    assert np.isclose(release.measurement_variance, float(stated))


def test_an_account_has_one_encoding() -> None:
    table = RemovingTable().play()
    account = Account.decode(table.coordinator.account)
    assert len(account.removed) == 10
    for damaged in (b"", table.coordinator.account + b"\0", b"\xa0", b"\x80"):
        with pytest.raises(RemoteProtocolError, match="not an account of removed noise"):
            Account.decode(damaged)


def test_two_servers_cannot_remove() -> None:
    with pytest.raises(StudyError, match="one message") as error:
        study("two-servers")
    assert "excess_noise" in str(error.value)


def test_largest_message_has_room_for_seeds() -> None:
    table = RemovingTable()
    below = table.method.below.largest_message(table.round.below)
    assert table.method.largest_message(table.round) == below + 1 + 5 * SEED_BYTES
    assert Fraction(10_000) == table.round.noise.variance
