"""What two servers of which one is corrupt, and participants, may try; each with a weakened variant
on which the same attack succeeds."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.journal import MemoryJournal, MemorySecrets
from dhdmm.aggregation.method import ABORTED, Reply
from dhdmm.aggregation.modulus import unpack
from dhdmm.twoservers import messages as m
from dhdmm.twoservers import shares
from tests.twoservers import weakened
from tests.twoservers.parties import LENGTH, MODULUS, Parties

VICTIM = 3


def refused(act: Callable[[], object], reason: AbortReason) -> bool:
    with pytest.raises(RemoteProtocolError) as error:
        act()
    return error.value.reason is reason


def summed(answer: bytes) -> np.ndarray:
    read = m.decode(answer)
    assert isinstance(read, m.HelperSum)
    return unpack(MODULUS, LENGTH, read.vector)


# ---- either server reads one participant --------------------------------------------------------


def leader_reads(parties: Parties) -> bool:
    """Whether share_L is the input."""
    report = m.decode(parties.report(VICTIM))
    return unpack(MODULUS, LENGTH, report.vector).tolist() == parties.inputs[VICTIM].tolist()


def test_the_leaders_share_is_not_the_input() -> None:
    assert not leader_reads(Parties())
    assert leader_reads(Parties(make_participant=weakened.WithoutShare))


def leader_opens(parties: Parties) -> bool:
    """Whether somebody without the helper's key finds share_H, by guessing the seed."""
    report = m.decode(parties.report(VICTIM))
    group = parties.round.group
    share = group.unpack(report.vector)
    shares.add_helper_share(group, share, parties.round.session, VICTIM, bytes(32), 1)
    return MODULUS.reduce(share.vector).tolist() == parties.inputs[VICTIM].tolist()


def test_the_leader_cannot_open_the_seed() -> None:
    assert not leader_opens(Parties())
    assert leader_opens(Parties(make_participant=weakened.SealedToEverybody))


@pytest.mark.slow
def test_shares_of_a_fixed_input_are_uniform() -> None:
    """χ² over the top four bits of both shares; false alarms: below 1 in 10⁶ (seeded)."""
    parties = Parties("uniform")
    counts = np.zeros((2, 16))
    for _ in range(400):
        report = m.decode(parties.report(VICTIM))
        share = unpack(MODULUS, LENGTH, report.vector)
        other = MODULUS.reduce(parties.inputs[VICTIM].astype(share.dtype) - share)
        for row, values in enumerate((share, other)):
            counts[row] += np.bincount(values >> 16, minlength=16)
    expected = 400 * LENGTH / 16
    assert (((counts - expected) ** 2 / expected).sum(axis=1) < 60).all()  # 15 degrees of freedom


# ---- few survivors, two sets ---------------------------------------------------------------------


def leader_isolates(parties: Parties) -> bool:
    """All but one victim and the leader's friend are dropped; the friend's input is known."""
    reports = [parties.report(i) for i in (0, VICTIM)]
    parties.helper.answer(parties.batch(*reports))
    try:
        answer = parties.helper.answer(parties.closing([0, VICTIM]))
    except RemoteProtocolError as error:
        return error.reason is not AbortReason.TOO_FEW_PARTICIPANTS
    known = sum(unpack(MODULUS, LENGTH, m.decode(one).vector) for one in reports) + summed(answer)
    found = MODULUS.reduce(known - parties.inputs[0].astype(known.dtype))
    return found.tolist() == parties.inputs[VICTIM].tolist()


def test_the_helper_answers_for_as_many_as_its_plan_says() -> None:
    assert not leader_isolates(Parties())
    assert leader_isolates(Parties(make_helper=weakened.HelperWithoutFloor))


def helper_isolates(parties: Parties) -> bool:
    """A corrupt helper accepts two reports and refuses the rest."""
    parties.take(0, 1, 2, 3, 4, 5)
    parties.leader.close_phase()
    while (request := parties.leader.to_helper()) is not None:
        asked = m.decode(request)
        if isinstance(asked, m.Batch):
            few = Bitmap.of(len(asked.reports), [0, VICTIM])
            answer = m.Accepted(parties.round.session, 0, few).encode()
            parties.leader.from_helper(request, answer)
        else:
            return True  # the leader is ready to add up two
    return parties.leader.state != ABORTED.name


def test_the_leader_adds_up_as_many_as_its_plan_says() -> None:
    assert not helper_isolates(Parties())
    assert helper_isolates(Parties(make_leader=weakened.LeaderWithoutFloor))


def leader_differences(parties: Parties) -> bool:
    """Two sets that differ in one participant give its input."""
    reports = [parties.report(i) for i in range(6)]
    vectors = [unpack(MODULUS, LENGTH, m.decode(one).vector) for one in reports]
    parties.helper.answer(parties.batch(*reports))
    whole, others = list(range(6)), [i for i in range(6) if i != VICTIM]
    try:
        totals = [
            sum(vectors[i] for i in some) + summed(parties.helper.answer(parties.closing(some)))
            for some in (whole, others)
        ]
    except RemoteProtocolError as error:
        return error.reason is not AbortReason.SECOND_BITMAP
    found = MODULUS.reduce(totals[0] - totals[1])
    return found.tolist() == parties.inputs[VICTIM].tolist()


