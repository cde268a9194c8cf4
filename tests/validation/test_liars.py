"""Participants and coordinators that lie in a round, and the same lies where nothing is checked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.wrapping import attach, detach
from dhdmm.secagg import messages as m
from dhdmm.validated.account import Account
from dhdmm.validated.attachments import (
    SignedCommitment,
    attached_to_input,
    proof_context,
    read_input,
)
from dhdmm.validation.commitment import commit, draw_blinding
from dhdmm.validation.group import ORDER, decode_point, encode_point
from dhdmm.validation.proving import prove
from tests.secagg.seeded import seeded
from tests.validation.claims import forged, squares_modulo_q
from tests.validation.rounds import BOUND, LENGTH, MODULUS, Table

LIAR = 4
HONEST = [0, 1, 2, 3, 5]
FAR = MODULUS.value // 16


def lying(table: Table, vector: list[int]) -> Table:
    """The liar hands this to the machine below, whatever it commits to."""
    below = table.machines[LIAR].below
    give = below.give_input

    def other(_: np.ndarray, blinding: int) -> bytes:
        return give(MODULUS.residues(np.array(vector)), blinding)

    below.give_input = other
    return table


def signed_again(table: Table, said: bytes, commitment: bytes, proof: bytes) -> bytes:
    """The liar's input with another commitment and proof, which it signs."""
    message = detach(said)[1]
    signed = SignedCommitment.make(
        table.identities[LIAR], table.round.session, LIAR, commitment, proof, message
    )
    return attach(attached_to_input(signed, proof), message)


# Participants


@pytest.mark.fault(20)
def test_without_validation_one_liar_moves_the_sum_as_far_as_the_modulus_reaches() -> None:
    table = Table("none")
    table.vectors[LIAR] = FAR
    assert table.play().sum == (np.array(table.total(HONEST)) + FAR).tolist()


def test_with_sums_checked_a_liar_commits_to_its_lie() -> None:
    table = Table("sum")
    table.vectors[LIAR] = FAR
    assert table.play().sum == table.total()
    assert table.checked() == ["the sum is the one that 6 survivors signed commitments to"]


@pytest.mark.fault(20)
def test_a_masked_vector_unlike_the_committed_one_ends_the_round() -> None:
    for level in ("sum", "bounded"):
        table = lying(Table(level), [FAR] * LENGTH).play()
        assert table.coordinator.abort_reason is AbortReason.SUM_MISMATCH
        assert table.sum is None
        assert table.coordinator.account is None
        vars(table).pop("coordinator")  # nor after a restart
        assert table.coordinator.abort_reason is AbortReason.SUM_MISMATCH
        assert table.sum is None


def test_a_masked_blinding_unlike_the_committed_one_ends_the_round() -> None:
    table = Table()
    below = table.machines[LIAR].below
    give = below.give_input
    below.give_input = lambda vector, blinding: give(vector, (blinding + 1) % ORDER)
    assert table.play().coordinator.abort_reason is AbortReason.SUM_MISMATCH


@pytest.mark.parametrize("level", ["sum", "bounded"])
def test_a_blinding_that_is_not_reduced_is_refused(level: str) -> None:
    """It would be a second spelling of the same input."""
    table = Table(level)

    def spell(i: int, said: bytes) -> bytes:
        if i != LIAR:
            return said
        attached, inner = detach(said)
        message = m.decode(inner)
        number = int.from_bytes(message.vector[-32:], "little") % (2**256 - ORDER) + ORDER
        vector = message.vector[:-32] + number.to_bytes(32, "little")
        signed, proof = read_input(attached, inner)
        inner = replace(message, vector=vector).encode()
        return signed_again(table, attach(b"", inner), signed.commitment, proof)

    table.play(spell)
    assert table.refused == {LIAR: "malformed: a number that is not reduced"}
    assert table.sum == table.total(HONEST)


@pytest.mark.fault(20)
def test_a_long_vector_with_a_forged_proof_is_not_counted_and_the_round_goes_on() -> None:
    table, long = Table(), [FAR] * LENGTH
    context = proof_context(table.round.session, LIAR, table.identities[LIAR].public)
    w = squares_modulo_q(BOUND**2 - LENGTH * FAR**2)
    claim = forged(long, w, statement=table.round.statement, context=context)

    def lie(i: int, said: bytes) -> bytes:
        return signed_again(table, said, claim.commitment, claim.proof) if i == LIAR else said

    table.play(lie)
    assert table.refused == {
        LIAR: "bad-input: the projections are not those of the committed vector"
    }
    assert table.sum == table.total(HONEST)
    assert "the input of participant 5 was refused: the projections" in table.checked()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("stolen_from", ["another participant", "another round"])
def test_somebody_elses_commitment_and_proof_are_refused(stolen_from: str) -> None:
    table, sent = Table(), dict[int, bytes]()
    if stolen_from == "another round":
        other = Table(round_id=b"another round id")
        other.play(lambda i, said: sent.setdefault(i, said))

    def steal(i: int, said: bytes) -> bytes:
        sent.setdefault(i, said)
        if i != LIAR:
            return said
        attached, message = detach(sent[LIAR if stolen_from == "another round" else 0])
        signed, proof = read_input(attached, message)
        return signed_again(table, said, signed.commitment, proof)

    table.play(steal)
    assert table.refused[LIAR].startswith("bad-input")
    assert table.sum == table.total(HONEST)


