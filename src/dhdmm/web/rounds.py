"""Studies and rounds: what is asked, what it will be worth, and how far it is."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dhdmm.planning.figures import plan_figures
from dhdmm.planning.plan import Plan
from dhdmm.release.transcript import collecting_states
from dhdmm.secagg.errors import AbortReason
from dhdmm.secagg.parameters import ThreatModel
from dhdmm.secagg.states import CoordinatorState
from dhdmm.service.host import LONGEST_WAIT, Host
from dhdmm.service.identity import fingerprint
from dhdmm.service.problems import Problem, Reason
from dhdmm.service.status import Status
from dhdmm.service.store import ENROLLING
from dhdmm.study.describe import describe
from dhdmm.web.explain import explained
from dhdmm.web.signin import is_operator
from dhdmm.web.site import Site

LONGEST_LIST = 500
KEPT_STUDIES = 32
ROUNDS_OF_A_STUDY, ROUNDS_A_PAGE = 5, 50
"""Rounds of each study on the first page, and on a page of the study's own."""

_C = CoordinatorState
PHASES: dict[str, tuple[str, str]] = {
    ENROLLING: ("Enrolment", "Participants are enrolling."),
    _C.COLLECTING_KEYS: ("Keys", "Everybody sends fresh keys."),
    _C.COLLECTING_CHOICES: ("Neighbours", "Everybody draws whom to share keys with."),
    _C.COLLECTING_SHARES: ("Shares", "Keys are shared in parts, in case somebody drops out."),
    _C.COLLECTING_INPUTS: ("Masked sums", "Everybody sends its sums, with noise and under masks."),
    _C.COLLECTING_ACKS: ("Agreement", "The survivors agree on who they are."),
    _C.COLLECTING_REVEALS: ("Unmasking", "The masks of the total are taken off."),
    _C.FINISHED: ("Release", "The round is finished."),
    _C.ABORTED: ("Aborted", "The round was aborted."),
}
"""What a phase is called, and what happens in it."""

REASONS: dict[str, str] = {
    AbortReason.MALFORMED: "a message was not readable",
    AbortReason.WRONG_SESSION: "a message belonged to another round",
    AbortReason.WRONG_PHASE: "a message came out of turn",
    AbortReason.CONFLICTING_MESSAGE: "a participant sent two different messages for one",
    AbortReason.UNPINNED_ROSTER: "nobody vouched for the roster",
    AbortReason.REFUSED_PARAMETERS: "participants refused the round's parameters",
    AbortReason.BAD_PUBLIC_KEY: "a key was not a key",
    AbortReason.BAD_SIGNATURE: "a signature did not hold",
    AbortReason.BAD_PROOF: "a proof did not lead to the announced root",
    AbortReason.BAD_CIPHERTEXT: "a share could not be opened",
    AbortReason.BAD_EVIDENCE: "the evidence of who took part did not hold",
    AbortReason.REPEATED_KEY: "two participants had the same key",
    AbortReason.TOO_MANY_NEIGHBOURS: "a participant was given more neighbours than chance allows",
    AbortReason.SECOND_ROOT: "two different sets of keys were announced",
    AbortReason.SECOND_BITMAP: "two different sets of survivors were announced",
    AbortReason.DECLARED_DEAD: "a participant that was there was declared gone",
    AbortReason.PHANTOM_SURVIVOR: "somebody who never took part was declared a survivor",
    AbortReason.TOO_FEW_PARTICIPANTS: "too few participants were left for the promised noise",
    AbortReason.TOO_FEW_ACKS: "too few participants confirmed who the survivors were",
    AbortReason.TOO_FEW_SHARES: "too few participants stayed to take the masks off",
    AbortReason.INCONSISTENT_SHARES: "shares of a key did not fit together",
    AbortReason.STOPPED: "the operator stopped it",
}


def routes(site: Site) -> list[Route]:
    pages = _Pages(site)
    return [
        site.reading("/", pages.studies),
        site.reading("/studies/{digest}", pages.study),
        site.reading("/rounds/{round_id}", pages.round),
        site.reading("/rounds/{round_id}/live", pages.live),
    ]


@dataclass(frozen=True)
class Step:
    name: str
    kind: str
    """done, now, failed or to come"""


