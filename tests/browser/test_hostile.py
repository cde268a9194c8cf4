"""Names that somebody else chose are shown as text, on every page that shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from dhdmm.aggregation.roster import Roster
from dhdmm.network.roster import RosterFile
from dhdmm.planning.draft import plan
from dhdmm.server.studies import add_study, next_round
from dhdmm.study.spec import Study
from tests.browser.chromium import sign_in
from tests.service.coordinators import Listening
from tests.service.server.rounds import identity_of
from tests.web.coordinators import add_finished, served, synthetic

pytestmark = pytest.mark.slow

SCRIPT = "<script>document.title='taken'</script>"
IMAGE = "<img src=x onerror=document.title='taken'>"
QUOTES = "\"' onmouseover=\"document.title='taken'"
BRACES = "{{ 7 * 7 }} {% raw %}"
TURNED = "left \u202eright\u2066 \u200f"
LONG = "Donaudampfschifffahrt" * 9


def hostile_study() -> Study:
    values = [SCRIPT, IMAGE, QUOTES, BRACES, TURNED, LONG]
    workload = [
        {"name": f"{SCRIPT} {QUOTES}", "by": ["group"]},
        {"name": LONG[:100], "by": ["age"]},
    ]
    return Study.from_text(
        json.dumps(
            {
                "study": f"{IMAGE} {QUOTES} {TURNED}",
                "schema": {
                    "group": {"type": "category", "values": values},
                    "age": {"type": "integer", "range": [0, 30]},
                },
                "workload": workload,
                "privacy": {
                    "unit": "record",
                    "epsilon": 1.0,
                    "delta": 1e-6,
                    "corrupt_fraction": 0.1,
                },
                "aggregation": {
                    "threat_model": "malicious",
                    "participants": 12,
                    "max_dropout": 0.1,
                    "max_records_per_participant": 50,
                },
            }
        )
    )


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Listening, list[str]]]:
    """Every page that shows what a study or a participant is called."""
    folder: Path = tmp_path_factory.mktemp("hostile")
    with served(folder, public=True) as made:
        study = hostile_study()
        drafted = plan(study)
        first, second = (add_finished(made, study, synthetic(drafted, seed)) for seed in (1, 2))
        names = (SCRIPT, IMAGE, QUOTES, BRACES, LONG[:60], *(f"site {i}" for i in range(7)))
        keys = tuple(identity_of(i).public for i in range(12))
        stored = add_study(made.database, study)
        live = next_round(made.database, stored, RosterFile(Roster(names, keys)))
        base = f"/releases/{first}"
        yield (
            made,
            [
                "/",
                f"/studies/{study.digest.hex()}",
                f"/rounds/{live}",
                base,
                f"{base}/tables/1",
                f"{base}/tables/2",
                f"{base}/ask?sql=%3Cscript%3Edocument.title%3D'taken'%3C/script%3E",
                f"{base}/compare?with={second}",
            ],
        )


@pytest.mark.fault(37)
def test_hostile_names_are_shown_as_text(page: Page, hostile: tuple[Listening, list[str]]) -> None:
    coordinator, paths = hostile
    sign_in(page, coordinator.address)
    alarms: list[str] = []
    page.on("console", lambda message: alarms.append(message.text))
    page.on("dialog", lambda dialog: alarms.append(dialog.message))
    page.set_viewport_size({"width": 360, "height": 740})
    for path in paths:
        page.goto(coordinator.address + path)
        assert page.title() != "taken", path
        assert page.locator("main img, main script, [onmouseover]").count() == 0, path
        assert "\u202e" not in page.content(), path
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
    assert [alarm for alarm in alarms if "422" not in alarm] == []
    page.goto(coordinator.address + paths[1])
    expect(page.get_by_role("heading", level=1)).to_contain_text(IMAGE)
    expect(page.locator("main")).to_contain_text(BRACES)
    page.goto(coordinator.address + paths[2])
    page.get_by_text("12 names and keys").click()
    expect(
        page.get_by_role("cell", name=SCRIPT).or_(page.get_by_text(SCRIPT)).first
    ).to_be_visible()


@pytest.mark.fault(37)
def test_without_escaping_the_same_name_would_run(
    page: Page, hostile: tuple[Listening, list[str]]
) -> None:
    """The name is a real attack: a page that trusts it, without the policy, is taken over."""
    page.set_content(f"<h1>{IMAGE}</h1>")
    page.wait_for_function("document.title === 'taken'")


@pytest.mark.fault(37)
def test_public_pages_name_nobody(page: Page, hostile: tuple[Listening, list[str]]) -> None:
    coordinator, paths = hostile
    for path in paths:
        response = page.goto(coordinator.address + path)
        assert response is not None
        assert response.status in (200, 422), path
        content = page.content()
        assert "site 3" not in content, path
        assert identity_of(3).public.hex()[:16] not in content, path
    page.goto(coordinator.address + paths[2])
    expect(page.locator("main")).to_contain_text("Invited")
    assert page.get_by_text("names and keys").count() == 0


def test_public_pages_still_leave_the_operators_to_the_operator(
    hostile: tuple[Listening, list[str]],
) -> None:
    coordinator, _ = hostile
    answer = httpx.get(f"{coordinator.address}/builder", headers={"Accept": "text/html"})
    assert answer.status_code in (303, 404)
