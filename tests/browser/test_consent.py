"""`dhdmm join --page`: a real participant whose owner reads, clicks and watches in a browser."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest
from playwright.sync_api import Page, Request, expect

from dhdmm.server.enrolment import make_tokens
from dhdmm.server.studies import add_study, current_round
from dhdmm.study.spec import Study
from tests.browser.participants import joining
from tests.round.small import small_text
from tests.service.coordinators import Listening
from tests.web.coordinators import served

pytestmark = pytest.mark.slow


@pytest.fixture
def invited(tmp_path: Path):
    """A coordinator with a round for three, and a token for each."""
    text = small_text(threat_model="semi-honest", participants=3, corrupt=0.0, dropout=0.0)
    with served(tmp_path) as here:
        round_id = current_round(here.database, add_study(here.database, Study.from_text(text)))
        with here.database.turn(round_id) as turn:
            tokens = make_tokens(turn, 3, 600)
        yield here, tokens


def tables(folder: Path) -> list[Path]:
    made = [folder / f"table {number}.csv" for number in range(3)]
    for table in made:
        table.write_text("age,sex\n" + "7,F\n3,M\n" * 5)
    return made


def printed_address(said: Path, process: Popen[str]) -> str:
    """Where the participant says its page is."""
    while process.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:\d+/\?key=\S+", said.read_text())
        if found:
            return found[0]
        time.sleep(0.05)
    raise AssertionError(said.read_text())


def ended(process: Popen[str], said: Path) -> tuple[int, str]:
    return process.wait(30), said.read_text()


def test_reads_what_is_asked_consents_and_sees_the_verified_release(
    page: Page, invited: tuple[Listening, list[str]], tmp_path: Path, forked_dhdmm: Path
):
    here, tokens = invited
    files, sent = tables(tmp_path), []
    note: Callable[[Request], None] = lambda request: sent.append(request)  # noqa: E731
    with (
        joining(forked_dhdmm, here.address, tmp_path, files[:1], tokens[:1], "--page") as (mine,),
        joining(forked_dhdmm, here.address, tmp_path / "others", files[1:], tokens[1:], "--yes"),
    ):
        said = tmp_path / "participant 0" / "said"
        address = printed_address(said, mine)
        page.on("request", note)
        page.goto(address)
        assert page.url == address.partition("?")[0]  # the key has gone from the address
        expect(page.locator("h1")).to_contain_text("small")
        expect(page.get_by_role("region", name="Tables")).to_contain_text("both")
        expect(page.locator("main")).to_contain_text("Left afterwards")
        expect(page.locator("main")).to_contain_text("who gives no name, at http://127.0.0.1")
        expect(page.get_by_role("button", name="Take part")).to_have_count(1)
        page.get_by_role("button", name="Take part").click()
        expect(page.locator("#said")).to_be_visible()
        expect(page.locator("#ending")).to_contain_text(
            "Your input is in the release, as it left here"
        )
        code, words = ended(mine, said)
    assert code == 0, words
    assert "as they left here" in words
    assert {request.url.split("/")[2] for request in sent} == {address.split("/")[2]}


def test_whoever_stays_out_spends_and_sends_nothing(
    page: Page, invited: tuple[Listening, list[str]], tmp_path: Path, forked_dhdmm: Path
):
    here, tokens = invited
    files = tables(tmp_path)[:1]
    with joining(forked_dhdmm, here.address, tmp_path, files, tokens[:1], "--page") as (mine,):
        said = tmp_path / "participant 0" / "said"
        page.goto(printed_address(said, mine))
        page.get_by_role("button", name="Stay out").first.click()
        expect(page.locator("h1")).to_have_text("You do not take part")
        code, words = ended(mine, said)
    assert code == 4, words
    assert "nothing was sent" in words
    assert not (tmp_path / "participant 0" / "consents").exists()
    assert [status.enrolled for status in here.hub.live_statuses()] == [0]
