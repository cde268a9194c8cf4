"""Rounds with commitments and proofs: sums as before, restarts, and what a transcript shows."""

from __future__ import annotations

import pytest

from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.method import Reply, ThreatModel, input_phase
from dhdmm.aggregation.wrapping import attach, detach
from dhdmm.secagg.parameters import MODELS
from tests.validation.rounds import BOUND, LENGTH, MODULUS, Table

LEVELS = ["sum", "bounded"]
INPUTS = "collecting-inputs"


@pytest.mark.parametrize("threat_model", MODELS)
@pytest.mark.parametrize("level", ["none", *LEVELS])
def test_the_sum_is_that_of_the_survivors_at_every_level(
    level: str, threat_model: ThreatModel
) -> None:
    """Exactly: so a release has the noise that it had without validation, and no other."""
    table = Table(level, threat_model)
    table.silent.add(2)  # it never comes
    table.play()
    assert table.sum == table.total([0, 1, 3, 4, 5])


@pytest.mark.parametrize("threat_model", MODELS)
def test_a_reader_is_told_what_is_shown(threat_model: ThreatModel) -> None:
    holds = Table("bounded", threat_model).play().checked()
    assert holds == [
        "the sum is the one that 6 survivors signed commitments to",
        "the commitments were settled before the sum was known: 6 survivors signed its list, 4 are"
        " needed",
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_a_participant_that_restarts_after_every_message_says_the_same(level: str) -> None:
    """Its proof is made once: what it sent is sent again to the byte."""
    table, said = Table(level), list[bytes]()

    def restarted(i: int, message: bytes) -> bytes:
        again = table.machine(i)
        assert again.outgoing == message
        assert again.input_is_outgoing
        table.machines[i] = again
        said.append(message)
        return message

    table.play(restarted)
    assert table.sum == table.total()
    assert len(said) == 6


def test_a_participant_that_restarts_remembers_which_list_it_accepted() -> None:
    table = Table().play(until="collecting-acks")
    for i in range(6):
        message = table.coordinator.message_for(i)
        acked = table.machines[i].receive(message)
        again = table.machine(i)
        assert again.outgoing == acked
        table.machines[i] = again
        table.coordinator.receive(i, acked)
    table.coordinator.close_phase()
    table.exchange(lambda i: table.machines[i].receive(table.coordinator.message_for(i)))
    assert table.sum == table.total()


def test_a_second_list_is_refused_with_the_same_survivors() -> None:
    table = Table().play(until="collecting-acks")
    message = table.coordinator.message_for(0)
    root, said = detach(message)
    table.machines[0].receive(message)
    table.machines[0].receive(attach(bytes(32), said))
    assert table.machines[0].abort_reason is AbortReason.SECOND_BITMAP
    again = table.machine(1)
    again.receive(attach(root, detach(table.coordinator.message_for(1))[1]))
    restarted = table.machine(1)
    restarted.receive(attach(bytes(32), detach(table.coordinator.message_for(1))[1]))
    assert restarted.abort_reason is AbortReason.SECOND_BITMAP


def test_participants_that_were_told_different_lists_do_not_unmask() -> None:
    """Acks are of the list, too: nobody accepts those of somebody with another list."""
    table = Table().play(until="collecting-acks")

    def told(i: int) -> bytes | None:
        root, said = detach(table.coordinator.message_for(i))
        answer = table.machines[i].receive(attach(root if i < 3 else bytes(32), said))
        return attach(b"", detach(answer)[1])  # the coordinator hides the signatures from itself

    table.exchange(told)
    for i in range(6):
        table.machines[i].receive(table.coordinator.message_for(i))
        assert table.machines[i].abort_reason in (
            AbortReason.TOO_FEW_ACKS,
            AbortReason.SECOND_BITMAP,
        )


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("threat_model", MODELS)
def test_a_coordinator_that_restarts_after_every_message_comes_to_the_same_sum(
    threat_model: ThreatModel, level: str
) -> None:
    table = Table(level, threat_model)
    table.exchange(lambda i: table.machines[i].begin())
    while table.coordinator.state != "finished":
        said = [(i, table.answer(i, lambda _i, m: m)) for i in sorted(table.coordinator.invited)]
        for i, message in said:
            assert table.coordinator.receive(i, message) is Reply.ACCEPTED
            table.coordinator.flush()
            restart(table)
            assert table.coordinator.receive(i, message) is Reply.REPEATED
        table.coordinator.close_phase()
        restart(table)
    assert table.sum == table.total()
    assert len(table.checked()) == (2 if level == "bounded" else 1)


def restart(table: Table) -> None:
    vars(table).pop("coordinator")


def test_an_honest_input_that_is_too_long_for_a_proof_ends_the_participation() -> None:
    """Once in 2⁸⁰ times. It is told as any stop is, and nothing of the input leaves."""
    table = Table()
    table.vectors[3] = BOUND
    table.play()
    assert table.machines[3].abort_reason is AbortReason.STOPPED
    assert table.coordinator.departed == {3: AbortReason.STOPPED}
    assert table.sum == table.total([0, 1, 2, 4, 5])


def test_an_input_again_with_another_attachment_conflicts() -> None:
    table, sent = Table(), dict[int, bytes]()

    def keep(i: int, message: bytes) -> bytes:
        sent[i] = message
        return message

    table.exchange(lambda i: table.machines[i].begin())
    while input_phase(table.method).name != table.coordinator.state:
        table.exchange(lambda i: table.answer(i, keep))
    message = table.answer(0, keep)
    assert table.coordinator.receive(0, message) is Reply.ACCEPTED
    attached, inner = detach(message)
    changed = attach(attached[:-1] + bytes([attached[-1] ^ 1]), inner)
    with pytest.raises(RemoteProtocolError, match="conflicting"):
        table.coordinator.receive(0, changed)
    assert table.method.was_received(table.store.get, message, 0)


def test_inputs_without_an_attachment_are_refused() -> None:
    table = Table().play(lambda i, said: attach(b"", detach(said)[1]) if i == 4 else said)
    assert "without a signed commitment" in table.refused[4]
    assert table.sum == table.total([0, 1, 2, 3, 5])


def test_without_proofs_no_list_is_agreed_on() -> None:
    """It would bind nobody, since a survivor that colludes may commit to what it likes."""
    table = Table("sum").play(until="collecting-acks")
    message = table.coordinator.message_for(0)
    assert detach(message)[0] == b""
    acked = table.machines[0].receive(message)
    assert detach(acked)[0] == b""
    with pytest.raises(RemoteProtocolError, match="nothing is agreed on"):
        table.coordinator.receive(0, attach(bytes(64), detach(acked)[1]))
    with pytest.raises(RemoteProtocolError, match="not a root"):
        table.machines[1].receive(attach(bytes(32), detach(table.coordinator.message_for(1))[1]))


@pytest.mark.parametrize("length", [0, 1, 254, 255, 70_000])
def test_attachments_come_off_as_they_were_put_on(length: int) -> None:
    assert detach(attach(b"a" * length, b"said")) == (b"a" * length, b"said")


@pytest.mark.parametrize(
    "data", [b"", b"\x02a", b"\xff", b"\xff\0\0\0\xfe" + bytes(254), b"\xff\xff\xff\xff\xffaa"]
)
def test_an_attachment_has_one_spelling(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="of another length"):
        detach(data)


def test_what_is_more_is_a_signed_commitment_a_blinding_and_a_byte() -> None:
    none, sums = Table("none"), Table("sum")
    assert sums.round.length == none.round.length == LENGTH
    assert sums.round.input_bytes == none.round.input_bytes + 48 + 64 + 32 + 1


def test_the_number_beside_an_input_is_its_blinding_and_no_other() -> None:
    table = Table("sum").play(until=INPUTS)
    table.machines[0].receive(table.coordinator.message_for(0))
    with pytest.raises(LocalProtocolError, match="its blinding"):
        table.machines[0].give_input(MODULUS.residues(table.vectors[0]), 1)
    assert table.coordinator.result is None
