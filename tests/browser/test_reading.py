"""Reading in a real browser: a release, its charts, questions and files; a live round."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from playwright.sync_api import Page, expect

from dhdmm.planning.draft import plan
from dhdmm.release.release import Release
from dhdmm.server.studies import add_study, current_round
from dhdmm.study.spec import Study
from tests.browser.chromium import sign_in
from tests.round.small import small_text
from tests.service.coordinators import Listening
from tests.service.server.rounds import PARTICIPANTS, roster_file, visitors
from tests.web.coordinators import add_finished, served, synthetic

pytestmark = pytest.mark.slow

SF1 = Path(__file__).parents[2] / "examples" / "census-sf1" / "study.yaml"
MOST_ELEMENTS = 5000
MOST_BYTES = 400_000


@pytest.fixture(scope="module")
def small() -> tuple[Study, list[Release]]:
    study = Study.from_text(small_text())
    made = plan(study)
    return study, [synthetic(made, seed) for seed in (1, 2)]


@pytest.fixture(scope="module")
def library(
    tmp_path_factory: pytest.TempPathFactory, small: tuple[Study, list[Release]]
) -> Iterator[Listening]:
    """A coordinator with two releases of one small study."""
    with served(tmp_path_factory.mktemp("library")) as made:
        for release in small[1]:
            add_finished(made, small[0], release)
        yield made


@pytest.fixture
def reader(page: Page, library: Listening) -> Page:
    sign_in(page, library.address)
    return page


def test_from_the_list_of_studies_to_a_table(reader: Page, library: Listening, small) -> None:
    release = small[1][0]
    reader.get_by_role("link", name="small", exact=True).click()
    expect(reader.get_by_role("heading", name="What it means for one record")).to_be_visible()
    expect(reader.locator("main")).to_contain_text("conspire with the coordinator")
    reader.get_by_role("link", name="Release").last.click()
    expect(reader.get_by_role("heading", name="Release of small")).to_be_visible()
    reader.get_by_role("link", name="young").click()
    expect(reader.get_by_role("heading", name="young")).to_be_visible()
    first = reader.locator("tbody tr").first.locator("td.n").first.inner_text()
    assert float(first.replace("−", "-").replace(",", "")) == pytest.approx(
        release["young"].values[0], abs=0.51
    )


def test_values_read_back_from_the_rendered_chart_are_the_answers(
    reader: Page, library: Listening, small
) -> None:
    release = small[1][0]
    reader.goto(f"{library.address}/releases/{release.round_id.hex()}/tables/2")
    drawn = reader.evaluate(
        """() => {
          const box = (mark) => mark.getBoundingClientRect();
          const ticks = [...document.querySelectorAll('.wide [data-tick]')]
            .map((tick) => [Number(tick.dataset.tick), box(tick).x + box(tick).width / 2]);
          const zero = box(document.querySelector('.wide .zero')).x;
          const bars = [...document.querySelectorAll('.wide .bar')]
            .map((bar) => [Number(bar.dataset.value), box(bar).left, box(bar).right]);
          return {ticks, zero, bars};
        }"""
    )
    values = release["young"].values
    assert [bar[0] for bar in drawn["bars"]] == pytest.approx(values)
    slope, start = np.polyfit(*zip(*[(x, count) for count, x in drawn["ticks"]], strict=True), 1)
    ends = [right if value > 0 else left for value, left, right in drawn["bars"]]
    seen = [slope * x + start for x in ends]
    assert seen == pytest.approx(values, abs=2 * slope)  # two pixels of the screen
    assert np.ptp(seen) > 20 * slope


def test_questions_are_answered_or_refused_with_the_nearest(
    reader: Page, library: Listening, small
) -> None:
    release = small[1][0]
    reader.goto(f"{library.address}/releases/{release.round_id.hex()}")
    reader.get_by_label("A question in SQL").fill("SELECT COUNT(*) FROM data WHERE age >= 5")
    reader.get_by_role("button", name="Ask").click()
    expect(reader.get_by_role("heading", name="1 answer")).to_be_visible()
    value = float(reader.locator(".wide .bar").get_attribute("data-value") or "nan")
    expected = release.query("SELECT COUNT(*) FROM data WHERE age >= 5").values[0]
    assert value == pytest.approx(expected)
    reader.get_by_label("A question in SQL").fill("SELECT COUNT(*) FROM data WHERE agee > 5")
    reader.get_by_role("button", name="Ask").click()
    expect(reader.get_by_role("alert")).to_contain_text("agee")


def test_a_table_is_downloaded_with_every_digit(reader: Page, library: Listening, small) -> None:
    release = small[1][0]
    reader.goto(f"{library.address}/releases/{release.round_id.hex()}/tables/1")
    with reader.expect_download() as found:
        reader.get_by_role("link", name="CSV").click()
    assert found.value.suggested_filename == "both.csv"
    lines = Path(found.value.path()).read_text().splitlines()
    assert float(lines[1].split(",")[2]) == release["both"].values[0]
    with reader.expect_download() as found:
        reader.get_by_role("link", name="JSON").click()
    rows = json.loads(Path(found.value.path()).read_text())
    assert [row["value"] for row in rows] == release["both"].values.tolist()


def test_two_releases_side_by_side(reader: Page, library: Listening, small) -> None:
    first, second = small[1]
    reader.goto(f"{library.address}/releases/{first.round_id.hex()}")
    reader.get_by_role("button", name="Compare").click()
    expect(reader.get_by_role("heading", name="Two releases of small")).to_be_visible()
    numbers = reader.locator("#rows ~ .box tbody tr").first.locator("td.n").all_inner_texts()
    difference = float(numbers[2].replace("−", "-").replace(",", ""))
    expected = second["both"].values[0] - first["both"].values[0]
    assert difference == pytest.approx(expected, abs=0.51)


def test_rows_are_sorted_by_what_is_clicked(reader: Page, library: Listening, small) -> None:
    release = small[1][0]
    reader.goto(f"{library.address}/releases/{release.round_id.hex()}/tables/1")
    reader.get_by_role("link", name="Answer", exact=True).click()
    shown = reader.locator("tbody tr td.n:nth-of-type(3)").all_inner_texts()
    values = [float(text.replace("−", "-").replace(",", "")) for text in shown]
    assert values == sorted(values, reverse=True)
    expect(reader.locator("th[aria-sort=descending]")).to_contain_text("Answer")


def test_signing_out_ends_it(reader: Page, library: Listening) -> None:
    reader.get_by_role("button", name="Sign out").click()
    reader.goto(library.address)
    expect(reader.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_wrong_token_shows_nothing(page: Page, library: Listening, small) -> None:
    page.goto(f"{library.address}/releases/{small[1][0].round_id.hex()}")
    page.get_by_label("Operator token").fill("a guess")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not the token")
    assert "small" not in page.content()


def test_no_page_breaks_its_own_policy_or_asks_another_host(
    reader: Page, library: Listening, small
) -> None:
    said: list[str] = []
    asked: list[str] = []
    reader.on("console", lambda message: said.append(message.text))
    reader.on("request", lambda request: asked.append(request.url))
    base = f"/releases/{small[1][0].round_id.hex()}"
    for path in ("/", f"/studies/{small[0].digest.hex()}", base, f"{base}/tables/1"):
        reader.goto(library.address + path)
    assert said == []
    assert all(url.startswith(library.address) for url in asked)


# ---- a live round --------------------------------------------------------------------------------


def test_a_round_is_watched_to_its_end_without_reloading(
    signed_in: Page, coordinator: Listening
) -> None:
    study = Study.from_text(small_text())
    stored = add_study(coordinator.database, study)
    round_id = current_round(coordinator.database, stored, roster_file())
    signed_in.goto(f"{coordinator.address}/rounds/{round_id}")
    signed_in.evaluate("window.untouched = true")
    expect(signed_in.locator("[aria-current=step]")).to_contain_text("Keys")
    with ThreadPoolExecutor(1) as thread:  # the browser's own loop runs in this one
        thread.submit(asyncio.run, _everybody(coordinator, round_id)).result()
    said = signed_in.get_by_role("status")
    expect(said).to_contain_text("The round is finished. 12 of 12 were counted.")
    assert signed_in.evaluate("window.untouched")
    signed_in.get_by_role("link", name="Read the release").click()
    expect(signed_in.get_by_role("heading", name="Release of small")).to_be_visible()
    expect(signed_in.locator("main")).to_contain_text("dhdmm verify")


async def _everybody(coordinator: Listening, round_id: str) -> None:
    async with httpx.AsyncClient(base_url=coordinator.address, timeout=60) as http:
        await asyncio.gather(*(one.take_part() for one in visitors(http, round_id)))
    assert PARTICIPANTS == 12


def test_an_aborted_round_says_why(signed_in: Page, coordinator: Listening) -> None:
    stored = add_study(coordinator.database, Study.from_text(small_text()))
    round_id = current_round(coordinator.database, stored)
    signed_in.goto(f"{coordinator.address}/rounds/{round_id}")
    expect(signed_in.get_by_role("status")).to_contain_text("enrolling")
    httpx.post(
        f"{coordinator.address}/v1/rounds/{round_id}/close",
        headers={"Authorization": "Bearer the operator's token"},
    )
    expect(signed_in.get_by_role("status")).to_contain_text(
        re.compile("aborted: too few participants")
    )


# ---- a large release -----------------------------------------------------------------------------


@pytest.fixture
def census(coordinator: Listening) -> tuple[str, str]:
    """The addresses of a release with 4,151 answers and of its largest table."""
    study = Study.load(SF1)
    release = synthetic(plan(study), largest=5000)
    base = f"{coordinator.address}/releases/{add_finished(coordinator, study, release)}"
    return base, f"{base}/tables/{len(release)}"


def test_a_page_of_the_census_release_stays_small(signed_in: Page, census: tuple[str, str]) -> None:
    base, largest = census
    for address in (base, largest, f"{largest}?page=7&sort=-value"):
        signed_in.goto(address)
        assert 0 < signed_in.evaluate("document.getElementsByTagName('*').length") < MOST_ELEMENTS
        assert 0 < _bytes_received(signed_in) < MOST_BYTES
    expect(signed_in.locator("main")).to_contain_text("3,135 answers")
    assert signed_in.locator("main tbody tr").count() == 100


def _bytes_received(page: Page) -> int:
    """Of the page and of everything that it loads, before compression."""
    return int(
        page.evaluate(
            """() => [...performance.getEntriesByType('navigation'),
                      ...performance.getEntriesByType('resource')]
                 .reduce((sum, entry) => sum + entry.decodedBodySize, 0)"""
        )
    )