def steps(status: Status) -> list[Step]:
    """The phases of this round's threat model, and where the round is."""
    known = [state.value for state in collecting_states(ThreatModel(status.threat_model))]
    order = [ENROLLING, *known, _C.FINISHED.value]
    if status.state == _C.ABORTED:
        return [Step(PHASES[state][0], "to come") for state in order] + [Step("Aborted", "failed")]
    now = order.index(status.state)
    finished = status.state == _C.FINISHED
    kinds = ["done" if i < now or finished else "to come" for i in range(len(order))]
    if not finished:
        kinds[now] = "now"
    return [Step(PHASES[state][0], kind) for state, kind in zip(order, kinds, strict=True)]


def progress(status: Status) -> tuple[int, int]:
    """How many of how many are there yet, in this phase."""
    if status.state == ENROLLING:
        return status.enrolled, status.maximum
    if status.state in (_C.FINISHED, _C.ABORTED):
        return status.alive, status.enrolled
    return status.received, status.invited


def sentence(status: Status) -> str:
    """The state of the round for somebody who listens."""
    if status.state == _C.ABORTED:
        reason = status.reason or ""
        why = REASONS.get(reason, reason.replace("-", " ")) or "no reason is known"
        return f"The round was aborted: {why}. Nothing about the participants was found out."
    if status.state == _C.FINISHED:
        return f"The round is finished. {status.alive:,} of {status.enrolled:,} were counted."
    return PHASES[status.state][1]


class _Pages:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._studies: OrderedDict[str, dict[str, Any]] = OrderedDict()

    async def studies(self, request: Request) -> Response:
        hub = self._site.hub
        found = {
            head.digest: await hub.statuses(study=head.digest, limit=ROUNDS_OF_A_STUDY)
            for head in await hub.heads()
        }
        return self._site.page(request, "studies.html", studies=found, phases=PHASES)

    async def study(self, request: Request) -> Response:
        digest = request.path_params["digest"]
        stored = await self._site.hub.study(digest)
        if digest not in self._studies:
            async with self._site.computing:
                work = partial(_study_figures, stored.draft)
                self._studies[digest] = await asyncio.to_thread(work)
                while len(self._studies) > KEPT_STUDIES:
                    self._studies.popitem(last=False)
        after = request.query_params.get("after")
        statuses = await self._site.hub.statuses(study=digest, after=after, limit=ROUNDS_A_PAGE + 1)
        return self._site.page(
            request,
            "study.html",
            study=stored,
            rounds=statuses[:ROUNDS_A_PAGE],
            more=len(statuses) > ROUNDS_A_PAGE,
            phases=PHASES,
            **self._studies[digest],
        )

    async def round(self, request: Request) -> Response:
        host = await self._host(request)
        return self._site.page(
            request, "round.html", **self._state(host), roster=self._roster(request, host)
        )

    async def live(self, request: Request) -> Response:
        """The part of the page that changes, as soon as it is newer than `after`."""
        host = await self._host(request)
        try:
            after = int(request.query_params.get("after", ""))
        except ValueError:
            raise Problem(422, Reason.INVALID, "after: not a version") from None
        await host.status_after(after, LONGEST_WAIT)
        return self._site.page(request, "round-state.html", **self._state(host))

    def _state(self, host: Host) -> dict[str, Any]:
        status = host.status()
        done, total = progress(status)
        plan = None if host.seats is None else host.seats.plan
        return {
            "status": status,
            "name": PHASES[status.state][0],
            "sentence": sentence(status),
            "steps": steps(status),
            "done": done,
            "total": total,
            "over": host.over,
            "received_bytes": host.received_bytes,
            "dropped": max(status.enrolled - status.alive, 0) if plan is not None else 0,
            "needed": None if plan is None else plan.graph.minimum_survivors,
        }

    def _roster(self, request: Request, host: Host) -> dict[str, Any] | None:
        """Names and keys, for the operator alone."""
        if host.seats is None or not is_operator(self._site.doors, request):
            return None
        known = host.seats.roster
        shown = zip(known.names[:LONGEST_LIST], known.identities[:LONGEST_LIST], strict=True)
        return {
            "members": [(name, fingerprint(key)) for name, key in shown],
            "more": len(known) - min(len(known), LONGEST_LIST),
        }

    async def _host(self, request: Request) -> Host:
        return await self._site.hub.host(request.path_params["round_id"])


def _study_figures(draft: bytes) -> dict[str, Any]:
    plan = Plan.from_bytes(draft)
    return {
        "described": describe(plan.study),
        "figures": plan_figures(plan),
        "explained": explained(plan),
    }
