"""Conditions against DuckDB: what our boxes count is what a WHERE selects."""

from __future__ import annotations

import subprocess
import sys
from functools import cache, reduce
from itertools import pairwise

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhdmm.errors import StudyError
from dhdmm.study import sqltext
from dhdmm.study.attributes import Attribute, CategoryAttribute, IntegerAttribute, NumberAttribute
from dhdmm.study.names import column, literal, number_text
from dhdmm.study.predicate import BOX_LIMIT, boxes, mask
from dhdmm.study.schema import Schema
from tests.amounts import examples

ATTRIBUTES = (
    IntegerAttribute("age", -2, 3),
    IntegerAttribute("bits", 0, 9),
    CategoryAttribute("sex", ("Female", "Male")),
    CategoryAttribute("income>50K", ("yes", "no", "it's", "")),
    CategoryAttribute("order", (7, -1, 3)),
    CategoryAttribute("Veteran", (True, False)),
    NumberAttribute("hours", (0.0, 0.1, 2.5, 10.0)),
)
SQL_TYPES = {"age": "INT", "bits": "BIGINT", "order": "INT", "Veteran": "BOOL", "hours": "DOUBLE"}
ORDERINGS = ("<", "<=", ">", ">=")


def raw_values(attribute: Attribute) -> list[tuple[int, object]]:
    """(code, raw value): every value, and of a bin its lowest, an inner and the closing one."""
    if isinstance(attribute, IntegerAttribute):
        return [(code, attribute.low + code) for code in range(attribute.size)]
    if isinstance(attribute, CategoryAttribute):
        return list(enumerate(attribute.values))
    edges = attribute.edges
    inside = [(i, x) for i in range(attribute.size) for x in (edges[i], sum(edges[i : i + 2]) / 2)]
    return [*inside, (attribute.size - 1, edges[-1])]


@cache
def records() -> tuple[duckdb.DuckDBPyConnection, np.ndarray]:
    """A table of every raw record, and (records, attributes) their codes."""
    connection = duckdb.connect(config={"threads": 1})
    for a, attribute in enumerate(ATTRIBUTES):
        kind = SQL_TYPES.get(attribute.name, "VARCHAR")
        connection.execute(f"CREATE TABLE t{a} (code{a} INT, {column(attribute.name)} {kind})")
        connection.executemany(f"INSERT INTO t{a} VALUES (?, ?)", raw_values(attribute))
    tables = ", ".join(f"t{a}" for a in range(len(ATTRIBUTES)))
    connection.execute(f"CREATE TABLE data AS SELECT * FROM {tables}")
    codes = ", ".join(f"code{a}" for a in range(len(ATTRIBUTES)))
    columns = connection.execute(f"SELECT {codes} FROM data ORDER BY rowid").fetchnumpy()
    return connection, np.column_stack(list(columns.values()))


def selected(condition: str) -> np.ndarray:
    """(records,): for which records DuckDB finds the condition true."""
    query = f"SELECT ({condition}) AS holds FROM data ORDER BY rowid"
    return np.asarray(records()[0].execute(query).fetchnumpy()["holds"])


def indicator(schema: Schema, condition: str) -> np.ndarray:
    """(cells,): the signed sum of the boxes."""
    total = np.zeros(schema.cells, int)
    for box in boxes(condition, schema):
        factors = [box.masks.get(a, np.ones(n, bool)) for a, n in enumerate(schema.shape)]
        total += box.coefficient * reduce(np.kron, [factor.astype(int) for factor in factors])
    return total


