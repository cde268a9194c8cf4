"""Pages at the width of a phone: nothing is cut or has to be scrolled sideways, all is legible."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from dhdmm.planning.draft import plan
from dhdmm.server.studies import add_study, next_round
from dhdmm.study.spec import Study
from tests.browser.chromium import sign_in
from tests.service.coordinators import Listening
from tests.service.server.rounds import roster_file
from tests.web.coordinators import add_finished, served, synthetic
from tests.web.test_consent import consent_page

WIDTH = 375
SMALLEST_LABEL = 9  # pixels
STUDY = """
study: emergency visits of a region with a long name
schema:
  week: {type: integer, range: [1, 20], missing: not recorded}
  triage: {type: category, values: [immediate, very urgent, urgent, standard, non-urgent]}
  sex: {type: category, values: [female, male]}
  place: {type: category, values: [University Hospital of the Northern District, Harbour, Hill]}
  day: {type: date, range: [2024-01-01, 2024-01-05]}
workload:
  - {name: bars, by: [triage]}
  - {name: heat, by: [place, triage], with_totals: [place, triage]}
  - {name: curve, by: [week]}
  - {name: curves, by: [week, sex]}
  - {name: small plots, by: [week, sex, place]}
  - {name: prefixes, ranges: {of: week, kind: prefix}, by: [triage]}
  - {name: ranges, ranges: {of: week, kind: all}}
  - {name: three ways, by: [triage, sex, place]}
  - {name: everybody, total: true}
  - {name: middle days, quantiles: {of: day, at: [0.25, 0.5], by: [place]}}
  - {name: mean week, mean: {of: week, by: [triage]}}
  - {name: rows, coverage: true}
privacy: {unit: record, epsilon: 1.0, delta: 1e-6, corrupt_fraction: 0.1}
aggregation: {threat_model: malicious, participants: 12, max_records_per_participant: 200000}
"""
CUT_ROWS = """() => [...document.querySelectorAll('.rows.answers tbody tr')].filter((row) => {
  const cells = ['.value', '.low', '.high'].map((kind) => row.querySelector(kind));
  return cells.some((cell) => {
    if (!cell || !cell.textContent.trim()) return true;
    const { left, right, width } = cell.getBoundingClientRect();
    return width < 8 || left < 0 || right > innerWidth;
  });
}).map((row) => row.textContent)"""
SCROLLING = """() => [...document.querySelectorAll('*')].filter((one) =>
  one.scrollWidth > one.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(one).overflowX)
  && one.tagName !== 'TEXTAREA').map((one) => one.className || one.tagName)"""
LABELS = """() => {
  const shown = [...document.querySelectorAll('.chart svg')].filter((svg) => svg.clientWidth);
  return shown.flatMap((svg) => {
    const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
    return [...svg.querySelectorAll('text')].filter((one) => one.textContent).map((one) => {
      const { left, right, top, bottom } = one.getBoundingClientRect();
      const size = parseFloat(getComputedStyle(one).fontSize) * scale;
      const room = [left - box.left, box.right - right, top - box.top, box.bottom - bottom];
      return [one.textContent, size, ...room];
    });
  });
}"""

DIGITS = r"document.body.innerText.match(/\b(?=\w*\d)[0-9a-f]{8,}\b/g)"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Listening, list[str]]]:
    """Two large releases and a round under way; the addresses of all their pages."""
    study = Study.from_text(STUDY)
    made = plan(study)
    with served(tmp_path_factory.mktemp("phone")) as here:
        first, second = (
            add_finished(here, study, synthetic(made, seed, largest=2_000_000_000))
            for seed in (1, 2)
        )
        live = next_round(here.database, add_study(here.database, study), roster_file())
        base = f"/releases/{first}"
        tables = [f"{base}/tables/{i + 1}" for i in range(len(study.workload.items))]
        asked = f"{base}/ask?sql=SELECT+sex,+COUNT(*)+FROM+data+GROUP+BY+sex"
        asked_first = f"{asked}+ORDER+BY+COUNT(*)+DESC+LIMIT+1"
        others = ["/", f"/studies/{study.digest.hex()}", f"/rounds/{live}", base, f"{base}/ask"]
        yield here, [*others, f"{base}/compare?with={second}", asked, asked_first, *tables]


@pytest.fixture(params=["light", "dark"])
def phone(
    request: pytest.FixtureRequest, page: Page, library: tuple[Listening, list[str]]
) -> Iterator[Page]:
    page.set_viewport_size({"width": WIDTH, "height": 740})
    page.emulate_media(color_scheme=request.param)
    sign_in(page, library[0].address)
    return page


def test_every_value_interval_and_label_is_in_view_and_digits_are_behind_digests(
    phone: Page, library: tuple[Listening, list[str]]
) -> None:
    here, paths = library
    rows = labels = 0
    for path in paths:
        phone.goto(here.address + path)
        assert phone.evaluate("document.documentElement.scrollWidth") <= WIDTH, path
        assert phone.evaluate(SCROLLING) == [], path
        assert phone.evaluate(CUT_ROWS) == [], path
        found = phone.evaluate(LABELS)
        assert [one for one in found if one[1] < SMALLEST_LABEL] == [], path
        assert [one for one in found if min(one[2:]) < -1] == [], path
        rows += phone.locator(".rows.answers tbody tr").count()
        labels += len(found)
        assert not phone.get_by_text("0x").count()
        assert phone.evaluate(DIGITS) is None, path
    assert rows > 300
    assert labels > 150


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_participants_own_page_is_read_without_scrolling_sideways(
    page: Page, scheme: str
) -> None:
    page.set_viewport_size({"width": WIDTH, "height": 740})
    page.emulate_media(color_scheme=scheme)
    with consent_page().served() as address:
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= WIDTH
        assert page.evaluate(SCROLLING) == []
        tables = page.get_by_role("region", name="Tables")
        errors = tables.locator("td[data-before='standard error']")
        assert errors.count() > 1
        for box in (one.bounding_box() for one in errors.all()):
            assert box is not None
            assert box["x"] + box["width"] <= WIDTH
