"""Validation with two servers: neither can falsify the sum, and both verify inputs."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest

import dhdmm
from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.group import Element
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.method import PublishedSum
from dhdmm.aggregation.roster import Roster
from dhdmm.aggregation.wrapping import detach
from dhdmm.cohort.helper import LocalHelper
from dhdmm.errors import RoundAborted
from dhdmm.session.coordinator import CoordinatorSession
from dhdmm.study.spec import Study
from dhdmm.twoservers import messages as m
from dhdmm.twoservers import shares
from dhdmm.validated.account import Account
from dhdmm.validated.attachments import SignedCommitment, attached_to_input, read_input
from dhdmm.validated.helper import decode_question, encode_question
from dhdmm.validation.group import ORDER
from tests.protocol.network import Stream
from tests.round.small import people, small_text

COUNT = 12


class LyingHelper(LocalHelper):
    """Adds one to the first entry of its sum, and signs that."""

    identity: Identity
    validated: bool

    def __call__(self, request: bytes) -> bytes:
        answer = m.decode(super().__call__(request))
        asked = m.decode(decode_question(request)[1] if self.validated else request)
        if not isinstance(answer, m.HelperSum) or not isinstance(asked, m.Closing):
            return answer.encode()
        wrong = self.round.group.unpack(answer.vector)
        self.falsify(wrong)
        packed = self.round.group.pack(wrong)
        said = shares.sum_statement(answer.session, asked.commitment, answer.root, packed)
        return replace(answer, vector=packed, signature=self.identity.sign(said)).encode()

    def falsify(self, total: Element) -> None:
        total.vector[0] += 1


class LyingAboutBlindings(LyingHelper):
    """Adds one to its sum of blindings."""

    def falsify(self, total: Element) -> None:
        total.scalar = (total.scalar + 1) % ORDER


class Setting:
    """All parties of a small round with validation, or without."""

    def __init__(self, validation: str, helper: type[LocalHelper] = LocalHelper) -> None:
        random = Stream("validated", validation)
        self.identities = [Identity.generate(random) for _ in range(COUNT)]
        names = tuple(f"p{i}" for i in range(COUNT))
        self.roster = Roster(names, tuple(one.public for one in self.identities))
        second = Identity.generate(random)
        text = small_text(threat_model="two-servers", validation=validation)
        self.plan = dhdmm.plan(Study.from_text(text), roster=self.roster, helper=second.public)
        self.helper = helper(self.plan, bytes(16), self.roster, second, random)
        round_ = self.plan.round(bytes(16))
        self.validated = validation != "none"
        self.helper.identity, self.helper.validated = second, self.validated
        self.helper.round = round_.below if self.validated else round_
        self.leader = CoordinatorSession(
            self.plan, bytes(16), self.roster, random, helper=self.helper
        )
        self.leader.consult()

    def report(self, position: int) -> bytes:
        return dhdmm.report(
            self.plan,
            people(COUNT)[position],
            self.identities[position],
            round_id=bytes(16),
            position=position,
            key=self.leader.message_for(position),
        )

    def play(self) -> None:
        for position in range(COUNT):
            self.leader.receive(position, self.report(position))
        self.leader.close_phase()
        self.leader.consult()
        self.leader.close_phase()


@pytest.mark.slow
def test_a_helper_that_answers_a_wrong_sum_is_found_out_with_validation() -> None:
    """Without it nobody notices, as docs/threat-model.md says."""
    unchecked = Setting("none", LyingHelper)
    unchecked.play()
    assert unchecked.leader.release().survivors == COUNT
    for lying in (LyingHelper, LyingAboutBlindings):
        checked = Setting("sum", lying)
        checked.play()
        assert checked.leader.machine.abort_reason is AbortReason.SUM_MISMATCH
        with pytest.raises(RoundAborted):
            checked.leader.release()


def test_a_transcript_shows_what_both_servers_are_held_to() -> None:
    """The helper signed its half of the sums of inputs and of blindings, and no other."""
    setting = Setting("sum")
    setting.play()
    machine, method = setting.leader.machine, setting.plan.method
    round_, total = setting.plan.round(bytes(16)), machine.result.total
    measured = round_.modulus.signed(total).tolist()
    shown = PublishedSum(machine.survivors, measured, machine.account)
    held = method.check_account(round_, setting.roster, shown).holds
    assert "the sum is the one that 12 survivors signed commitments to" in held
    assert "signed its half of the sum over 12 reports" in held[-1]
    below = replace(shown, account=Account.decode(machine.account).below)
    with pytest.raises(RemoteProtocolError, match="the helper has not signed this sum"):
        method.below.check_account(round_.below, setting.roster, replace(below, scalar=1))


def test_the_helper_verifies_proofs_whatever_the_leader_says() -> None:
    setting = Setting("bounded")
    attachment, message = detach(setting.report(1))
    signed, proof = read_input(attachment, message)
    broken = proof[:-1] + bytes([proof[-1] ^ 1])
    again = SignedCommitment.make(
        setting.identities[1],
        setting.plan.round(bytes(16)).session,
        1,
        signed.commitment,
        broken,
        message,
    )
    report = m.decode(message)
    listed = [m.Reported(1, sha256(report.vector).digest(), report.signature)]
    batch = m.Batch(report.session, 0, listed, report.sealed).encode()

    def accepts(attached: bytes) -> bool:
        asked = encode_question([(attached, sha256(message).digest())], batch)
        return m.decode(setting.helper.machine.answer(asked)).accepted.members() == (0,)

    assert not accepts(attached_to_input(again, broken))
    assert not accepts(attached_to_input(signed, broken))
    assert not accepts(b"")
    below = setting.helper.machine.below  # a helper that leaves proofs to the leader
    assert m.decode(below.answer(batch)).accepted.members() == (0,)


@pytest.mark.slow
def test_whoever_does_not_come_is_not_missed() -> None:
    setting = Setting("bounded")
    for position in range(COUNT - 1):
        setting.leader.receive(position, setting.report(position))
    setting.leader.close_phase()
    setting.leader.consult()
    setting.leader.close_phase()
    release = setting.leader.release()
    assert release.survivors == COUNT - 1
    assert np.isfinite(release.answers).all()
