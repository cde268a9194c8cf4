"""What everybody may know of a round while it goes on: counts and phases, nobody's name."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from dhdmm.service.store import Row, StudyHead


class Status(BaseModel):
    """A round, as of `version`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    round: str
    study: str
    study_digest: str
    threat_model: str
    state: str = Field(description="enrolling, collecting-…, finished or aborted")
    minimum: int
    maximum: int
    enrolled: int
    invited: int = Field(description="who may speak in this phase")
    received: int = Field(description="whose message of this phase has arrived")
    alive: int = Field(description="who can still be counted; in the end, who was")
    departed: int = Field(description="who said that it left")
    remaining_s: float | None = Field(description="until the phase is closed")
    plan_digest: str | None
    roster_digest: str | None
    reason: str | None = Field(description="why the round was aborted")
    version: int = Field(description="goes up with every change")
    number: int = Field(1, description="of the study's rounds, from 1")
    occurrence: str | None = Field(
        None, description="such as 2026-W47; a study has one round of each"
    )
    begun: int = Field(0, description="by the coordinator's calendar, in seconds of the Unix era")
    ended: int | None = None
    purged: int | None = Field(
        None, description="when its messages were deleted, as they are in time"
    )

    @classmethod
    def of(cls, row: Row, study: StudyHead, remaining_s: float | None) -> Status:
        return cls(
            round=row.id,
            study=study.name,
            study_digest=study.digest,
            threat_model=study.threat_model,
            state=row.state,
            minimum=study.minimum,
            maximum=study.maximum,
            enrolled=row.enrolled,
            invited=row.invited,
            received=row.received,
            alive=row.alive,
            departed=row.departed,
            remaining_s=remaining_s,
            plan_digest=row.plan_digest,
            roster_digest=row.roster_digest,
            reason=row.reason,
            version=row.version,
            number=row.number,
            occurrence=row.occurrence,
            begun=row.begun,
            ended=row.ended,
            purged=row.purged,
        )
