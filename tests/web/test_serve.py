"""`dhdmm serve` has pages, or none, or public ones."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.cli.test_serve import serving

pytestmark = pytest.mark.slow

HTML = {"Accept": "text/html"}
OURS = {"Sec-Fetch-Site": "same-origin"}


def test_dhdmm_serve_has_pages_for_its_operator(tmp_path: Path, forked_dhdmm: Path) -> None:
    with (
        serving(forked_dhdmm, tmp_path) as (_, url),
        httpx.Client(base_url=url, headers=HTML) as browser,
    ):
        assert browser.get("/").headers["location"].startswith("/sign-in")
        token = (tmp_path / "operator").read_text().strip()
        browser.post("/sign-in", data={"token": token}, headers=OURS)
        assert "<bdi>small</bdi>" in browser.get("/").text


def test_pages_can_be_left_out_or_opened(tmp_path: Path, forked_dhdmm: Path) -> None:
    for option, status in (("--no-pages", 404), ("--public-pages", 200)):
        with serving(forked_dhdmm, tmp_path, option) as (_, url):
            assert httpx.get(url, headers=HTML).status_code == status
