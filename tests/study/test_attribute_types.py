"""A type of attribute is a module and a place in TYPES: no other module knows the types."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import ibis
import numpy as np
import pyarrow as pa
import pytest

import dhdmm
from dhdmm.demo.made_up import made_up
from dhdmm.errors import DataError, StudyError
from dhdmm.participant.tabulate import tabulate
from dhdmm.release.intervals import Sums
from dhdmm.release.panels import panels_of
from dhdmm.release.pictures import Lines
from dhdmm.release.tables import Table
from dhdmm.study.attributes import TYPES
from dhdmm.study.describe import describe
from dhdmm.study.skeleton import skeleton_from_csv
from dhdmm.study.spec import Study, json_schema
from tests.participant.histograms import contents
from tests.study.colours import registered

TEXT = """\
study: cars
schema:
  age: {type: integer, range: [0, 1]}
  paint: {type: colour, shades: 24}
groupings:
  quarter: {of: paint, edges: quarters}
  warm:
    of: paint
    sets: [{label: reds, values: [h0, h15]}, {label: cold, where: paint >= 'h180'}]
workload:
  - {name: paints, by: [paint]}
  - {name: quarters, by: [quarter]}
  - {name: warm, by: [warm], where: age = 1}
  - {name: cold, total: true, where: paint >= 'h180'}
  - {name: upto, ranges: {of: paint, kind: prefix}}
