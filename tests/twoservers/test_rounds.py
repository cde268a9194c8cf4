"""Whole rounds with two servers, as machines: sums, dropouts, repetitions, restarts."""

from __future__ import annotations

from functools import partial

import pytest

from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.aggregation.method import ABORTED, FINISHED, Reply
from dhdmm.aggregation.modulus import SumRange
from dhdmm.twoservers import leader as leader_module
from dhdmm.twoservers import messages as m
from dhdmm.twoservers.sealing import Sealing
from tests.twoservers.parties import RANGES, Parties


@pytest.mark.parametrize("sealing", list(Sealing))
@pytest.mark.parametrize("there", [[0, 1, 2, 3, 4, 5], [0, 1, 2, 4, 5]])
@pytest.mark.parametrize("ranges", [(), RANGES])
def test_the_sum_is_that_of_those_who_reported(
    sealing: Sealing, there: list[int], ranges: tuple[SumRange, ...]
) -> None:
    parties = Parties(sealing=sealing, ranges=ranges)
    parties.take(*there)
    parties.finish()
    assert parties.leader.state == FINISHED.name
    assert parties.leader.result.survivors.members() == tuple(there)
    assert parties.leader.result.total.tolist() == parties.total(there)


def test_too_few_reports_end_the_round() -> None:
    parties = Parties()
    parties.take(0, 1, 2, 3)
    parties.finish()
    assert parties.leader.state == ABORTED.name
    assert parties.leader.abort_reason is AbortReason.TOO_FEW_PARTICIPANTS
    assert not parties.helper.answered


def test_a_participant_that_seals_rubbish_is_left_out_and_stops_nobody() -> None:
    parties = Parties()
    parties.take(0, 1, 2, 3, 4)
    machine = parties.participant(5)
    machine.receive(parties.key(5))
    machine._key.seal = lambda seed, info: bytes(80)
    assert parties.leader.receive(5, machine.give_input(parties.inputs[5])) is Reply.WAITING
    parties.finish()
    assert parties.leader.result.survivors.members() == (0, 1, 2, 3, 4)
    assert parties.leader.result.total.tolist() == parties.total([0, 1, 2, 3, 4])


def test_the_same_report_again_is_repeated_and_another_is_refused() -> None:
    parties = Parties()
    first = parties.report(0)
    assert parties.leader.receive(0, first) is Reply.WAITING
    assert parties.leader.receive(0, first) is Reply.REPEATED
    with pytest.raises(RemoteProtocolError) as refused:
        parties.leader.receive(0, parties.report(0))
    assert refused.value.reason is AbortReason.CONFLICTING_MESSAGE
    parties.take(1, 2, 3, 4, 5)
    parties.finish()
    assert parties.leader.receive(0, first) is Reply.REPEATED


def test_a_restarted_participant_sends_the_same_bytes_again() -> None:
    parties, journal = Parties(), MemoryJournal()
    machine = parties.participant(2, journal)
    machine.receive(parties.key(2))
    sent = machine.give_input(parties.inputs[2])
    again = parties.participant(2, journal)
    assert again.outgoing == sent
    assert again.input_is_outgoing
    assert again.receive(parties.key(2)) == sent


def test_a_key_that_the_helper_did_not_sign_is_not_sealed_to() -> None:
    parties, machine = Parties(), None
    key = m.decode(parties.key(1))
    other = Parties("somebody else")
    forged = m.HelperKey(key.session, 1, m.decode(other.key(1)).key, key.signature)
    machine = parties.participant(1)
    with pytest.raises(RemoteProtocolError) as refused:
        machine.receive(forged.encode())
    assert refused.value.reason is AbortReason.BAD_SIGNATURE
    assert not machine.ready_for_input


def test_reports_are_settled_in_batches_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_module, "LARGEST_BATCH", 2)
    parties = Parties()
    for position in range(6):
        parties.take(position)
        parties.consult()
        left = [name for name in parties.store if name.startswith(leader_module.PENDING)]
        assert len(left) == (position + 1) % 2
        assert parties.helper.accepted == position + 1 - len(left)
    parties.finish()
    assert parties.leader.result.total.tolist() == parties.total([0, 1, 2, 3, 4, 5])


@pytest.mark.parametrize("after", range(9))
@pytest.mark.parametrize("who", ["leader", "helper", "both"])
def test_either_server_restarted_anywhere_gives_the_same_sum(
    monkeypatch: pytest.MonkeyPatch, after: int, who: str
) -> None:
    """An answer that the leader did not hear is asked for again."""
    monkeypatch.setattr(leader_module, "LARGEST_BATCH", 2)
    parties = Parties()
    steps = 0
    reports = [parties.report(i) for i in range(6)]

    def step() -> None:
        nonlocal steps
        request = parties.leader.to_helper()
        if request is None:
            return
        answer = parties.helper.answer(request)
        if steps == after:
            parties.leader.flush()
            if who != "leader":
                parties.helper = parties.restarted_helper()
            if who != "helper":
                parties.leader = parties.restarted_leader()
        else:
            parties.leader.from_helper(request, answer)
        steps += 1

    for position, report in enumerate(reports):
        parties.leader.receive(position, report)
        step()
    parties.leader.close_phase()
    while parties.leader.waits_for_helper:
        step()
    parties.leader.close_phase()
    assert parties.leader.result.total.tolist() == parties.total([0, 1, 2, 3, 4, 5])


def test_leaders_that_take_turns_give_the_same_sum_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any of them settles what any has taken; each adds to a shard of its own."""
    monkeypatch.setattr(leader_module, "LARGEST_BATCH", 2)
    parties = Parties()
    reports = [parties.report(i) for i in range(6)]
    workers = [
        leader_module.Leader(parties.round, parties.roster, parties.random, parties.store, name)
        for name in ("one", "other")
    ]

    def turn(number: int, act) -> None:
        parties.leader = workers[number]
        before = dict(parties.store)
        act()
        parties.leader.flush()
        changed = [(k, v) for k, v in parties.store.items() if before.get(k) != v]
        workers[1 - number].follow(changed)

    for position, report in enumerate(reports):
        turn(position % 2, partial(workers[position % 2].receive, position, report))
        turn((position // 2) % 2, parties.consult)
    turn(0, parties.leader.close_phase)
    turn(1, parties.consult)
    turn(0, lambda: workers[0].close_phase())
    assert [name for name in parties.store if name.startswith("sum/")] == ["sum/one", "sum/other"]
    for worker in workers:
        assert worker.result.total.tolist() == parties.total([0, 1, 2, 3, 4, 5])
