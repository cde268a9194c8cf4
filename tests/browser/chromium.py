"""The browser that the tests and the screenshots use: a real Chromium, without a network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.service.coordinators import OPERATOR

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-features=WebCryptoPQC",  # ML-KEM, which some builds have and leave out
]
PATIENCE = 60_000
"""Milliseconds; a page waits for what a machine does that runs other tests too."""

expect.set_options(timeout=PATIENCE)


def executable() -> str | None:
    """Debian's, or what CHROMIUM names."""
    named = os.environ.get("CHROMIUM")
    return named or shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


def sign_in(page: Page, address: str, token: str = OPERATOR) -> None:
    page.goto(f"{address}/sign-in")
    page.get_by_label("Operator token").fill(token)
    page.get_by_role("button", name="Sign in").click()
