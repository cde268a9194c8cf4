"""`dhdmm open`: a release's pages for whoever sits at this machine."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dhdmm.web.local import served_here
from dhdmm.web.pages import local_pages
from tests.release.releases import release_of

COMMAND = [sys.executable, "-c", "from dhdmm.cli.main import main; main()", "open"]


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two of the same study, of different rounds."""
    folder = tmp_path_factory.mktemp("releases")
    first, second = folder / "this year", folder / "next year"
    release_of().save(first)
    later = release_of(seed=2)
    object.__setattr__(later, "round_id", bytes(16))
    later.save(second)
    return [first, second]


@pytest.fixture
def address(releases: list[Path]) -> Iterator[str]:
    with served_here(local_pages(releases)) as made:
        yield made


@pytest.fixture
def reader(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address.partition("?")[0], timeout=30) as client:
        assert client.get(address).status_code == 303
        yield client


@pytest.mark.slow
def test_every_page_of_a_release_is_there_and_nothing_of_a_coordinator(reader: httpx.Client):
    listed = reader.get("/").text
    assert "this year" in listed
    assert "next year" in listed
    for path in ("", "/tables/1", "/tables/3", "/ask", "/tables/1.csv", "/release.json"):
        answer = reader.get(f"/releases/1{path}")
        assert answer.status_code == 200, path
        assert "Sign in" not in answer.text
        assert "/studies/" not in answer.text
    asked = reader.get("/releases/2/ask", params={"sql": "SELECT COUNT(*) FROM data"})
    assert "1 answer" in asked.text
    several = "SELECT COUNT(*) AS n, COUNT(*) / COUNT(*) AS share FROM data ORDER BY n LIMIT 1"
    shown = reader.get("/releases/2/ask", params={"sql": several})
    assert shown.status_code == 200
    assert "tend to be too high" in shown.text
    assert "<h3><bdi>share</bdi></h3>" in shown.text
    compared = reader.get("/releases/1/compare", params={"with": "2"})
    assert "Two releases of" in compared.text
    assert reader.get("/releases/3", headers={"Accept": "text/html"}).status_code == 404
    assert reader.get("/releases/1/compare", params={"with": "1"}).status_code == 404


@pytest.mark.slow
def test_every_example_of_a_question_has_an_answer(reader: httpx.Client):
    page = reader.get("/releases/1/ask").text
    assert '<dt class="code"><bdi>band</bdi></dt>' in page
    examples = re.findall(r'<a class="code" href="(\?sql=[^"]+)"', page)
    assert len(examples) >= 8
    assert any("GROUP+BY" in one for one in examples)
    for one in examples:
        answer = reader.get(f"/releases/1/ask{one}", headers={"Accept": "text/html"})
        assert answer.status_code == 200, one


@pytest.mark.slow
def test_strangers_and_other_names_see_nothing(address: str, reader: httpx.Client):
    for path in ("/", "/releases/1", "/releases/1/tables/1.csv", "/static/style.css"):
        assert httpx.get(str(reader.base_url).rstrip("/") + path).status_code == 401
        assert reader.get(path, headers={"Host": "evil.example"}).status_code == 421
    assert httpx.get(address).status_code == 401  # the printed address has opened once


@pytest.mark.slow
def test_the_command_prints_an_address_and_ends_quietly(releases: list[Path]):
    command = [*COMMAND, str(releases[0]), "--no-browser"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        said = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/\?key=\S+", said)
        assert found, said
        with httpx.Client(follow_redirects=True) as client:
            page = client.get(found[0])
        assert page.url.path == "/releases/1"
        assert "Release of small" in page.text
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.slow
def test_what_is_no_release_is_refused_before_anything_is_served(tmp_path: Path):
    done = subprocess.run([*COMMAND, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "this is not a release" in done.stderr
