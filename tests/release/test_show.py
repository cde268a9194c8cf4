"""`dhdmm show`: complete at 80 columns, rounded by the error, safe to print, JSON for programs."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from dhdmm.cli.options import for_typer
from dhdmm.cli.show import show
from dhdmm.errors import DhdmmError
from dhdmm.release.wording import decimals, number
from tests.release.releases import release_of, study_of

app = typer.Typer()
app.command()(for_typer(show))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    directory = tmp_path_factory.mktemp("show") / "release"
    release_of().save(directory)
    return directory


def shown(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "80"})
    if result.exception:
        raise result.exception
    return result.stdout


def test_every_table_fits_80_columns_with_all_its_numbers(saved):
    text = shown(saved)
    assert max(map(len, text.splitlines())) <= 80
    assert "60, of whom 57 are in the sums (semi-honest model)" in text
    assert "ε = 2 at δ = 1e-05" in text
    for name in ("parts", "crossed", "intervals"):
        assert f"\n{name} (" in text
    assert "… 453 more rows" in text
    assert "adults, age: 18–29 (2 answers)" in text
    assert "cut, condition: age >= 18 (2 answers)" in text


def test_numbers_are_rounded_by_their_error(saved):
    release = release_of()
    table = release["adults"]
    low, high = table.bounds()
    line = next(ln for ln in shown(saved, "--item", "adults").splitlines() if "Female" in ln)
    values = (table.values[0], table.standard_errors[0], low[0], high[0])
    expected = [number(v, decimals(table.standard_errors[0])) for v in values]
    assert line.replace("±", "").split() == ["Female", *expected]


@pytest.mark.slow
def test_one_item_and_so_many_rows(saved):
    text = shown(saved, "--item", "intervals", "--rows", 3)
    assert "crossed" not in text
    assert "… 462 more rows" in text
    everything = shown(saved, "--item", "intervals", "--rows", 0)
    assert "more rows" not in everything
    assert len(everything.splitlines()) > 465


def test_json_has_provenance_and_exact_rows(saved):
    document = json.loads(shown(saved, "--json", "--rows", 2))
    release = release_of()
    assert document["provenance"] == release.provenance()
    assert [entry["item"] for entry in document["tables"]] == list(release)
    crossed = document["tables"][2]
    assert crossed["queries"] == 12
    assert crossed["rows"] == release["crossed"].head(2).to_arrow().to_pylist()


def test_an_unknown_item_is_refused(saved):
    with pytest.raises(DhdmmError, match="no table 'crosed'"):
        shown(saved, "--item", "crosed")


def test_hostile_labels_neither_move_the_cursor_nor_push_numbers_out(tmp_path):
    values = json.dumps(["\x1b[2J\x07", "[red]x[/red]", "trailing\\", "w" * 190, "two\nlines"])
    release = release_of(study_of("  - {name: 'a[bold]b', by: [sex]}", values))
    release.save(tmp_path / "r")
    text = shown(tmp_path / "r")
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "a[bold]b" in text
    assert "[red]x[/red]" in text
    assert max(map(len, text.splitlines())) <= 80
    rows = text.splitlines()[-7:-1]
    assert all(len(row.split("±")[1].split()) == 3 for row in rows if "±" in row)
    assert sum("±" in row for row in rows) == 5
