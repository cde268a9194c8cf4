"""Servers and participants with exactly one safeguard taken away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.group import Element
from dhdmm.aggregation.identity import Identity
from dhdmm.twoservers import helper as helper_module
from dhdmm.twoservers import messages as m
from dhdmm.twoservers import shares
from dhdmm.twoservers.helper import Helper
from dhdmm.twoservers.leader import Leader
from dhdmm.twoservers.participant import Participant
from dhdmm.twoservers.round import TwoServersRound


class WithoutShare(Participant):
    """Hands its input to the leader in the open: share_H is subtracted and added again."""

    def give_input(self, vector: np.ndarray, scalar: int = 0) -> bytes:
        report = m.decode(super().give_input(vector, scalar))
        assert isinstance(report, m.Report)
        packed = self._round.group.pack(self._round.group.element(vector, scalar))
        return replace(report, vector=packed).encode()


class SealedToEverybody(Participant):
    """Draws a seed that everybody knows."""

    def __init__(self, round: TwoServersRound, identity: Identity, *others: object) -> None:
        super().__init__(round, identity, *others)
        self._randomness = bytes


class HelperWithoutFloor(Helper):
    """Answers for however few."""

    def __init__(self, round: TwoServersRound, *others: object) -> None:
        super().__init__(replace(round, minimum_survivors=2), *others)


class LeaderWithoutFloor(Leader):
    """Adds up however few."""

    def __init__(self, round: TwoServersRound, *others: object) -> None:
        super().__init__(replace(round, minimum_survivors=2), *others)


class AnswersAnySet(Helper):
    """Keeps shares apart and adds up those whom the leader names, as often as it asks."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)
        self.kept: dict[int, Element] = {}

    def _takes(self, reported, sealed, total, new) -> bool:
        own = self._round.group.zero()
        took = super()._takes(reported, sealed, own, new)
        if took:
            self.kept[reported.position] = own
            self._round.group.add(total, own)
        return took

    def _close(self, closing: m.Closing) -> bytes:
        total = self._round.group.zero()
        for i in closing.members.members():
            self._round.group.add(total, self.kept[i])
        packed = self._round.group.pack(total)
        return m.HelperSum(self._round.session, 0, bytes(32), packed, bytes(64)).encode()


class AddsTwice(Helper):
    """Forgets whose reports it has."""

    def _takes(self, reported, sealed, total, new) -> bool:
        self._reports._known[:] = False
        return super()._takes(reported, sealed, total, new)


class BelievesTheLeader(Helper):
    """Looks at no signature."""

    def answer(self, request: bytes) -> bytes:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(helper_module, "require_signed", lambda *_: None)
            return super().answer(request)


class TakesTheFirstOf(Leader):
    """Another report of the same participant replaces the first."""

    def receive(self, position: int, data: bytes) -> object:
        self._reported[position] = False
        return super().receive(position, data)


class KeepsSecrets:
    """Does not erase: what a helper is whose secrets are in its backup."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def load(self) -> dict[str, bytes]:
        return dict(self.kept)

    def save(self, changes: dict[str, bytes]) -> None:
        self.kept.update(changes)

    def erase(self) -> None:
        """Something copies them back."""


@contextmanager
def seeds_for_any_round_and_seat() -> Iterator[None]:
    """HPKE's info and the stream do not name session and position."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shares, "seal_info", lambda *_: b"")
        real = shares.add_helper_share

        def without(group, total, _session, _position, seed, sign) -> None:
            real(group, total, bytes(32), 0, seed, sign)

        patched.setattr(shares, "add_helper_share", without)
        yield


@contextmanager
def statements_of_any_round() -> Iterator[None]:
    """What is signed does not name the round."""
    with pytest.MonkeyPatch.context() as patched:
        real = shares.report_statement
        patched.setattr(shares, "report_statement", lambda _session, *rest: real(bytes(32), *rest))
        patched.setattr(shares, "seal_info", lambda *_: b"")
        yield


@contextmanager
def vectors_unsigned() -> Iterator[None]:
    """A participant signs its sealed seed only."""
    with pytest.MonkeyPatch.context() as patched:
        real = shares.report_statement
        patched.setattr(
            shares, "report_statement", lambda s, i, sealed, _hash: real(s, i, sealed, bytes(32))
        )
        yield


def everybody(count: int) -> Bitmap:
    return Bitmap.of(count, range(count))