privacy: {unit: record, epsilon: 1.0, delta: 1e-6, corrupt_fraction: 0.05}
aggregation: {participants: 8, max_records_per_participant: 9}
"""
SOURCE = Path(dhdmm.__file__).parent
KINDS = {one.kind: one for one in TYPES}
WORDS = set(KINDS)
RECORDS = {"age": [0, 1, 1, 1], "paint": ["h0", "h14", "h15", "h359"]}
CELLS = {(0, 0): 1, (1, 0): 1, (1, 1): 1, (1, 23): 1}


@pytest.fixture(name="study")
def _study() -> Iterator[Study]:
    with registered():
        yield Study.from_text(TEXT)


def test_a_new_type_is_read_written_and_described(study: Study) -> None:
    again = Study.from_canonical_bytes(study.canonical_bytes())
    assert again.schema == study.schema
    assert Study.from_text(study.to_yaml()).digest == study.digest
    described = describe(study)["attributes"][1]
    assert described == {"name": "paint", "type": "colour", "size": 24, "domain": "0°–360°"}
    assert "ColourModel" in json_schema()["$defs"]


@pytest.mark.parametrize("place", ["arrow", "csv", "warehouse"])
def test_a_new_type_codes_a_column(study: Study, place: str, tmp_path: Path) -> None:
    table = pa.table(RECORDS)
    path = tmp_path / "cars.csv"
    path.write_text("age,paint\n0,h0\n1,h14\n1,h15\n1,h359\n")
    given = {"arrow": table, "csv": path, "warehouse": ibis.memtable(table)}[place]
    assert contents(tabulate(given, study.schema).histogram) == CELLS
    beyond = pa.table({"age": [0], "paint": ["h360"]})
    with pytest.raises(DataError, match="column 'paint' in 1 row"):
        tabulate(ibis.memtable(beyond) if place == "warehouse" else beyond, study.schema)
    with pytest.raises(DataError, match="holds integers, but 'paint' needs hues"):
        tabulate(pa.table({"age": [0], "paint": [7]}), study.schema)


def test_a_new_type_is_compared_and_grouped(study: Study) -> None:
    items = {item.name: item.terms[0] for item in study.workload.items}
    ones = {name: term.products[0].factors[1].to_sparse().toarray() for name, term in items.items()}
    assert np.array_equal(ones["cold"], [np.arange(24) >= 12])
    assert np.array_equal(ones["quarters"], np.kron(np.eye(4), np.ones(6)))
    assert np.array_equal(ones["warm"], [np.arange(24) < 2, np.arange(24) >= 12])
    assert list(items["quarters"].axes[1].labels)[:2] == ["0°–90°", "90°–180°"]
    with pytest.raises(StudyError, match="'paint' holds text, not 18"):
        Study.from_text(TEXT.replace("paint >= 'h180'", "paint >= 18"))
    with pytest.raises(StudyError, match="'h400' is not a value of 'paint'"):
        Study.from_text(TEXT.replace("paint >= 'h180'", "paint = 'h400'"))


def test_a_new_type_draws_its_own_axis(study: Study) -> None:
    for item in (study.workload.items[0], study.workload.items[4]):
        table = Table(study.schema, item, Sums(np.arange(24.0), np.ones(24)))
        (panel,) = panels_of(table)
        assert isinstance(panel.picture, Lines)
        assert list(panel.picture.direction.ticks(8)) == [0, 6, 12, 18]


def test_a_new_type_has_examples_and_a_draft(study: Study, tmp_path: Path) -> None:
    for table in made_up(study, 8):
        tabulate(table, study.schema)
    (tmp_path / "cars.csv").write_text("paint,age\nh3,1\nh200,2\n")
    assert "paint: {type: colour, shades: 24}" in skeleton_from_csv(tmp_path / "cars.csv")
    with pytest.raises(StudyError, match="the domain is needed, for example shades: 24"):
        Study.from_text(TEXT.replace("colour, shades: 24", "colour"))
    with pytest.raises(
        StudyError, match="one of colour, integer, date, datetime, category, number, measure"
    ):
        Study.from_text(TEXT.replace("type: colour, shades: 24", "range: [1, 2]"))


def test_a_type_that_is_not_listed_is_unknown() -> None:
    with pytest.raises(
        StudyError,
        match="'colour' is not one of integer, date, datetime, category, number, measure",
    ):
        Study.from_text(TEXT)


def test_the_builder_and_the_documentation_have_every_type() -> None:
    builder = (SOURCE / "web" / "static" / "builder-document.js").read_text(encoding="utf-8")
    assert set(re.findall(r"^  (\w+): (?:\{\n    words:|calendar\()", builder, re.M)) == WORDS
    page = (Path(__file__).parents[2] / "docs" / "study.md").read_text(encoding="utf-8")
    assert all(
        f"| `{word}` | `{one.example.partition(':')[0]}" in page for word, one in KINDS.items()
    )


# ---- nobody else asks for a type ----------------------------------------------------------------

NAMES = {one.__name__ for one in TYPES} | {one.model.__name__ for one in TYPES}


def questions_about_types(text: str) -> list[int]:
    """Lines that name a type without making an attribute of it, or compare a `kind` with one."""
    nodes = list(ast.walk(ast.parse(text)))
    made = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    named = [
        node.lineno
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute)
        and (node.id if isinstance(node, ast.Name) else node.attr) in NAMES
        and id(node) not in made
    ]
    compared = [
        node.lineno
        for node in nodes
        if isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Attribute)
        and node.left.attr in ("kind", "type")
        and WORDS & {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
    ]
    return named + compared


@pytest.mark.slow
def test_no_module_elsewhere_asks_for_a_type() -> None:
    homes = SOURCE / "study" / "attributes"
    modules = [path for path in SOURCE.rglob("*.py") if homes not in path.parents]
    assert len(modules) > 200
    asked = {path: questions_about_types(path.read_text(encoding="utf-8")) for path in modules}
    assert {path: lines for path, lines in asked.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("if isinstance(a, CategoryAttribute): pass", True),
        ("if isinstance(a, (str, attributes.NumberAttribute)): pass", True),
        ("match a:\n case IntegerAttribute(low=low): pass", True),
        ("if type(a) is IntegerModel: pass", True),
        ("by_type = {IntegerAttribute: 1}", True),
        ("if a.kind == 'category' or b: pass", True),
        ("if a.kind in ('integer', 'number'): pass", True),
        ("from dhdmm.study.attributes import IntegerAttribute\nIntegerAttribute('a', 0, 9)", False),
        ("if model.kind == 'prefix': pass", False),
    ],
)
def test_a_question_about_a_type_would_be_found(text: str, found: bool) -> None:
    assert bool(questions_about_types(text)) is found