@cache
def atoms(attribute: Attribute) -> list[str]:
    name = column(attribute.name)
    if isinstance(attribute, NumberAttribute):
        inner = [number_text(edge) for edge in attribute.edges[:-1]]
        forms = [f"{name} < {x}" for x in inner] + [f"{x} <= {name}" for x in inner]
        forms += [f"{name} BETWEEN {x} AND 1e3" for x in inner]
        forms += [f"{name} <= 10", f"{name} > 10.0", f"{name} > -1.5"]
        return forms
    values = [literal(value) for _, value in raw_values(attribute)]
    forms = [f"{name} = {x}" for x in values] + [f"{x} <> {name}" for x in values]
    forms += [f"data.{name} IN ({x}, {y})" for x, y in pairwise(values)]
    forms += [f"{name} NOT IN ({x}, {y})" for x, y in pairwise(values)]
    if attribute.name == "Veteran":
        forms += ["veteran", "NOT Veteran"]
    if attribute.name in ("age", "bits", "order"):
        numbers = ["-4", "-1", "0", "1.5", "2", "(3)", "20"]
        terms = [f"{name} % 3", f"({name}) & 5"]
        forms += [f"{name} {o} {x}" for o in ORDERINGS for x in numbers]
        forms += [f"{x} {o} {name}" for o in ORDERINGS for x in numbers]
        forms += [f"{name} BETWEEN {x} AND {y}" for x, y in pairwise(numbers)]
        forms += [f"{name} NOT BETWEEN {x} AND {y}" for x, y in pairwise(numbers)]
        forms += [f"{t} {o} {x}" for t in terms for o in (*ORDERINGS, "=", "!=") for x in numbers]
    if attribute.name == "bits":
        forms += [f"bit_count({name} & 7) {o} 2" for o in (*ORDERINGS, "=", "<>")]
    return forms


def formula(draw: st.DrawFn, leaves: list[str], depth: int = 3) -> str:
    """Without parentheses in places, so that the precedence of the connectives is tried too."""
    if depth == 0 or draw(FRAMES) == "leaf":
        return draw(st.sampled_from(leaves))
    parts = [formula(draw, leaves, depth - 1) for _ in range(draw(st.integers(2, 3)))]
    return draw(st.sampled_from(["{}", "({})", "NOT ({})"])).format(draw(WORDS).join(parts))


FRAMES = st.sampled_from(["leaf", "branch"])
WORDS = st.sampled_from([" AND ", " OR ", " or "])
schemas = st.lists(st.sampled_from(ATTRIBUTES), min_size=1, max_size=3, unique=True).map(
    lambda attributes: Schema(tuple(attributes))
)


@pytest.mark.slow
@settings(max_examples=examples(40, 3000), deadline=None, derandomize=True)
@given(st.data())
def test_sum_of_boxes_is_what_duckdb_selects(data: st.DataObject) -> None:
    check_against_duckdb(data)


def check_against_duckdb(data: st.DataObject) -> None:
    schema = data.draw(schemas)
    leaves = [text for attribute in schema.attributes for text in atoms(attribute)]
    condition = formula(data.draw, [*leaves, "TRUE", "FALSE"])
    codes = records()[1][:, [ATTRIBUTES.index(attribute) for attribute in schema.attributes]]
    ours = indicator(schema, condition)[np.ravel_multi_index(codes.T, schema.shape)]
    rendered = sqltext.render(sqltext.parse_condition(condition))
    assert np.array_equal(ours, selected(condition))
    assert np.array_equal(ours, selected(rendered))


@pytest.mark.slow
@settings(max_examples=examples(25, 600), deadline=None, derandomize=True)
@given(st.data())
def test_product_of_predicates_is_one_box(data: st.DataObject) -> None:
    schema = data.draw(schemas)
    parts = [formula(data.draw, atoms(attribute)) for attribute in schema.attributes]
    masks = [mask(part, schema, a) for a, part in enumerate(parts)]
    found = boxes(" AND ".join(f"({part})" for part in parts), schema)
    if any(not m.any() for m in masks):
        assert found == ()
        return
    assert [box.coefficient for box in found] == [1]
    assert set(found[0].masks) == {a for a, m in enumerate(masks) if not m.all()}
    assert all(np.array_equal(m, masks[a]) for a, m in found[0].masks.items())


