"""People with a browser, and people with `dhdmm join`, in one round of a real leader and helper."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from dhdmm.aggregation.identity import Identity
from dhdmm.cli.invite import invite
from dhdmm.client.ending import Ending
from dhdmm.client.home import Home
from dhdmm.errors import DhdmmError
from dhdmm.network import identity as identities
from dhdmm.network.identity import NamedIdentity
from dhdmm.network.roster import Pin, RosterFile
from dhdmm.release.verify import verify
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study
from tests.browser.test_report import TEXT
from tests.cli.commands import called
from tests.protocol.network import Stream
from tests.service.participant.people import Coordinator, Person, coordinator
from tests.twoservers.test_service import KEY, KNOWN, helper, link

pytestmark = pytest.mark.slow

PHONE = {"width": 375, "height": 760}
STUDY = Study.from_text(TEXT.format(sealing="mlkem768-x25519"))


@dataclass(frozen=True)
class Invited:
    """A leader and a helper that run, and what the registrar has made."""

    leader: Coordinator
    folder: Path

    @property
    def links(self) -> list[str]:
        """As they were written, with the leader's address of this test."""
        lines = (self.folder / "invitations" / "links.txt").read_text().splitlines()
        return [line.replace("https://leader.example:8443", self.leader.address) for line in lines]

    def person(self, number: int, codes: list[int]) -> Person:
        """Whoever takes part with the key of a link, and `dhdmm join`."""
        fields = dict(part.split("=") for part in self.links[number].partition("#")[2].split("&"))
        named = NamedIdentity(f"invitation {number + 1}", Identity(bytes.fromhex(fields["key"])))
        home = Home(self.folder / f"person {number}")
        home.root.mkdir(mode=0o700)
        pin = Pin(registrar=bytes.fromhex(fields["registrar"]))
        return Person(named, home, Histogram.of_records(np.array([codes])), KNOWN, pin)


@contextmanager
def invited(folder: Path) -> Iterator[Invited]:
    identities.create(folder / "registrar.json", "the registrar", Stream("a registrar"))
    printed = called(
        invite,
        *("4", "--address", "https://leader.example:8443", "--helper", KEY.hex()),
        *("--registrar", folder / "registrar.json", "--out", folder / "invitations"),
        *("--study", STUDY.name),
    )
    assert "4 links in" in printed
    roster = RosterFile.load(folder / "invitations" / "roster.json")
    with (
        helper(folder) as second,
        coordinator(
            folder, STUDY, roster, public=True, helper=link(*second), helper_key=KEY
        ) as leader,
    ):
        yield Invited(leader, folder)


@contextmanager
def phone(browser: Browser) -> Iterator[Page]:
    """A browser of its own, as narrow as a telephone."""
    context = browser.new_context(viewport=PHONE, ignore_https_errors=True)
    try:
        yield context.new_page()
    finally:
        context.close()


def fill(page: Page, age: int, sex: str) -> None:
    page.get_by_label("age").fill(str(age))
    page.get_by_label("sex").select_option(sex)
    page.get_by_role("button", name="Take part").click()


def test_browsers_and_programs_make_one_release(browser: Browser, tmp_path: Path) -> None:
    with invited(tmp_path) as made:
        sent: list[str] = []
        for number, sex in ((0, "F"), (1, "")):  # who tells nothing is counted as such
            with phone(browser) as page:
                page.on("request", lambda request: sent.append(request.url))
                page.goto(made.links[number])
                expect(page.locator("h1")).to_contain_text("one record each")
                expect(page.locator("#tables")).to_contain_text("both: counts by age, sex")
                expect(page.locator("#safe")).to_contain_text("while one of two servers")
                fill(page, 3 + number, sex)
                expect(page.locator("h1")).to_have_text("Thank you")
                page.reload()
                expect(page.locator("#said")).to_contain_text("has arrived")
        assert all(url.startswith(made.leader.address) for url in sent)
        assert not any("key=" in url for url in sent if "#" not in url)
        persons = [made.person(2, [9, 1]), made.person(3, [0, 0])]
        made.leader.consent(*persons)
        outcomes = made.leader.join_all(persons)
        assert {outcome.ending for outcome in outcomes} == {Ending.RELEASED}
        release = made.leader.join(persons[0], whole=True).verified.release
        assert release.survivors == 4
        assert "signed its half of the sum" in " ".join(verify(release.transcript).checks)
        counted = Histogram.of_records(np.array([[3, 0], [4, 2], [9, 1], [0, 0]]))
        exact = STUDY.workload and release.plan.strategy.reconstruct(
            release.plan.strategy.measure(counted)
        )
        error = np.abs(release.answers - exact) / release.standard_errors
        assert np.all(error < 6)  # of 40 answers: a false alarm in 10⁷ runs
        assert np.any(error > 1e-3)


