"""The documentation does what it says: blocks run, links lead somewhere, the site builds.

How a block is marked: `pages.py`.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import runpy
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest
import yaml

from bench.__main__ import NAMES
from dhdmm.cli import plan
from dhdmm.cli.main import COMMANDS, load
from dhdmm.errors import StudyError
from dhdmm.study import document
from dhdmm.study.spec import Study
from tests.cli.commands import called
from tests.docs import pages as pages_module
from tests.docs.pages import (
    MARKS,
    PROJECT,
    WITH_REASON,
    Block,
    blocks,
    commands,
    indented,
    links,
    name_of,
    pages,
    shape,
)
from tests.docs.reader import Reader

pytestmark = pytest.mark.slow

ABSOLUTE = re.compile(r"(?<![\w.~:/])/(?:work|home|root|Users|usr|opt|mnt|tmp|var)/")
LOADED = re.compile(r"<(?:script|img|iframe|source)[^>]*\bsrc=\"?([^\s\">]+)")
LISTING = re.compile(r"<(pre|code|svg|math|table)\b.*?</\1>", re.DOTALL)
TAG = re.compile(r"<[^>]*>")
LINKED = re.compile(r"<link[^>]*\bhref=\"?([^\s\">]+)")
BENCH = re.compile(r"`python -m bench[ .](\w+)")
MADE = re.compile(r"^make (\w+)", re.MULTILINE)
INSTALLED = re.compile(r"^pip install '\.\[(\w+)\]'", re.MULTILINE)
HOSPITALS = PROJECT / "examples" / "hospitals" / "study.yaml"
NOT_RUN: dict[str, int] = {"docs/DEPLOYING.md": 1, "docs/cli.md": 35}
"""How many blocks of which page no test runs: whoever adds one has to say so here."""


def marked_pages(*marks: str) -> list[Path]:
    return [page for page in pages() if any(block.mark in marks for block in blocks(page))]


@pytest.mark.parametrize("page", marked_pages("run"), ids=name_of)
def test_following_a_page_prints_what_it_says(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The first page with the command as it is installed, the others with one that starts fast."""
    first = page == PROJECT / "README.md"
    reader = (
        Reader(tmp_path)
        if first
        else Reader(tmp_path, programs=request.getfixturevalue("forked_dhdmm"))
    )
    for block in blocks(page):
        reader.follow(block)


@pytest.mark.soak
@pytest.mark.parametrize("page", marked_pages("run, long"), ids=name_of)
def test_following_a_page_through_its_long_commands(page: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path, patient=True)
    for block in blocks(page):
        reader.follow(block)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_block_says_what_it_is_for(page: Path) -> None:
    wrong = [
        block.place
        for block in blocks(page)
        if block.mark not in MARKS or (block.mark in WITH_REASON) != bool(block.reason)
    ]
    assert wrong == [], "how to mark a block is said in tests/docs/pages.py"
    assert indented(page) == [], "a block is fenced and marked"


def test_a_block_without_a_mark_or_a_fence_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = PROJECT / "docs" / "tutorial.md"
    text = page.read_text(encoding="utf-8")
    marks = [block.mark for block in blocks(page)]
    careless = (
        text.replace("<!-- run -->\n", "", 1) + "\nThen:\n\n    dhdmm show hospitals-release\n"
    )
    monkeypatch.setattr(pages_module, "PROJECT", tmp_path)
    page = tmp_path / "tutorial.md"
    page.write_text(careless, encoding="utf-8")
    found = blocks(page)
    assert [b.line for b in found if b.mark not in MARKS] == [found[marks.index("run")].line]
    assert indented(page) == [f"tutorial.md:{careless.count(chr(10))}"]


def test_blocks_that_no_test_runs_are_listed() -> None:
    found = {name_of(page): sum(b.mark == "not run" for b in blocks(page)) for page in pages()}
    assert {page: count for page, count in found.items() if count} == NOT_RUN


