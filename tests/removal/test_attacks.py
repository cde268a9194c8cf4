"""A coordinator that wants participants to remove more noise than they can spare.

Every attack is repeated on participants with one safeguard less, where it leaves less honest noise
in a sum than was promised.
"""

from __future__ import annotations

from collections.abc import Collection

import pytest

from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.removal.participant import RemovingParticipant
from dhdmm.removal.round import separate
from dhdmm.secagg import messages as m
from dhdmm.secagg.states import ParticipantState
from tests.protocol.weakened import WithoutIncludedEvidence
from tests.removal.rounds import Remover

pytestmark = pytest.mark.slow
FEWEST = (*range(12), 18, 19)


class OnlyAFewFinish(Remover):
    """The fewest that are allowed, two of them corrupt, and the truth about who."""

    def hears_inputs_of(self) -> Collection[int]:
        return range(12)

    def alive(self, to: int) -> Collection[int]:
        return FEWEST


class BelievesANumber(RemovingParticipant):
    """Removes what is in excess if as many survive as it is told: everybody."""

    def _last_attachment(self) -> bytes | None:
        if not self.over or self.abort_reason is not None:
            return super()._last_attachment()
        seeds = separate(self._journal.kept)
        return b"".join([seeds[part] for part in self._round.removed(self._round.participants)])


class SaysThatAllFinished(OnlyAFewFinish):
    remover = BelievesANumber


def test_the_level_follows_from_the_bitmap() -> None:
    honest = OnlyAFewFinish().run()
    assert {honest.participants[i].state for i in range(12)} == {ParticipantState.DONE}
    assert honest.honest_variance() == honest.promised
    assert SaysThatAllFinished().run().honest_variance() < 0.7 * honest.promised


class CallsEverybodyAlive(OnlyAFewFinish):
    """In the bitmap, too, where there is no evidence of six of them."""

    def alive(self, to: int) -> Collection[int]:
        return self.everybody


def test_nothing_is_removed_for_survivors_that_there_are_not() -> None:
    attack = CallsEverybodyAlive().run()
    assert {attack.left[i] for i in range(12)} == {AbortReason.BAD_EVIDENCE}
    assert attack.honest_variance() == attack.promised
    credulous = CallsEverybodyAlive(honest=WithoutIncludedEvidence).run()
    assert credulous.honest_variance() < 0.7 * credulous.promised


class ShowsTwoBitmaps(Remover):
    """Two of the targets are told that all survive; the ten others that only the fewest do, the two
    among them. Ten are enough to reveal the sum of all twelve."""

    def alive(self, to: int) -> Collection[int]:
        return self.everybody if to in (10, 11) else FEWEST


class GivesSeedsWithItsAck(RemovingParticipant):
    """As soon as it knows a bitmap, before others have confirmed it."""

    def _last_attachment(self) -> bytes | None:
        if self.survivors is None or self.abort_reason is not None:
            return super()._last_attachment()
        seeds = separate(self._journal.kept)
        return b"".join([seeds[part] for part in self._round.removed(len(self.survivors))])


class TakesSeedsWithAcks(ShowsTwoBitmaps):
    remover = GivesSeedsWithItsAck


def test_seeds_leave_only_under_a_bitmap_that_others_confirmed() -> None:
    for attack in (ShowsTwoBitmaps().run(), TakesSeedsWithAcks().run()):
        assert {attack.left[10], attack.left[11]} == {AbortReason.TOO_FEW_ACKS}
        assert len(attack.said[m.Unmask].keys() & set(range(12))) == 10
        assert attack.view() is not None  # the sum of all twelve is found out
    assert ShowsTwoBitmaps().run().honest_variance() == attack.promised
    assert attack.honest_variance() < attack.promised


class AsksTwice(Remover):
    """First for a sum with everybody in it, then, of one that was restarted, for a smaller one."""

    bitmap: Collection[int] = range(20)

    def alive(self, to: int) -> Collection[int]:
        return self.bitmap


def test_a_restarted_participant_gives_no_other_seeds() -> None:
    attack = AsksTwice()
    attack.ask_for_shares, ask = lambda: None, attack.ask_for_shares
    attack.run()
    at_input = {i: attack.journals[i].read() for i in range(12)}
    ask()
    assert attack.honest_variance() == 12 * attack.noise.base  # of 18 honest ones, who keep S
    attack.bitmap = range(14)
    for i in range(12):
        attack.participants[i] = attack.removing(i, attack.journals[i])
        assert attack.participants[i].machine.outgoing is not None
        with pytest.raises(RemoteProtocolError):
            attack.participants[i].receive(attack.survivors_message(i).encode())
        assert not attack.participants[i].left
    for i in range(12):  # a journal from a backup does it again, which is why nobody may keep one
        journal = MemoryJournal()
        journal.write(*at_input[i])
        attack.participants[i] = attack.removing(i, journal)
        answer = attack.participants[i].receive(attack.survivors_message(i).encode())
        assert isinstance(m.decode(answer), m.Acks)


@pytest.mark.parametrize("survivors", [(*range(17), 18, 19), range(20)])
def test_a_participant_that_restarts_before_it_reveals_gives_the_same_seeds(survivors) -> None:
    stayed, restarted = AsksTwice(), AsksTwice()
    for attack in (stayed, restarted):
        attack.bitmap = survivors
        tell = attack.tell

        def tell_after_restart(whom, message_for, attack=attack, tell=tell) -> None:
            if attack is restarted and message_for == attack.acks_message:
                for i in range(12):
                    attack.participants[i] = attack.removing(i, attack.journals[i])
            tell(whom, message_for)

        attack.tell = tell_after_restart
        attack.run()
    for i in range(12):
        assert restarted.participants[i].left == stayed.participants[i].left != set()
        assert not restarted.participants[i].machine._journal.kept  # what is kept is forgotten
        assert stayed.participants[i].machine._journal.kept == b""


def test_whoever_leaves_gives_no_seeds_and_forgets_them() -> None:
    attack = CallsEverybodyAlive().run()
    for i in range(12):
        machine = attack.participants[i].machine
        assert machine.abort_reason is AbortReason.BAD_EVIDENCE
        assert not attack.participants[i].left
        assert not machine._journal.kept
        assert attack.journals[i].read()[0].endswith(bytes(1))  # none are kept
