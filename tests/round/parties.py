"""All parties of a round with noise from known keys, so that a round can be repeated elsewhere."""

import os
from hashlib import sha256

import numpy as np

from dhdmm.cohort.drive import drive
from dhdmm.cohort.members import Invitation, LocalCohort, permissive, pinned
from dhdmm.cohort.people import Enrolled, LocalSeat
from dhdmm.participant.measure import measure
from dhdmm.participant.policy import review
from dhdmm.privacy.keystream import KeyStream
from dhdmm.release.decode import decode
from dhdmm.runner import Enrolment, Traffic
from dhdmm.secagg.states import CoordinatorState
from dhdmm.session.coordinator import CoordinatorSession
from dhdmm.study.histogram import Histogram
from tests.sums import PlainSum


def noise_of(position: int, number: int = 0) -> KeyStream:
    """The noise of one participant in round `number`."""
    return KeyStream.from_key_for_tests(sha256(f"{number} {position}".encode()).digest())


class Noisy(Enrolled):
    """People whose noise can be drawn again."""

    def __init__(self, seats: list[LocalSeat], number: int) -> None:
        super().__init__(seats)
        self._number = number

    def noise(self, position: int) -> KeyStream:
        return noise_of(position, self._number)


def real_measurement(
    enrolment: Enrolment, histograms: list[Histogram], silent: list[int], number: int = 0
) -> np.ndarray:
    """M̂ of the real protocol, with each participant's noise from its own known key."""
    plan, roster = enrolment.plan, enrolment.roster
    invitation = Invitation(
        plan.to_bytes(), enrolment.round_id, roster, pinned(permissive(plan), roster)
    )
    reviewed = review(invitation.plan, invitation.policy, roster)
    seats = [
        LocalSeat(i, identity, histogram)
        for i, (identity, histogram) in enumerate(
            zip(enrolment.identities, histograms, strict=True)
        )
    ]
    coordinator = CoordinatorSession(plan, enrolment.round_id, roster, os.urandom)
    cohort = LocalCohort(reviewed, invitation, Noisy(seats, number))
    drive(coordinator, [cohort], {CoordinatorState.COLLECTING_INPUTS: silent}, Traffic())
    return coordinator.release().measurement


def ideal_measurement(
    enrolment: Enrolment, histograms: list[Histogram], silent: list[int], number: int = 0
) -> np.ndarray:
    """M̂ if everybody handed its measurement to a trusted party."""
    plan = enrolment.plan
    inputs = {
        i: measure(plan, histogram, noise_of(i, number))
        for i, histogram in enumerate(histograms)
        if i not in silent
    }
    return decode(plan, PlainSum(plan.round(enrolment.round_id)).sum(inputs).total)
