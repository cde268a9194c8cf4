"""What made a release is stored with it, and shown as it was stored."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from dhdmm.cli.show import show
from dhdmm.errors import VerificationError
from dhdmm.release import published
from dhdmm.release.made import FIRST, date_of
from dhdmm.release.release import Release
from dhdmm.release.transcript import Transcript
from dhdmm.release.verify import verify
from dhdmm.runner import enrol, run_round
from dhdmm.session.coordinator import Clock, CoordinatorSession
from tests.cli.commands import called
from tests.museum.cast import NOW, PEOPLE, roster_file
from tests.museum.make import RELEASED, finished_round
from tests.museum.wings import WINGS, Wing
from tests.round.small import people, small_plan
from tests.web.coordinators import add_finished, served

FIRST_WING = WINGS[0]


@pytest.mark.parametrize("name", RELEASED)
def test_a_release_of_the_first_version_says_so_everywhere(name: str) -> None:
    place = FIRST_WING.folder / "releases" / name
    facts = Release.load(place).provenance()
    assert (facts["dhdmm"], facts["date"], facts["formats"]) == ("0.1.0", None, FIRST)
    assert "made by dhdmm 0.1.0, date not recorded" in called(show, place)
    assert json.loads(called(show, place, "--json"))["provenance"] == facts
    derived = verify(Transcript.from_bytes((place / "transcript.cbor").read_bytes())).release
    assert derived.provenance() == facts


@pytest.mark.parametrize("wing", WINGS[1:], ids=str)
@pytest.mark.parametrize("name", RELEASED)
def test_a_later_release_says_when_and_in_which_formats(wing: Wing, name: str) -> None:
    place = wing.folder / "releases" / name
    facts = Release.load(place).provenance()
    assert (facts["dhdmm"], facts["date"]) == (wing.version, date_of(NOW))
    stored = json.loads((place / "release.json").read_text("utf-8"))["provenance"]
    for key in ("dhdmm", "date", "formats"):
        assert stored[key] == facts[key]
    for kind in ("study", "strategy", "plan", "transcript"):
        own = [exhibit for exhibit in wing.of_kind(kind) if Path(exhibit).stem.startswith(name)]
        assert {wing.exhibits[exhibit]["format"] for exhibit in own} == {facts["formats"][kind]}
    words = f"made by dhdmm {wing.version}, 2026-01-02 03:04:05 UTC"
    assert words in called(show, place)


@pytest.mark.slow
@pytest.mark.parametrize("wing", WINGS, ids=str)
def test_pages_say_the_same(wing: Wing, tmp_path: Path) -> None:
    release = Release.load(wing.folder / "releases" / "malicious")
    with served(tmp_path, public=True) as coordinator:
        add_finished(coordinator, release.plan.study, release)
        page = f"{coordinator.address}/releases/{release.round_id.hex()}"
        shown = httpx.get(page, headers={"Accept": "text/html"}, timeout=60).text
        document = httpx.get(f"{page}/release.json", timeout=60).json()
    words = release.maker.words
    assert f">{words[:1].upper()}{words[1:]}; formats: " in shown
    numbers = release.maker.formats
    assert f"study {numbers['study']}, strategy 1, plan {numbers['plan']}, transcript" in shown
    assert document["provenance"] == release.provenance()


@pytest.mark.slow
def test_a_release_is_shown_as_it_was_made_by_whoever_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run_round(enrol(small_plan()), people(12), workers=1).release
    made.save(tmp_path / "release")
    before = made.provenance()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", before["date"])
    monkeypatch.setattr("dhdmm.__version__", "7.0")
    read = Release.load(tmp_path / "release")
    assert read.provenance() == before
    read.save(tmp_path / "again")
    assert Release.load(tmp_path / "again").provenance() == before
    assert read.transcript is not None
    assert verify(read.transcript).release.provenance() == before


def test_a_release_of_another_date_than_its_transcript_is_found_out(tmp_path: Path) -> None:
    made = run_round(enrol(small_plan()), people(12), workers=1).release
    assert made.made is not None
    later = replace(made.made, date="2099-01-01T00:00:00Z")
    replace(made, made=later).save(tmp_path / "release")
    assert made.transcript is not None
    with pytest.raises(VerificationError, match="another maker, date or formats"):
        published.compare(verify(made.transcript).release, tmp_path / "release")


def test_a_round_has_one_date_however_often_its_transcript_is_sealed() -> None:
    moments = iter([NOW, NOW.replace(year=2030)])
    session, notes = _finished(clock=lambda: next(moments))
    first, second = session.release().transcript, session.release().transcript
    assert first is not None
    assert second is not None
    assert first.account.made.date == date_of(NOW)
    assert first.to_bytes() == second.to_bytes()
    assert notes["transcript/date"] == date_of(NOW).encode()


def test_without_a_clock_there_is_no_date() -> None:
    session, _ = _finished(clock=None)
    release = session.release()
    assert release.provenance()["date"] is None
    assert release.maker.words.endswith("date not recorded")


def _finished(clock: Clock | None) -> tuple[CoordinatorSession, dict[str, bytes]]:
    """A whole round in this process, and what its coordinator noted."""
    drafted = FIRST_WING.recorded.draft("semi-honest")
    plan = drafted.plan(PEOPLE, roster_file(signed=True).roster.digest)
    notes: dict[str, bytes] = {}
    return finished_round(plan, store=notes, clock=clock), notes