WIDE = Schema(tuple(IntegerAttribute(f"{letter}{i}", 0, 199) for letter in "ab" for i in range(3)))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a0 < 5 OR NOT a0 IN (7, 9)", 1),
        ("a0 = 1 AND (b0 = 2 OR b0 = 3) OR a0 = 1 AND b0 = 4", 1),
        ("a0 = 1 OR b0 = 1", 2),
        ("a0 = 1 OR b0 = 1 OR a1 = 1 OR b1 = 1 OR a2 = 1", 2),
        ("a0 = 1 AND b0 = 1 OR a1 = 1 AND b1 = 1", 3),
        ("a0 = 1 AND b0 = 1 OR a0 = 2 AND (b0 = 1 OR a1 = 3)", 2),
        ("a0 = 1 AND NOT a0 = 1", 0),
        ("a0 = 1 OR b0 = 1 OR NOT a0 = 1", 1),
    ],
)
def test_coupled_attributes_need_few_boxes(condition: str, expected: int) -> None:
    assert len(boxes(condition, WIDE)) == expected


def test_always_true_is_one_box_without_masks_and_never_true_is_none() -> None:
    (box,) = boxes("a0 >= 0 AND TRUE", WIDE)
    assert (box.coefficient, box.masks) == (1, {})
    assert boxes("a0 > 1000", WIDE) == ()


@pytest.mark.slow
def test_boxes_are_the_same_in_another_process() -> None:
    program = (
        "from dhdmm.study.predicate import boxes; from dhdmm.study.schema import Schema;"
        "s = Schema.of_sizes((9, 9, 9));"
        "t = 'a0 = 1 AND a1 = 2 OR a1 = 3 AND a2 > 4 OR a2 = 1 AND a0 > 5';"
        "print([(b.coefficient, {a: m.tolist() for a, m in b.masks.items()}) for b in boxes(t, s)])"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert runs[0]


@pytest.mark.slow
def test_parser_is_not_imported_before_it_is_needed() -> None:
    program = "import sys, dhdmm.study.sql; sys.exit('sqlglot' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.slow
def test_number_of_boxes_is_limited() -> None:
    diagonal = [f"a0 = {i} AND b0 = {i}" for i in range(BOX_LIMIT + 1)]
    assert len(boxes(" OR ".join(diagonal[:-1]), WIDE)) == BOX_LIMIT
    with pytest.raises(StudyError) as error:
        boxes(" OR ".join(diagonal), WIDE, where="study.yaml:9")
    assert str(error.value) == (
        "study.yaml:9: the condition couples attributes into 129 products (the limit is 128)"
        " (ask for its parts as separate queries)"
    )


@pytest.mark.parametrize(
    ("shape", "parts"),
    [
        ((3,) * 30, [f"(a{i} = 1 AND a{i + 1} = 1)" for i in range(0, 30, 2)]),
        ((10**5, 10**5), [f"(a0 % {p} = 1 AND a1 % {p} = 1)" for p in range(2, 40)]),
    ],
    ids=["many boxes", "many classes of values"],
)
def test_condition_that_outgrows_the_diagram_is_refused(
    shape: tuple[int, ...], parts: list[str]
) -> None:
    with pytest.raises(StudyError, match="couples attributes into too many products"):
        boxes(" OR ".join(parts), Schema.of_sizes(shape))


@pytest.mark.slow
def test_long_flat_conditions_are_read() -> None:
    (box,) = boxes(" AND ".join(f"a{i % 3} <> {i % 190}" for i in range(1200)), WIDE)
    assert len(box.masks) == 3
    (box,) = boxes(" OR ".join(f"a0 = {i % 190}" for i in range(1200)), WIDE)
    assert box.masks[0].sum() == 190


def test_comments_do_not_reach_the_rendered_text() -> None:
    tree = sqltext.parse_condition("a0 > 3 -- ) OR TRUE\n AND /* x */ b0 = 1")
    assert sqltext.render(tree) == "a0 > 3 AND b0 = 1"


def test_work_on_attributes_with_many_values_is_bounded() -> None:
    schema = Schema.of_sizes((10**6, 10**6))
    (box,) = boxes(f"a0 IN ({', '.join(str(7 * i) for i in range(2_000))})", schema)
    assert box.masks[0].sum() == 2_000
    with pytest.raises(StudyError) as error:
        boxes(" OR ".join(f"a0 = {i}" for i in range(201)), schema)
    assert str(error.value) == (
        "SQL line 1, column 2291: the condition has too many parts, as 'a0' has many values"
        " (use IN or BETWEEN)"
    )
