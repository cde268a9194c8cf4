"""Studies and rounds: what is asked, what it will be worth, and how far it is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dhdmm.aggregation.errors import AbortReason
from dhdmm.aggregation.method import ABORTED, ENROLMENT, FINISHED, Phase, ThreatModel
from dhdmm.network.identity import fingerprint
from dhdmm.network.problems import Problem, Reason
from dhdmm.network.status import Status
from dhdmm.planning.figures import plan_figures
from dhdmm.planning.methods import METHODS
from dhdmm.planning.plan import Plan
from dhdmm.server.live import LONGEST_WAIT, LiveRound
from dhdmm.server.studies import Hub
from dhdmm.study.describe import describe
from dhdmm.web.explain import explained
from dhdmm.web.release_cache import Cache, round_name
from dhdmm.web.signin import is_operator
from dhdmm.web.site import Site

LONGEST_LIST = 500
KEPT_STUDIES = 32
ROUNDS_OF_A_STUDY, ROUNDS_A_PAGE = 5, 50
"""Rounds of each study on the first page, and on a page of the study's own."""


def routes(site: Site, hub: Hub) -> list[Route]:
    pages = _RoundPages(site, hub)
    return [
        site.reader_route("/", pages.studies),
        site.reader_route("/studies/{digest}", pages.study),
        site.reader_route("/rounds/{round_id}", pages.round),
        site.reader_route("/rounds/{round_id}/live", pages.live),
    ]


@dataclass(frozen=True)
class RoundStep:
    name: str
    kind: str
    """done, now, failed or to come"""


def phases(status: Status) -> list[Phase]:
    """Those of this round, from enrolment to release."""
    return [ENROLMENT, *METHODS[ThreatModel(status.threat_model)].phases, FINISHED]


def phase(status: Status) -> Phase:
    """Where the round is."""
    return next(known for known in (*phases(status), ABORTED) if known.name == status.state)


def steps(status: Status) -> list[RoundStep]:
    """The phases of this round's threat model, and where the round is."""
    titles, at = [one.title for one in phases(status)], phase(status).title
    if status.state == ABORTED.name:
        return [*(RoundStep(title, "to come") for title in titles), RoundStep(at, "failed")]
    now = len(titles) if status.finished else titles.index(at)
    kinds = (["done"] * now + ["now"] + ["to come"] * len(titles))[: len(titles)]
    return [RoundStep(title, kind) for title, kind in zip(titles, kinds, strict=True)]


def progress(status: Status) -> tuple[int, int]:
    """How many of how many are there yet, in this phase."""
    if status.state == ENROLMENT.name:
        return status.enrolled, status.maximum
    if status.over:
        return status.alive, status.enrolled
    if status.settled is not None and not status.invited:
        return status.settled, status.alive
    return status.received, status.invited


def connected(status: Status) -> int:
    """Who has been heard of: in the first phase by its message, later by not having dropped out."""
    first = phases(status)[1].name
    return status.received if status.state == first else status.alive


def gathered(status: Status) -> str:
    """How many were asked, and how many are there.

    Enrolled people have come already; those on a roster have only been invited.
    """
    if status.state == ENROLMENT.name:
        return f"enrolled {status.enrolled:,}, at most {status.maximum:,}"
    there = "counted" if status.finished else "connected"
    return f"invited {status.enrolled:,}, {there} {connected(status):,}"


def sentence(status: Status) -> str:
    """The state of the round for somebody who listens."""
    if status.state == ABORTED.name:
        why = AbortReason(status.reason).words if status.reason else "no reason is known"
        return f"The round was aborted: {why}. Nothing about the participants was found out."
    if status.finished:
        return f"The round is finished. {status.alive:,} of {status.enrolled:,} were counted."
    said = f"{phase(status).explanation} {gathered(status).capitalize()}."
    return f"{said} {second_server(status)}".rstrip()


def second_server(status: Status) -> str:
    """How far the helper is, where there is one."""
    if status.settled is None or status.over:
        return ""
    said = f"The helper has accepted {status.settled:,}."
    return f"{said} It does not answer now; the round waits." if status.helper_away else said


WORDS = SimpleNamespace(
    phase=phase, gathered=gathered, second_server=second_server, round_name=round_name
)
"""For templates."""


class _RoundPages:
    def __init__(self, site: Site, hub: Hub) -> None:
        self._site, self._hub = site, hub
        self._studies: Cache[dict[str, Any]] = Cache(KEPT_STUDIES)

    async def studies(self, request: Request) -> Response:
        found = {
            head.digest: await self._hub.statuses(study=head.digest, limit=ROUNDS_OF_A_STUDY)
            for head in await self._hub.heads()
        }
        return self._site.page(request, "studies.html", studies=found, words=WORDS)

    async def study(self, request: Request) -> Response:
        digest = request.path_params["digest"]
        stored = await self._hub.study(digest)

        async def figures() -> dict[str, Any]:
            async with self._site.computing:
                return await asyncio.to_thread(_study_figures, stored.preview)

        after = request.query_params.get("after")
        statuses = await self._hub.statuses(study=digest, after=after, limit=ROUNDS_A_PAGE + 1)
        return self._site.page(
            request,
            "study.html",
            study=stored,
            rounds=statuses[:ROUNDS_A_PAGE],
            more=len(statuses) > ROUNDS_A_PAGE,
            words=WORDS,
            **await self._studies.get(digest, figures),
        )

    async def round(self, request: Request) -> Response:
        live = await self._live(request)
        return self._site.page(
            request, "round.html", **self._state(live), roster=self._roster(request, live)
        )

    async def live(self, request: Request) -> Response:
        """The part of the page that changes, as soon as it is newer than `after`."""
        live = await self._live(request)
        try:
            after = int(request.query_params.get("after", ""))
        except ValueError:
            raise Problem(422, Reason.INVALID, "after: not a version") from None
        await live.status_after(after, LONGEST_WAIT)
        return self._site.page(request, "round-state.html", **self._state(live))

    def _state(self, live: LiveRound) -> dict[str, Any]:
        status = live.status()
        done, total = progress(status)
        plan = None if live.seats is None else live.seats.plan
        return {
            "status": status,
            "name": phase(status).title,
            "sentence": sentence(status),
            "steps": steps(status),
            "words": WORDS,
            "connected": connected(status),
            "done": done,
            "total": total,
            "over": live.over,
            "received_bytes": live.received_bytes,
            "dropped": max(status.enrolled - status.alive, 0) if plan is not None else 0,
            "needed": None if plan is None else plan.parameters.minimum_survivors,
        }

    def _roster(self, request: Request, live: LiveRound) -> dict[str, Any] | None:
        """Names and keys, for the operator alone."""
        if live.seats is None or not is_operator(self._site.sessions, request):
            return None
        known = live.seats.roster
        shown = zip(known.names[:LONGEST_LIST], known.identities[:LONGEST_LIST], strict=True)
        return {
            "members": [(name, fingerprint(key)) for name, key in shown],
            "more": len(known) - min(len(known), LONGEST_LIST),
        }

    async def _live(self, request: Request) -> LiveRound:
        return await self._hub.live(request.path_params["round_id"])


def _study_figures(draft: bytes) -> dict[str, Any]:
    plan = Plan.from_bytes(draft)
    return {
        "described": describe(plan.study),
        "figures": plan_figures(plan),
        "explained": explained(plan),
    }
