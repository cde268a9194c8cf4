"""The second server of a round in this process, where a way to add up has one."""

from __future__ import annotations

from time import thread_time

from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import MemoryJournal, MemorySecrets
from dhdmm.aggregation.method import HelperMachine
from dhdmm.aggregation.randomness import Randomness
from dhdmm.aggregation.roster import Roster
from dhdmm.errors import DataError
from dhdmm.planning.plan import NO_HELPER, Plan


class LocalHelper:
    """Answers the coordinator, and counts the processor time it takes to."""

    def __init__(
        self,
        plan: Plan,
        round_id: bytes,
        roster: Roster,
        identity: Identity,
        randomness: Randomness,
    ) -> None:
        self.machine: HelperMachine = plan.method.helper(
            plan.round(round_id), roster, identity, randomness, MemorySecrets(), MemoryJournal()
        )
        self.seconds = 0.0

    def __call__(self, request: bytes) -> bytes:
        started = thread_time()
        answer = self.machine.answer(request)
        self.seconds += thread_time() - started
        return answer


def own_helper(plan: Plan, randomness: Randomness) -> Identity | None:
    """Of the second server that whoever runs all parties runs, too; None where there is none."""
    if not plan.method.has_helper:
        return None
    if plan.helper != NO_HELPER:
        raise DataError(
            f"the plan names the helper {plan.helper.hex()}, whose key is not here",
            hint="a round in one process has a helper of its own: plan without one",
        )
    return Identity.generate(randomness)
