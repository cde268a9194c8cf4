"""Nobody changes a format by accident: what is written today is what the newest wing has.

Whoever means to change one gives it a new number and makes a new wing.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from dhdmm.study import canonical
from dhdmm.study.models import KEYS_SINCE
from tests.museum.forms import content, form
from tests.museum.make import KINDS, index, make
from tests.museum.wings import NEWEST, WINGS


@pytest.fixture(scope="module")
def remade(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The newest wing, made again from its recorded inputs by the code that is here."""
    folder = tmp_path_factory.mktemp("museum") / NEWEST.version
    index(folder, NEWEST.version, make(folder, NEWEST.version, NEWEST.recorded))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_what_the_newest_wing_has(kind: str, remade: Path) -> None:
    names = NEWEST.of_kind(kind)
    assert names, f"no exhibit of the kind '{kind}'"
    for name in names:
        assert content(remade / name) == content(NEWEST.folder / name), (
            f"{name} is not written as in {NEWEST.version}: give the format '{kind}' a new number"
            " and make a new wing"
        )


@pytest.mark.slow
def test_everything_that_is_made_is_on_show(remade: Path) -> None:
    files = [path for path in remade.rglob("*") if path.is_file()]
    found = {path.relative_to(remade).as_posix() for path in files}
    assert found == {*NEWEST.exhibits, "index.json", "README.md"}


def test_one_number_means_one_form() -> None:
    """Between two wings, a form changes with its number or not at all."""
    for before, after in pairwise(WINGS):
        for name, exhibit in before.exhibits.items():
            if after.exhibits.get(name, {}).get("format") == exhibit["format"] is not None:
                assert form(before.folder / name) == form(after.folder / name), (
                    f"{name}, from {before} to {after}"
                )


def test_the_newest_wing_shows_what_this_version_writes() -> None:
    for kind, (format, _) in KINDS.items():
        shown = {NEWEST.exhibits[name]["format"] for name in NEWEST.of_kind(kind)}
        first_that_can_say_it = kind in ("study", "strategy")
        assert first_that_can_say_it or shown == {format and format.writes}


def test_every_newer_key_of_a_study_is_on_show() -> None:
    """Then a study is of format 2."""
    shown = set[str]()
    for name in NEWEST.of_kind("study"):
        model = canonical.read(NEWEST.bytes(name))
        values = model.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)
        shown |= set(canonical._newer_keys(values))
    assert shown == set(KEYS_SINCE)