def test_nothing_is_sent_to_another_helper_or_under_another_roster(
    browser: Browser, tmp_path: Path
) -> None:
    """The same page, with the invitation's own keys, takes part: see above."""
    other = Identity.generate(Stream("somebody else")).public.hex()
    with invited(tmp_path) as made, phone(browser) as page:
        whole = made.links[0]
        page.goto(whole.replace(KEY.hex(), other))
        expect(page.get_by_role("alert")).to_contain_text("another helper")
        registrar = whole.rpartition("registrar=")[2]
        page.goto("about:blank")
        page.goto(whole.replace(registrar, other))
        fill(page, 3, "F")
        expect(page.get_by_role("alert")).to_contain_text(
            "not the one of your invitation's registrar"
        )
        page.goto("about:blank")
        page.goto(whole.partition("&")[0])
        expect(page.get_by_role("alert")).to_contain_text("the whole link")
        assert [status.received for status in made.leader.hub.live_statuses()] == [0]


def test_a_browser_without_ml_kem_says_so_before_a_record_is_entered(
    browser: Browser, tmp_path: Path
) -> None:
    """The same browser with it takes part: see above."""
    with invited(tmp_path) as made, phone(browser) as page:
        page.add_init_script(
            """const generate = crypto.subtle.generateKey.bind(crypto.subtle);
            crypto.subtle.generateKey = (name, ...rest) => name === "ML-KEM-768"
              ? Promise.reject(new DOMException("Unrecognized name", "NotSupportedError"))
              : generate(name, ...rest);"""
        )
        page.goto(made.links[0])
        expect(page.get_by_role("alert")).to_contain_text("it has no ML-KEM-768, by which")
        expect(page.get_by_role("button", name="Take part")).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_of_it(browser: Browser, tmp_path: Path, scheme: str) -> None:
    context = browser.new_context(viewport=PHONE, ignore_https_errors=True, color_scheme=scheme)
    page = context.new_page()
    with invited(tmp_path) as made:
        page.goto(made.links[0])
        expect(page.get_by_role("button", name="Take part")).to_be_visible()
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) == 0
        page.get_by_label("age").fill("12")
        page.get_by_role("button", name="Take part").click()  # the browser itself objects
        assert page.evaluate("document.querySelector('input').validity.valid") is False
    context.close()


def test_links_are_for_their_owner_and_made_once(tmp_path: Path) -> None:
    identities.create(tmp_path / "registrar.json", "the registrar", Stream("a registrar"))
    arguments = (
        *("3", "--address", "https://leader.example", "--helper", KEY.hex(), "--json"),
        *("--registrar", tmp_path / "registrar.json", "--out", tmp_path / "made"),
    )
    said = json.loads(called(invite, *arguments))
    links = Path(said["links"])
    assert stat.S_IMODE(links.stat().st_mode) == 0o600
    keys = {line.partition("key=")[2][:64] for line in links.read_text().splitlines()}
    roster = RosterFile.load(Path(said["roster"])).roster
    assert {Identity(bytes.fromhex(key)).public for key in keys} == set(roster.identities)
    with pytest.raises(DhdmmError, match="exists"):
        called(invite, *arguments)
