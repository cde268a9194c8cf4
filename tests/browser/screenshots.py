"""`make screenshots`: the pages as the documentation shows them, in docs/images.

Three hospitals' discharges are counted here, twice; another round of theirs is left under way.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Browser

import dhdmm
from dhdmm.service.studies import add_study
from tests.browser.chromium import chromium, sign_in
from tests.web.coordinators import Served, add_finished, add_round, served

PROJECT = Path(__file__).parents[2]
IMAGES = PROJECT / "docs" / "images"
EXAMPLE = PROJECT / "examples" / "hospitals"
HOSPITALS = ("north", "south", "river")
WIDE, PHONE = {"width": 1100, "height": 760}, {"width": 360, "height": 740}


def main(out: Path = IMAGES) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as coordinator:
        rounds = fill(coordinator)
        with chromium() as browser:
            take(browser, coordinator.address, rounds, out)


def fill(coordinator: Served) -> dict[str, str]:
    """Two finished rounds and one under way."""
    study = dhdmm.Study.load(EXAMPLE / "study.yaml")
    plan = dhdmm.plan(study)
    tables = [EXAMPLE / "data" / f"{name}.csv" for name in HOSPITALS]
    for number in (1, 2):
        release = replace(dhdmm.run(plan, tables), round_id=bytes([number * 17] * 16))
        add_finished(coordinator, study, release)
    stored = add_study(coordinator.database, study)
    add_round(coordinator, stored, "33" * 16, enrolled=2)
    return {"study": stored.digest, "release": "11" * 16, "live": "33" * 16}


def take(browser: Browser, address: str, rounds: dict[str, str], out: Path) -> None:
    release = f"/releases/{rounds['release']}"
    question = "SELECT+sex,+COUNT(*)+FROM+data+WHERE+ward+IN+('surgery',+'medicine')+GROUP+BY+sex"
    pages = {
        "pages-studies": "/",
        "pages-study": f"/studies/{rounds['study']}",
        "pages-round": f"/rounds/{rounds['live']}",
        "pages-release": release,
        "pages-bars": f"{release}/tables/1",
        "pages-heat": f"{release}/tables/2",
        "pages-lines": f"{release}/tables/3",
        "pages-ask": f"{release}/ask?sql={question}",
        "pages-refused": f"{release}/ask?sql=SELECT+COUNT(*)+FROM+data+WHERE+age+>=+70",
        "pages-compare": f"{release}/compare?with={'22' * 16}",
    }
    for theme, suffix, size in (
        ("light", "", WIDE),
        ("dark", "-dark", WIDE),
        ("light", "-phone", PHONE),
    ):
        context = browser.new_context(color_scheme=theme, viewport=size)
        page = context.new_page()
        sign_in(page, address)
        for name, path in pages.items():
            page.goto(address + path)
            page.screenshot(path=out / f"{name}{suffix}.png", full_page=True)
        context.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
