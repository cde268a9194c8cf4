"""`make screenshots`: the pages as the documentation shows them, in docs/images.

Three hospitals' discharges are counted here, twice; another round of theirs is left under way.
"""

from __future__ import annotations

import asyncio
import io
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from PIL import Image
from playwright.sync_api import Browser, Page, expect

import dhdmm
from dhdmm.aggregation.roster import Roster
from dhdmm.client.consent import Parties, figures
from dhdmm.network.identity import fingerprint
from dhdmm.network.status import NamedKey, Status
from dhdmm.participant.policy import Policy, review_preview
from dhdmm.runner import count_tables
from dhdmm.secagg.states import ParticipantState
from dhdmm.server.studies import add_study, next_round
from dhdmm.study.histogram import Histogram
from dhdmm.web.consent import ConsentPage
from tests.browser.chromium import chromium, sign_in
from tests.service.coordinators import AS_OPERATOR, Listening
from tests.service.server.rounds import identity_of, roster_file, visitors
from tests.web.coordinators import add_finished, served

PROJECT = Path(__file__).parents[2]
IMAGES = PROJECT / "docs" / "images"
EXAMPLE = PROJECT / "examples" / "hospitals"
HOSPITALS = ("north", "south", "river")
FIRST, SECOND = "1f" * 16, "2e" * 16
QUESTION = "SELECT+sex,+COUNT(*)+FROM+data+WHERE+ward+IN+('surgery',+'medicine')+GROUP+BY+sex"


class Shot(NamedTuple):
    name: str
    path: str
    theme: str = "light"
    width: int = 960
    height: int = 720


SHOTS = [
    Shot("pages-study", "/studies/{study}", height=900),
    Shot("pages-round", "/rounds/{live}", height=560),
    Shot("pages-release", f"/releases/{FIRST}", height=620),
    Shot("pages-table", f"/releases/{FIRST}/tables/3", height=680),
    Shot("pages-table-dark", f"/releases/{FIRST}/tables/2", "dark", height=620),
    Shot("pages-question", f"/releases/{FIRST}/ask?sql={QUESTION}", height=760),
    Shot("pages-phone", f"/releases/{FIRST}/tables/1", width=375, height=1000),
    Shot("pages-builder", "/builder", height=980),
]


def main(out: Path = IMAGES) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as coordinator:
        study, live = fill(coordinator)
        with chromium() as browser:
            for shot in SHOTS:
                take(browser, coordinator.address, shot, out, study=study, live=live)
            with consent_page().served() as address:
                page = browser.new_page(viewport={"width": 960, "height": 900})
                page.goto(address)
                save(page, out / "pages-consent.png")


def consent_page() -> ConsentPage:
    """Of a hospital with the default policy, before a round among strangers to us."""
    plan = dhdmm.plan(dhdmm.Study.load(EXAMPLE / "study.yaml"))
    policy = Policy(min_participants=3, max_epsilon=2.0, person_columns=["patient"])
    status = Status(
        round=FIRST, study=plan.study.name, study_digest="", threat_model="malicious",
        state="enrolling", minimum=3, maximum=3, enrolled=0, invited=0, received=0, alive=0,
        remaining_s=None, reason=None, version=1,
    )  # fmt: skip
    key = identity_of(0).public
    company = Parties(
        "https://statistics.example:8443",
        NamedKey(name="Office of Statistics", fingerprint=fingerprint(key)),
        Roster(HOSPITALS, tuple(identity_of(i).public for i in range(len(HOSPITALS)))),
    )
    reviewed = review_preview(plan.to_bytes(), policy)
    return ConsentPage(figures(reviewed, policy, None, status, company), consented=False)


def fill(coordinator: Listening) -> tuple[str, str]:
    """Two finished rounds and one under way; the study's digest and that round."""
    study = dhdmm.Study.load(EXAMPLE / "study.yaml")
    plan = dhdmm.plan(study)
    tables = [EXAMPLE / "data" / f"{name}.csv" for name in HOSPITALS]
    for round_id in (FIRST, SECOND):
        release = replace(dhdmm.run(plan, tables), round_id=bytes.fromhex(round_id))
        add_finished(coordinator, study, release)
    stored = add_study(coordinator.database, study)
    live = next_round(coordinator.database, stored, roster_file(len(HOSPITALS)))
    histograms = [one.histogram for one in count_tables(study, tables)]
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, begin(coordinator, live, histograms)).result()
    return stored.digest, live


async def begin(coordinator: Listening, live: str, histograms: list[Histogram]) -> None:
    """A real round, up to where the last hospital is slow to send its sums."""
    async with httpx.AsyncClient(base_url=coordinator.address, timeout=60) as http:
        *quick, slow = visitors(http, live, histograms)
        present = [asyncio.create_task(one.take_part()) for one in quick]
        await slow.take_part(until=ParticipantState.AWAITING_SURVIVORS)
        while (await _status(http, live))["received"] < len(quick):
            await asyncio.sleep(0.1)
        for one in present:
            one.cancel()
        await asyncio.gather(*present, return_exceptions=True)


async def _status(http: httpx.AsyncClient, live: str) -> dict[str, Any]:
    answer = await http.get(f"/v1/rounds/{live}", headers=AS_OPERATOR)
    found: dict[str, Any] = answer.raise_for_status().json()
    return found


def take(browser: Browser, address: str, shot: Shot, out: Path, **known: str) -> None:
    size = {"width": shot.width, "height": shot.height}
    context = browser.new_context(color_scheme=shot.theme, viewport=size)
    page = context.new_page()
    sign_in(page, address)
    page.goto(address + shot.path.format(**known))
    if shot.path == "/builder":
        page.get_by_label("A study file").set_input_files(EXAMPLE / "study.yaml")
        expect(page.locator("#state")).to_have_text("Up to date.")
        page.get_by_role("group", name="Add a table").scroll_into_view_if_needed()
    save(page, out / f"{shot.name}.png")
    context.close()


def save(page: Page, path: Path) -> None:
    """In 255 colours: a third of the bytes."""
    Image.open(io.BytesIO(page.screenshot())).quantize(255).save(path, optimize=True)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