def test_a_checked_block_names_a_test_that_exists() -> None:
    for block in [b for page in pages() for b in blocks(page) if b.mark == "checked"]:
        file, _, test = block.reason.partition("::")
        assert test in _functions(PROJECT / file), block.place


def _functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def _shown(pattern: re.Pattern[str]) -> set[str]:
    """What the commands of all pages have in the pattern's place."""
    return {name for page in pages() for b in blocks(page) for name in pattern.findall(b.text)}


def test_what_a_page_makes_has_a_rule() -> None:
    shown = _shown(MADE)
    assert {"demo", "test", "install"} <= shown
    command = ["make", "--dry-run", "--always-make", *sorted(shown)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_a_page_installs_is_there() -> None:
    shown = _shown(INSTALLED)
    assert "warehouse" in shown
    assert shown <= set(metadata("dhdmm").get_all("Provides-Extra") or ())


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_commands_in_the_text_exist_with_their_options(page: Path) -> None:
    for name, *words in commands(page):
        assert name in COMMANDS, f"dhdmm {name}"
        command = load(name)
        if words and words[0] in getattr(command, "commands", {}):  # a command of a group
            command = command.commands[words[0]]
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, f"dhdmm {name}"


@pytest.mark.parametrize("page", marked_pages("study", "part of a study", "refused"), ids=name_of)
def test_study_files_and_their_parts_are_accepted_or_refused_as_said(page: Path) -> None:
    whole, _ = document.parse(HOSPITALS.read_text(encoding="utf-8"), name_of(HOSPITALS))
    message = ""
    for block in blocks(page):
        if block.mark == "study":
            whole, _ = document.parse(block.text, block.place)
            Study.from_text(block.text)
        elif block.mark == "part of a study":
            Study.from_text(_completed(block, whole))
        elif block.mark == "refused":
            with pytest.raises(StudyError) as refusal:
                Study.from_text(_completed(block, whole))
            message = f"{refusal.value.what} {refusal.value.hint or ''}"
        elif block.mark == "output" and message:
            assert shape(message) == shape(block.text), block.place
            message = ""


def _completed(block: Block, whole: dict[str, object]) -> str:
    part, _ = document.parse(block.text, block.place)
    return yaml.safe_dump(whole | part, sort_keys=False)


@pytest.mark.parametrize(
    ("mark", "said", "holds"),
    [
        ("output", "3 wards", True),
        ("output", "4 wards", False),
        ("output, other numbers", "1,234.5   wards", True),
        ("output, other numbers", "3 beds", False),
    ],
)
def test_a_reader_notices_another_output(mark: str, said: str, holds: bool, tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    reader.follow(Block("run", "sh", "echo 3 wards", "page", 1))
    with contextlib.nullcontext() if holds else pytest.raises(AssertionError):
        reader.follow(Block(mark, "text", said, "page", 2))


def test_a_reader_notices_a_command_that_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no such study"):
        Reader(tmp_path).follow(Block("run", "sh", "echo no such study >&2; false\n", "page", 1))


def test_the_tutorial_is_run() -> None:
    commands = [block.text for block in blocks(PROJECT / "docs" / "tutorial.md")]
    for command in ("init", "describe", "plan", "run", "show"):
        assert any(f"dhdmm {command}" in text for text in commands), command


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_within_the_project_lead_to_files(page: Path) -> None:
    within = [link.split("#")[0] for link in links(page) if ":" not in link]
    assert [link for link in within if link and not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_pages_name_no_place_on_somebodys_machine(page: Path) -> None:
    assert ABSOLUTE.search(page.read_text(encoding="utf-8")) is None


def test_the_keys_of_a_plan_in_json_are_those_listed(tmp_path: Path) -> None:
    page = (PROJECT / "docs" / "planning.md").read_text(encoding="utf-8")
    rows = page.split("## What `dhdmm plan --json` prints")[1].split("## ")[0].splitlines()
    listed = {key for row in rows for key in re.findall(r"`(\w+)`", row.split(" | ")[0])}
    options = ("--compare", "--target-rmse", "30", "--total", "5000", "--json")
    document = json.loads(called(plan.plan, HOSPITALS, *options))
    assert listed == set(document)
    assert all("relative_median" in item for item in document["items"])
    plain = json.loads(called(plan.plan, HOSPITALS, "--json"))
    assert set(document) - set(plain) == {"compare", "privacy_needed", "total"}


def test_benchmarks_in_the_text_exist() -> None:
    named = {name for page in pages() for name in BENCH.findall(page.read_text(encoding="utf-8"))}
    assert named
    assert named <= set(NAMES)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    done = subprocess.run(
        [*command, "--site-dir", str(folder)],
        cwd=PROJECT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_asks_no_other_host_for_anything(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        asked = [*LOADED.findall(text), *LINKED.findall(text)]
        assert asked, page
        assert [a for a in asked if "//" in a and not a.startswith("data:")] == [], page
        assert 'class="mermaid"' not in text, page


def test_formulas_are_no_emphasis(site: Path) -> None:
    """An asterisk that is left in the text was half of a pair that Markdown took apart."""
    for page in site.rglob("index.html"):
        article = page.read_text(encoding="utf-8").split("<article")[1].split("</article>")[0]
        words = TAG.sub("", LISTING.sub("", article))
        assert re.findall(r".{20}(?:\*\S|\S\*).{20}", words) == [], page


def test_state_diagrams_are_pictures_in_the_page(site: Path) -> None:
    text = (site / "secure-aggregation" / "index.html").read_text(encoding="utf-8")
    assert text.count("<svg viewBox=") >= 4
    assert "awaiting survivors</text>" in text


def test_a_diagram_that_cannot_be_drawn_ends_the_build() -> None:
    hook = runpy.run_path(str(PROJECT / "docs" / "hooks" / "diagrams.py"))
    with pytest.raises(ValueError, match="only state diagrams"):
        hook["on_page_markdown"]("```mermaid\nflowchart LR\n    a --> b\n```")


def test_formulas_are_typeset_without_a_script(site: Path) -> None:
    text = (site / "strategy" / "index.html").read_text(encoding="utf-8")
    source = (PROJECT / "docs" / "strategy.md").read_text(encoding="utf-8")
    assert text.count('<div class="arithmatex"><math') == source.count("```math") > 3
    assert text.count("<math") > 100
    for page in site.rglob("index.html"):
        article = page.read_text(encoding="utf-8").split("<article")[1].split("</article>")[0]
        words = TAG.sub("", LISTING.sub("", article))
        assert re.findall(r".{20}(?:\$|\\[a-z]{2,}).{20}", words) == [], page


def test_a_formula_that_cannot_be_typeset_ends_the_build() -> None:
    hook = runpy.run_path(str(PROJECT / "docs" / "hooks" / "formulas.py"))
    with pytest.raises(ValueError, match=r"no MathML for \\nonsense"):
        hook["on_page_content"](r'<span class="arithmatex">\(\nonsense x\)</span>')


def test_names_of_functions_stand_close_to_their_brackets() -> None:
    mathml = runpy.run_path(str(PROJECT / "docs" / "hooks" / "formulas.py"))["mathml"]
    assert "<mi>tr</mi><mo stretchy=" in mathml(r"\operatorname{tr}(V)", False)
    assert '<mi>ln</mi><mspace width="0.17em"/><mi>g</mi>' in mathml(r"\ln g", False)


def test_the_notebook_is_a_page_with_its_pictures_and_tables(site: Path) -> None:
    text = (site / "notebook" / "index.html").read_text(encoding="utf-8")
    assert text.count("data:image/png;base64,") == 6
    assert text.count("<table>") >= 5
    assert "162 queries over 135,420 cells" in text
    assert "stands here when the site is built" not in text