def test_the_helper_answers_one_set() -> None:
    assert not leader_differences(Parties())
    assert leader_differences(Parties(make_helper=weakened.AnswersAnySet))


def test_the_leader_cannot_leave_out_whom_the_helper_has_added() -> None:
    """A set of its choice, or one that the helper has not accepted, is not answered at all."""
    parties = Parties()
    parties.helper.answer(parties.batch(*[parties.report(i) for i in range(5)]))
    for some in ([0, 1, 2, 3], [1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]):
        closing = parties.closing(some)
        assert refused(lambda: parties.helper.answer(closing), AbortReason.SECOND_BITMAP)  # noqa: B023
    assert parties.helper.answer(parties.closing([0, 1, 2, 3, 4]))


def test_the_same_question_again_has_the_same_answer_also_after_a_restart() -> None:
    parties = Parties()
    parties.helper.answer(parties.batch(*[parties.report(i) for i in range(6)]))
    first = parties.helper.answer(parties.closing([0, 1, 2, 3, 4, 5]))
    again = parties.restarted_helper()
    assert again.answer(parties.closing([0, 1, 2, 3, 4, 5])) == first
    assert refused(
        lambda: again.answer(parties.closing([0, 1, 2, 3, 4])), AbortReason.SECOND_BITMAP
    )
    late = parties.batch(*[parties.report(i) for i in range(6)])
    assert refused(lambda: again.answer(late), AbortReason.WRONG_PHASE)


# ---- replays and swaps ---------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"round_id": bytes([1]) * 16}, {"plan_digest": bytes(32)}])
def test_a_report_is_good_in_its_round_and_plan_only(change: dict[str, bytes]) -> None:
    parties = Parties()
    report = parties.report(VICTIM)

    def replayed() -> bool:
        other = parties.of_another_round(**change)
        other.helper._key = parties.helper._key  # as good as a key for all rounds
        moved = replace(m.decode(report), session=other.round.session).encode()
        return other.accepted(other.batch(moved)) == (0,)

    assert not replayed()
    with weakened.statements_of_any_round():
        report = parties.report(VICTIM)
        assert replayed()


def test_nobody_sends_anothers_seed_as_its_own() -> None:
    """Were it possible, −share_L of the victim beside share_L would tell its input."""

    def copied(parties: Parties) -> bool:
        sealed = m.decode(parties.report(VICTIM)).sealed
        own, thief = m.decode(parties.report(0)), parties.identities[0]
        said = shares.report_statement(
            parties.round.session, 0, sealed, shares.sha256(own.vector).digest()
        )
        forged = replace(own, sealed=sealed, signature=thief.sign(said)).encode()
        return parties.accepted(parties.batch(forged)) == (0,)

    assert not copied(Parties())
    with weakened.seeds_for_any_round_and_seat():
        assert copied(Parties())


def test_a_report_is_good_at_its_seat_only() -> None:
    def moved(parties: Parties) -> bool:
        report = replace(m.decode(parties.report(VICTIM)), position=0).encode()
        return parties.accepted(parties.batch(report)) == (0,)

    assert not moved(Parties())
    with weakened.seeds_for_any_round_and_seat():
        assert not moved(Parties())  # the signature says so, too
        assert moved(Parties(make_helper=weakened.BelievesTheLeader))


def test_the_leader_cannot_swap_vectors() -> None:
    """The helper's signature would cover a vector that its participant did not sign."""

    def swapped(parties: Parties) -> bool:
        one, other = (m.decode(parties.report(i)) for i in (0, 1))
        forged = replace(one, vector=other.vector).encode()
        return parties.accepted(parties.batch(forged)) == (0,)

    assert not swapped(Parties())
    with weakened.vectors_unsigned():
        assert swapped(Parties())


def test_the_leader_cannot_swap_sealed_seeds() -> None:
    def swapped(parties: Parties) -> bool:
        one, other = (m.decode(parties.report(i)) for i in (0, 1))
        forged = replace(one, sealed=other.sealed).encode()
        return parties.accepted(parties.batch(forged)) == (0,)

    assert not swapped(Parties())
    with weakened.seeds_for_any_round_and_seat():
        assert swapped(Parties(make_helper=weakened.BelievesTheLeader))


def test_a_report_with_another_signature_is_in_no_sum() -> None:
    """The leader has the request's signature and leaves the report's own to the helper."""

    def counted(parties: Parties) -> bool:
        stranger = Parties("stranger").identities[0]
        report = m.decode(parties.report(5))
        parties.take(0, 1, 2, 3, 4)
        forged = replace(report, signature=stranger.sign(b"something")).encode()
        assert parties.leader.receive(5, forged) is Reply.WAITING
        parties.finish()
        return 5 in parties.leader.result.survivors

    assert not counted(Parties())
    assert counted(Parties(make_helper=weakened.BelievesTheLeader))