def test_an_attachment_that_its_sender_has_not_signed_is_refused() -> None:
    table, sent = Table(), dict[int, bytes]()

    def reuse(i: int, said: bytes) -> bytes:
        sent[i] = said
        return attach(detach(sent[0])[0], detach(said)[1]) if i == LIAR else said

    table.play(reuse)
    assert table.refused[LIAR].startswith("bad-signature")
    assert table.sum == table.total(HONEST)


def rogue(table: Table, wanted: list[int], blinding: int, sent: dict[int, bytes]) -> bytes:
    """Com(Y*; R*) − Σ of the others' commitments."""
    others = [decode_point(read_input(*detach(sent[i]))[0].commitment) for i in HONEST]
    point = commit(wanted, blinding)
    for other in others:
        point = point - other
    return encode_point(point)


@pytest.mark.parametrize("level", ["sum", "bounded"])
def test_a_survivor_that_helps_the_coordinator_to_any_sum(level: str) -> None:
    """It takes away all others' commitments: any sum passes where nothing is proved."""
    table, sent = Table(level), dict[int, bytes]()
    wanted, blinding = [FAR] * LENGTH, 12345

    def help_(i: int, said: bytes) -> bytes:
        sent[i] = said
        return said

    table.play(help_, until="collecting-inputs")
    said = {i: table.answer(i, help_) for i in HONEST}
    for i in HONEST:
        table.coordinator.receive(i, said[i])
    honest_one = table.answer(LIAR, help_)
    proof = read_input(*detach(honest_one))[1]
    crafted = signed_again(table, honest_one, rogue(table, wanted, blinding, sent), proof)
    if level == "bounded":
        with pytest.raises(RemoteProtocolError, match="bad-input"):
            table.coordinator.receive(LIAR, crafted)
        return
    table.coordinator.receive(LIAR, crafted)
    table.coordinator._is_committed = lambda _result: True  # the coordinator is in it
    table.coordinator.close_phase()
    while table.coordinator.state != "finished":
        table.exchange(lambda i: table.machines[i].receive(table.coordinator.message_for(i)))
    account = replace(Account.decode(table.coordinator.account), blinding=blinding)
    assert "6 survivors signed" in table.checked(account.encode(), wanted)[0]


# Coordinators


@pytest.fixture(scope="module")
def finished() -> Table:
    return Table().play()


def test_another_sum_is_noticed(finished: Table) -> None:
    other = [finished.sum[0] + 1, *finished.sum[1:]]
    with pytest.raises(RemoteProtocolError, match="the sum is not what was committed to"):
        finished.checked(sums=other)
    unchecked = Table("none").play()
    assert unchecked.checked(sums=other) == []


def test_another_blinding_is_noticed(finished: Table) -> None:
    account = Account.decode(finished.coordinator.account)
    with pytest.raises(RemoteProtocolError, match="the sum is not what was committed to"):
        finished.checked(replace(account, blinding=account.blinding + 1).encode())


def test_a_survivor_left_out_is_noticed(finished: Table) -> None:
    account = Account.decode(finished.coordinator.account)
    with pytest.raises(RemoteProtocolError, match="not one commitment for each survivor"):
        finished.checked(replace(account, signed=account.signed[:-1]).encode())


def test_a_survivor_made_up_is_noticed(finished: Table) -> None:
    """In the place of one that was there: its commitment is not signed by the seat's owner."""
    account = Account.decode(finished.coordinator.account)
    made_up = SignedCommitment.make(
        finished.identities[0],
        finished.round.session,
        1,
        encode_point(commit([0] * LENGTH, 1)),
        b"",
        b"",
    )
    signed = (account.signed[0], made_up, *account.signed[2:])
    with pytest.raises(RemoteProtocolError, match="the commitment of 1 is not signed"):
        finished.checked(replace(account, signed=signed).encode())


def chosen_afterwards(table: Table, blinding: int) -> tuple[Account, list[int]]:
    """The liar has signed another commitment, to a vector that suits it after the sum is known."""
    account, other = Account.decode(table.coordinator.account), [7] * LENGTH
    session, identity = table.round.session, table.identities[LIAR]
    context = proof_context(session, LIAR, identity.public)
    proof = prove(table.round.statement, context, other, 99, seeded("another"))
    commitment = encode_point(commit(other, 99))
    second = SignedCommitment.make(identity, session, LIAR, commitment, proof, b"any")
    signed = (*account.signed[:LIAR], second, *account.signed[LIAR + 1 :])
    sums = (np.array(table.sum) - table.vectors[LIAR] + other).tolist()
    fitting = (account.blinding - blinding + 99) % ORDER
    return replace(account, signed=signed, blinding=fitting), sums


def test_a_commitment_chosen_after_the_sum_is_known_is_on_no_list_that_was_accepted() -> None:
    """The sum fits, and every commitment is signed. But honest survivors signed another list."""
    table = Table()
    table.machines[LIAR]._randomness = seeded("liar")
    account, sums = chosen_afterwards(table.play(), draw_blinding(seeded("liar")))
    with pytest.raises(RemoteProtocolError, match="has not signed this list"):
        table.checked(account.encode(), sums)
    without = replace(account, agreed={}).encode()  # the sum alone does not tell
    assert table.checked(without, sums) == [
        "the sum is the one that 6 survivors signed commitments to"
    ]
    assert "settled before the sum was known" in table.open(without, sums)[0]
    assert not any("settled" in words for words in table.open())


def test_an_account_has_one_spelling(finished: Table) -> None:
    encoded = finished.coordinator.account
    for wrong in (
        b"",
        encoded + b"\0",
        b"\xa0",
        encoded[:-1],
        bytes(100),
        encoded[:30] + encoded[31:],
    ):
        with pytest.raises(RemoteProtocolError, match="not an account"):
            finished.checked(wrong)
