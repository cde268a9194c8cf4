"""What everybody may know of a round while it goes on: counts and phases, nobody's name."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from dhdmm.aggregation.method import FINISHED, OVER


class Status(BaseModel):
    """A round, as of `version`."""

    model_config = ConfigDict(frozen=True, defer_build=True)  # a newer coordinator may say more

    round: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    study: str
    study_digest: str
    threat_model: str
    state: Annotated[str, Field(pattern=r"^[a-z-]{1,40}$")] = Field(
        description="enrolling, collecting-…, finished or aborted"
    )
    minimum: int
    maximum: int
    enrolled: int
    invited: int = Field(description="who may speak in this phase")
    received: int = Field(description="whose message of this phase has arrived")
    alive: int = Field(description="who can still be counted; in the end, who was")
    departed: int = Field(0, description="who said that it left")
    remaining_s: float | None = Field(description="until the phase is closed")
    plan_digest: str | None = None
    roster_digest: str | None = None
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

    settled: int | None = Field(
        None, description="how many inputs a second server has accepted, where there is one"
    )
    helper_away: bool = Field(False, description="whether that server does not answer at present")

    @property
    def over(self) -> bool:
        return self.state in OVER

    @property
    def finished(self) -> bool:
        return self.state == FINISHED.name


class NamedKey(BaseModel):
    """Somebody on a roster, or the coordinator."""

    name: str
    fingerprint: str


class Missing(BaseModel):
    """Whom a round waits for; the operator's to know."""

    state: str
    missing: list[NamedKey] = Field(description="who has not spoken in this phase, at most 1000")
    more: int = Field(description="how many more there are")
