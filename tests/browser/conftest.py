"""A browser for each module, a page for each test, and a picture of the page that failed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.chromium import chromium, executable, sign_in
from tests.service.coordinators import Listening
from tests.service.quick import quick_coordinators as quick_coordinators
from tests.web.coordinators import served

RESULTS = Path(__file__).parents[2] / "test-results"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of one module: while it is open, an event loop runs in this thread, and others want one."""
    if executable() is None:
        if os.environ.get("DHDMM_CI") == "1":
            pytest.fail("there is no chromium")
        pytest.skip("there is no chromium")
    with chromium() as made:
        yield made


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page in a context of its own: nobody is signed in."""
    context = browser.new_context(viewport={"width": 1100, "height": 760})
    made = context.new_page()
    yield made
    report = getattr(request.node, "report", None)
    if report is not None and report.failed:
        RESULTS.mkdir(exist_ok=True)
        name = re.sub(r"\W+", "-", request.node.nodeid).strip("-")
        made.screenshot(path=RESULTS / f"{name}.png", full_page=True)
    context.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """The page's fixture must know how the test ended."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.when == "call":
        item.report = report  # type: ignore[attr-defined]


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Listening]:
    """A coordinator without a study, whose pages are for its operator."""
    with served(tmp_path) as made:
        yield made


@pytest.fixture
def signed_in(page: Page, coordinator: Listening) -> Page:
    sign_in(page, coordinator.address)
    return page
