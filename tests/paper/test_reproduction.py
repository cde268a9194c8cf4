"""The whole reproduction at a tiny size: every item, its files, the report, and going on later."""

import csv
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from research.paper import published
from research.paper.catalogue import ITEMS, UnknownItem, chosen
from research.paper.item import significant
from research.paper.report import Finished
from research.paper.run import WORK, reproduce
from research.paper.simulations import COORDINATOR
from research.paper.work import ResultStore, Unit
from tests.paper.tiny import TINY

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
NAMES = [item.name for item in ITEMS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("paper")


@pytest.fixture(scope="module")
def finished(folder: Path) -> dict[str, Finished]:
    """Beside this process there is one more: each loads all of it for a few seconds of work."""
    with patch("os.cpu_count", lambda: 1):
        done = reproduce([], folder, TINY, "python -m research --tiny")
    return {one.item.name: one for one in done}


def test_every_item_has_rows_a_table_and_pictures(
    folder: Path, finished: dict[str, Finished]
) -> None:
    assert list(finished) == NAMES
    for name, done in finished.items():
        assert done.rows
        with (folder / "results" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            assert len(list(csv.DictReader(file))) == len(done.rows)
        assert (folder / "results" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (folder / "results" / f"{name}.svg").read_bytes()
        for column in done.item.columns:
            assert any(column.key in row for row in done.rows), (name, column.key)
        json.dumps(done.rows, allow_nan=False)


def test_report_is_one_page_with_all_items_that_asks_no_other_host(
    folder: Path, finished: dict[str, Finished]
) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    for item in ITEMS:
        assert f'<section id="{item.name}">' in page
    assert page.count("data:image/svg+xml;base64,") == len(ITEMS)
    assert not re.search(r"https?://|src=\"(?!data:)|@import|<script|<link", page)


def test_results_page_names_all_items_and_how_they_came_about(
    folder: Path, finished: dict[str, Finished]
) -> None:
    page = (folder / "results.md").read_text(encoding="utf-8")
    for item in ITEMS:
        assert f"## {item.title}\n" in page
        assert (folder / "results" / f"{item.name}.svg").exists()
        assert f"(results/{item.name}.svg)" in page
    assert "`python -m research --tiny`" in page
    assert f"Seed: {TINY.seed}" in page
    assert "cores" in page
    assert str(folder) not in page


def test_committed_results_are_complete_and_of_a_full_run() -> None:
    page = (DOCS / "results.md").read_text(encoding="utf-8")
    shown = re.findall(r"^## (.*)$", page, re.M)
    assert shown == [item.title for item in ITEMS]
    assert "\n- Run: full\n" in page
    pictures = {path.stem for path in (DOCS / "results").glob("*.svg")}
    assert pictures == {item.name for item in ITEMS}


def test_nothing_is_computed_twice(
    folder: Path, finished: dict[str, Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("simulations.simulate", "accuracy.run_round", "accuracy.planned"):
        monkeypatch.setattr(f"research.paper.{place}", _must_not_run)
    units = [unit for item in ITEMS for unit in item.units(TINY)]
    results = ResultStore(folder / WORK).results(units)
    for name, done in finished.items():
        assert done.item.compute(TINY, results) == done.rows, name


def _must_not_run(*_given: object, **_named: object) -> None:
    raise AssertionError("computed again")


def test_a_missing_unit_would_be_computed(folder: Path, finished: dict[str, Finished]) -> None:
    larger = replace(TINY, participants=(5, 9))
    units = finished["table-2"].item.units(larger)
    missing = ResultStore(folder / WORK).missing(units)
    assert {unit.parameters["participants"] for unit in missing} == {9}


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    done: list[int] = []

    def work(number: int) -> Unit:
        def run() -> dict[str, int]:
            if number == 2 and done.count(2) == 0:
                done.append(2)
                raise KeyboardInterrupt
            done.append(number)
            return {"number": number}

        return Unit("count", {"number": number}, run)

    units = [work(number) for number in range(4)]
    with pytest.raises(KeyboardInterrupt):
        ResultStore(tmp_path).results(units)
    assert ResultStore(tmp_path).missing(units) == units[2:]
    found = ResultStore(tmp_path).results([*units, units[0]])
    assert [found[unit.name]["number"] for unit in units] == [0, 1, 2, 3]
    assert done == [0, 1, 2, 2, 3]


def test_a_result_cut_short_or_of_another_version_is_made_again(tmp_path: Path) -> None:
    unit, workshop = Unit("one", {"a": 1}, lambda: {"x": 5}), ResultStore(tmp_path)
    workshop.results([unit])
    file = tmp_path / f"{unit.name}.json"
    document = json.loads(file.read_text())
    for broken in ("{", json.dumps(document | {"dhdmm": "0.0.0"})):
        file.write_text(broken)
        assert workshop.missing([unit]) == [unit]
        assert workshop.results([unit])[unit.name] == {"x": 5}


def test_units_with_other_parameters_are_other_units() -> None:
    def nothing() -> dict[str, int]:
        return {}

    assert Unit("a", {"n": 1}, nothing) == Unit("a", {"n": 1}, lambda: {"x": 1})
    assert Unit("a", {"n": 1}, nothing) != Unit("a", {"n": 2}, nothing)


def test_sums_are_exact_and_totals_hold_the_parts(finished: dict[str, Finished]) -> None:
    for row in finished["table-2"].rows:
        assert row["sum_correct"]
        assert row["total_s"] >= row["coordinator_s"] > row["optimisation_s"] > 0
    for row in finished["network"].rows:
        assert row["to_unlimited"] >= 1


def test_participants_traffic_is_the_coordinators(finished: dict[str, Finished]) -> None:
    for row in finished["communication"].rows:
        assert row["coordinator_mb"] * 1000 == pytest.approx(
            row["participant_kb"] * row["participants"]
        )


def test_a_whole_round_is_more_than_its_messages(finished: dict[str, Finished]) -> None:
    """And what is counted stands beside every measured point."""
    for row in finished["whole-round"].rows:
        parts = row["joining_kb"] + row["participant_kb"] + row["ending_kb"]
        assert row["participant_all_kb"] == pytest.approx(parts)
        assert row["participant_all_ms"] > row["participant_ms"] > 0
        assert 0.1 < row["coordinator_ratio"] < 10
        assert (row["participant_ratio"] is None) == (row["by"] == COORDINATOR)
    for remark in finished["whole-round"].item.remarks(finished["whole-round"].rows):
        assert "nan" not in remark


def test_the_run_writes_the_lines_of_the_readme(
    folder: Path, finished: dict[str, Finished]
) -> None:
    written = (folder / "readme.md").read_text(encoding="utf-8")
    most = max(TINY.participants)
    for row in finished["whole-round"].rows:
        if row["participants"] == most:
            assert f"| {row['threat_model']} |" in written
            assert f"{significant(row['participant_all_kb'], 3)} kB |" in written
    assert f"{max(TINY.more_participants)} participants" in written


def test_counted_times_are_not_fitted_with_measured_ones(finished: dict[str, Finished]) -> None:
    for row in finished["complexity"].rows:
        sizes = [int(size) for size in row["sizes"].split()]
        if row["over"] == "n":
            more = () if row["key"] == "participant_ms" else TINY.more_participants
            assert sizes == [*TINY.participants, *more], row["key"]


def test_no_line_joins_counted_and_measured_points(finished: dict[str, Finished]) -> None:
    """Of every drawn line that joins points, all are executed ones; for the coordinator's time
    also those where it alone was executed."""
    for name in ("computation", "total-malicious", "total-semi-honest"):
        figure = finished[name].item.draw(finished[name].rows)
        joined = [
            line
            for axes in figure.axes
            for line in axes.get_lines()
            if line.get_linestyle() not in ("None", "none", "")
        ]
        assert joined
        counted = max(TINY.counted_participants)
        assert all(max(line.get_xdata(), default=0) < counted for line in joined), name


def test_distributed_error_follows_the_corrupt_fraction(finished: dict[str, Finished]) -> None:
    rows = [row for row in finished["theta"].rows if row["curve"] == "no dropouts"]
    n = TINY.accuracy_participants
    for row in rows:
        certain = n - max(1, math.floor(row["theta"] * n))
        assert row["to_central"] == pytest.approx(math.sqrt(n / certain), rel=2e-4)


def test_dropouts_take_their_noise_with_them(finished: dict[str, Finished]) -> None:
    rows = [row for row in finished["dropout"].rows if row["threat_model"] == "malicious"]
    everybody, fewer = rows
    left = fewer["survivors"] / everybody["survivors"]
    assert left == pytest.approx(0.8)
    ratio = fewer["expected_rmse"] / everybody["expected_rmse"]
    assert ratio == pytest.approx(math.sqrt(left))


def test_the_papers_table_stands_beside_ours() -> None:
    assert published.beside("malicious", 3000)["paper_participant_ms"] == 2400
    assert published.beside("malicious", 7)["paper_total_s"] is None
    assert published.series("semi-honest", "coordinator_mb") == ([100, 1000, 3000], [34, 356, 1156])


def test_an_unknown_item_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownItem, match=r"tabel-2.*table-2"):
        chosen(["tabel-2"])
    assert [item.name for item in chosen(["kappa", "theta"])] == ["theta", "kappa"]
