"""The coordinator of one round: secure aggregation → decode → release."""

from __future__ import annotations

from dhdmm.errors import RoundAborted
from dhdmm.planning.plan import Plan
from dhdmm.release.decode import decode
from dhdmm.release.release import Release
from dhdmm.secagg.coordinator import Coordinator, Store
from dhdmm.secagg.randomness import Randomness
from dhdmm.secagg.round import Roster
from dhdmm.secagg.states import CoordinatorState


class CoordinatorSession:
    """One round. Feed `machine` with messages and deadlines; when it is over, ask for `release`."""

    def __init__(
        self,
        plan: Plan,
        round_id: bytes,
        roster: Roster,
        randomness: Randomness,
        store: Store | None = None,
    ) -> None:
        self._plan, self._round_id = plan, round_id
        self.machine = Coordinator(plan.round(round_id), roster, randomness, store)

    @property
    def over(self) -> bool:
        return self.machine.state in (CoordinatorState.FINISHED, CoordinatorState.ABORTED)

    @property
    def survivors(self) -> tuple[int, ...]:
        """Roster positions whose inputs are in the sum."""
        result = self.machine.result
        return () if result is None else tuple(result.survivors.members())

    def release(self) -> Release:
        """What the round found out; `RoundAborted` with the reason if it found nothing."""
        result = self.machine.result
        if result is None:
            raise RoundAborted(f"the round ended without a result: {self.machine.abort_reason}")
        measurement = decode(self._plan, result.total)
        return Release(self._plan, self._round_id, len(result.survivors), measurement)