def test_the_leader_invents_nobody() -> None:
    """A report needs the signature of an identity on the roster."""

    def invented(parties: Parties) -> bool:
        stranger = Parties("stranger").identities[0]
        report = m.decode(parties.report(0))
        said = shares.report_statement(
            parties.round.session, 0, report.sealed, shares.sha256(report.vector).digest()
        )
        forged = replace(report, signature=stranger.sign(said)).encode()
        return parties.accepted(parties.batch(forged)) == (0,)

    assert not invented(Parties())
    assert invented(Parties(make_helper=weakened.BelievesTheLeader))


# ---- twice ---------------------------------------------------------------------------------------


def test_a_share_is_added_once() -> None:
    def twice(parties: Parties) -> bool:
        reports = [parties.report(i) for i in range(6)]
        parties.helper.answer(parties.batch(*reports))
        before = parties.helper._sum.vector.copy()
        parties.helper.answer(parties.batch(reports[VICTIM]))
        return not np.array_equal(before, parties.helper._sum.vector)

    assert not twice(Parties())
    assert twice(Parties(make_helper=weakened.AddsTwice))


def test_a_participant_reports_once() -> None:
    def again(parties: Parties) -> bool:
        parties.take(VICTIM)
        try:
            parties.take(VICTIM)
        except RemoteProtocolError as error:
            return error.reason is not AbortReason.CONFLICTING_MESSAGE
        return True

    assert not again(Parties())
    assert again(Parties(make_leader=weakened.TakesTheFirstOf))


def test_another_report_of_a_participant_is_not_added_by_the_helper_either() -> None:
    parties = Parties()
    assert parties.accepted(parties.batch(parties.report(VICTIM))) == (0,)
    assert parties.accepted(parties.batch(parties.report(VICTIM))) == ()


# ---- wrong sums ----------------------------------------------------------------------------------


def test_a_helper_that_added_other_reports_is_found_out() -> None:
    parties = Parties()
    parties.take(0, 1, 2, 3, 4, 5)
    parties.leader.close_phase()
    for _ in range(1):
        request = parties.leader.to_helper()
        parties.leader.from_helper(request, parties.helper.answer(request))
    request = parties.leader.to_helper()
    commitment = m.decode(request).commitment
    wrong = m.HelperSum(parties.round.session, 0, bytes(32), bytes(13), bytes(64))
    said = shares.sum_statement(parties.round.session, commitment, wrong.root, wrong.vector)
    signed = replace(wrong, signature=parties.helper_identity.sign(said))
    assert refused(
        lambda: parties.leader.from_helper(request, signed.encode()), AbortReason.SUM_MISMATCH
    )
    assert refused(
        lambda: parties.leader.from_helper(request, wrong.encode()), AbortReason.BAD_SIGNATURE
    )
    assert parties.leader.result is None


# ---- backups -------------------------------------------------------------------------------------


def second_set_after_a_backup(parties: Parties) -> bool:
    """In mid-round everything that a backup has is copied; after the answer it is put back."""
    reports = [parties.report(i) for i in range(6)]
    parties.helper.answer(parties.batch(*reports[:5]))
    journal, secrets = copy.deepcopy(parties.journal), copy.deepcopy(parties.secrets)
    parties.helper.answer(parties.batch(reports[5]))
    parties.helper.answer(parties.closing([0, 1, 2, 3, 4, 5]))
    in_backup = isinstance(parties.secrets, weakened.KeepsSecrets)
    restored = parties.restarted_helper(
        secrets=secrets if in_backup else parties.secrets, journal=journal
    )
    try:
        restored.answer(parties.closing([0, 1, 2, 3, 4]))
    except RemoteProtocolError as error:
        return error.reason is not AbortReason.LOST_KEY
    return True


def test_a_restored_helper_has_lost_the_round() -> None:
    assert not second_set_after_a_backup(Parties())
    assert second_set_after_a_backup(Parties(secrets=weakened.KeepsSecrets()))


def test_a_helper_that_forgot_the_round_makes_a_key_that_opens_nothing_of_it() -> None:
    parties = Parties()
    reports = [parties.report(i) for i in range(6)]
    parties.secrets, parties.journal = MemorySecrets(), MemoryJournal()
    parties.helper = parties.restarted_helper()
    assert parties.accepted(parties.batch(*reports)) == ()


def test_secrets_are_gone_before_the_answer_leaves() -> None:
    parties = Parties()
    parties.helper.answer(parties.batch(*[parties.report(i) for i in range(6)]))
    assert parties.secrets.load()
    parties.helper.answer(parties.closing([0, 1, 2, 3, 4, 5]))
    assert not parties.secrets.load()
    assert parties.helper._key is None


def test_an_answer_that_is_journalled_has_no_secrets_after_a_crash() -> None:
    """The process dies between journal and erasure: the next one erases before anything else."""
    parties = Parties()
    parties.helper.answer(parties.batch(*[parties.report(i) for i in range(6)]))
    erase = parties.secrets.erase
    parties.secrets.erase = lambda: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        parties.helper.answer(parties.closing([0, 1, 2, 3, 4, 5]))
    parties.secrets.erase = erase
    again = parties.restarted_helper()
    assert not parties.secrets.load()
    assert again.answer(parties.closing([0, 1, 2, 3, 4, 5]))
