"""How `by`, `where`, `with_totals`, `ranges`, `marginals` and groupings become rows."""

import numpy as np
import pytest

from dhdmm.errors import StudyError
from dhdmm.study.factor import Ranges
from dhdmm.study.spec import Study

SCHEMA = """\
study: small
schema:
  sex: {type: category, values: [F, M]}
  age: {type: integer, range: [0, 5]}
  pay: {type: number, edges: [0, 10, 20, 40]}
groupings:
  half: {of: age, edges: [0, 3, 6]}
  odd:
    of: age
    sets: [{label: odd, where: age % 2 = 1}, {label: others, rest: true}, {each: [4, 5]}]
  rich: {of: pay, edges: [20, 40]}
workload:
"""
SEX = np.eye(2)
TOTAL = np.ones((1, 6))
HALF = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]])
ODD = np.array([[0, 1] * 3, [1, 0, 1, 0, 0, 0], [0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1]])
PAY = np.ones((1, 3))


def study(*items):
    return Study.from_text(SCHEMA + "".join(f"  - {item}\n" for item in items))


def kron(*factors):
    product = np.ones((1, 1))
    for factor in factors:
        product = np.kron(product, np.atleast_2d(factor))
    return product


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("by: [half]", [kron([1, 1], HALF, PAY)]),
        ("by: [odd, sex]", [kron(SEX, ODD, PAY)]),
        ("by: [half, sex], with_totals: [sex]", [kron([[1, 0], [0, 1], [1, 1]], HALF, PAY)]),
        ("by: [rich]", [kron([1, 1], TOTAL, [0, 0, 1])]),
        ("total: true", [kron([1, 1], TOTAL, PAY)]),
        ("total: true, where: age < 2 AND sex = 'M'", [kron([0, 1], [1, 1, 0, 0, 0, 0], PAY)]),
        ("by: [half], where: age >= 4", [kron([1, 1], [0, 0, 0, 0, 1, 1], PAY)]),
        ("by: [sex], with_totals: [sex], where: sex = 'F'", [kron([[1, 0], [1, 0]], TOTAL, PAY)]),
        (
            "by: [sex], where: age = 0 OR sex = 'F'",
            [kron([1, 0], TOTAL, PAY), kron([0, 1], [1, 0, 0, 0, 0, 0], PAY)],
        ),
        (
            "marginals: {ways: 1}",
            [kron(SEX, TOTAL, PAY), kron([1, 1], np.eye(6), PAY), kron([1, 1], TOTAL, np.eye(3))],
        ),
        ("marginals: {of: [[sex, half], [odd]]}", [kron(SEX, HALF, PAY), kron([1, 1], ODD, PAY)]),
        ("ranges: {of: age, kind: prefix}, by: [sex]", [kron(SEX, np.tri(6), PAY)]),
        (
            "ranges: {of: age, kind: width, width: 5}",
            [kron([1, 1], [[1, 1, 1, 1, 1, 0], [0, 1, 1, 1, 1, 1]], PAY)],
        ),
        ("ranges: {of: half, kind: all}", [kron([1, 1], [HALF[0], TOTAL[0], HALF[1]], PAY)]),
        (
            "by: [sex], where: age > 0, terms: [{by: [half], where: age < 2}, {total: true}]",
            [kron(SEX, [0, 1, 0, 0, 0, 0], PAY), kron(SEX, [0, 1, 1, 1, 1, 1], PAY)],
        ),
        (
            "sql: \"SELECT half, COUNT(*) FROM data WHERE sex = 'F' GROUP BY ROLLUP (half)\"",
            [kron([1, 0], HALF, PAY), kron([1, 0], TOTAL, PAY)],
        ),
    ],
)
def test_item_has_the_rows_it_asks_for(item, expected):
    matrix = study(f"{{name: x, {item}}}").workload.to_sparse().toarray()
    np.testing.assert_array_equal(matrix, np.vstack(expected))


def test_weights_multiply_and_stay_out_of_the_answers():
    workload = study(
        "{name: x, weight: 2, terms: [{by: [sex], weight: 1.5}, {total: true}]}"
    ).workload
    assert [term.weight for term in workload.terms] == [3.0, 2.0]
    assert workload.to_sparse().toarray().max(axis=1).tolist() == [3.0, 3.0, 2.0]


def test_a_condition_of_one_term_does_not_reach_the_next():
    workload = study("{name: x, terms: [{by: [sex], where: age = 0}, {by: [sex]}]}").workload
    assert [term.condition for term in workload.terms] == ["age = 0", ""]


def test_labels_and_sql_of_grouped_restricted_and_coupled_queries():
    workload = study(
        "{name: a, by: [odd], where: sex = 'F'}", "{name: b, by: [sex], where: age = 0 OR pay < 10}"
    ).workload
    first, coupled = workload.query(0), workload.query(4)
    assert first.label == "sex: F, odd: odd"
    assert first.sql == "SELECT COUNT(*) FROM data WHERE (age % 2 = 1) AND (sex = 'F')"
    assert coupled.label == "sex: F where age = 0 OR pay < 10"
    assert coupled.sql == "SELECT COUNT(*) FROM data WHERE sex = 'F' AND (age = 0 OR pay < 10)"


def ranges_of_1024(condition):
    text = "study: x\nschema:\n  v: {type: integer, range: [0, 1023]}\n"
    text += "  s: {type: integer, range: [0, 1]}\n"
    text += f"workload:\n  - {{name: all, ranges: {{of: v, kind: all}}, where: {condition}}}\n"
    (term,) = Study.from_text(text).workload.terms
    return term


def test_half_a_million_ranges_are_stored_as_their_ends():
    term = ranges_of_1024("v >= 1")
    assert isinstance(term.products[0].factors[0], Ranges)
    assert term.queries == 1024 * 1025 // 2 - 1  # [0, 1) is empty under the condition


def test_ranges_stay_ranges_where_a_coupled_condition_empties_some():
    term = ranges_of_1024("v < 10 OR s = 1")
    assert term.queries == 1024 * 1025 // 2
    assert all(isinstance(product.factors[0], Ranges) for product in term.products)


def test_a_condition_that_cuts_ranges_into_too_many_pieces_is_refused():
    with pytest.raises(StudyError, match="cuts 524,288 ranges into pieces: 89,740,800 entries"):
        ranges_of_1024("v % 2 = 0")


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("by: [sex], where: age > 0 AND age < 1", "no record can satisfy the condition"),
        ("by: [half, odd]", "'half' and 'odd' both break down 'age'"),
        ("ranges: {of: odd, kind: all}", "'odd' has no order to take ranges or quantiles of"),
        ("ranges: {of: age, kind: width, width: 7}", "'age' has only 6 values"),
        ("marginals: {ways: 4}", "the schema has only 3 attributes, not 4"),
        ("ranges: {of: age, kind: all}, by: [half]", "'half' and 'age' both break down 'age'"),
    ],
)
def test_what_cannot_be_asked_is_refused(item, message):
    with pytest.raises(StudyError, match=message):
        study(f"{{name: x, {item}}}")


def test_too_many_tables_or_ranges_are_refused_before_they_are_made():
    wide = "".join(f"  a{i}: {{type: integer, range: [0, 1]}}\n" for i in range(50))
    with pytest.raises(StudyError, match=r"126,410,606,437,752 tables are more than 20,000"):
        Study.from_text(
            f"study: x\nschema:\n{wide}workload: [{{name: x, marginals: {{ways: 25}}}}]"
        )
    long = "study: x\nschema: {v: {type: integer, range: [0, 99999]}}\nworkload:\n"
    with pytest.raises(StudyError, match=r"'v' has 5,000,050,000 ranges, more than 10,000,000"):
        Study.from_text(long + "  - {name: all, ranges: {of: v, kind: all}}")


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ("[{each: [0, 999999]}]", "'each' makes more than 100,000 sets"),
        (f"[{', '.join(f'{{label: a{i}, where: v >= 0}}' for i in range(21))}]", "20,000,000"),
        ("[{label: a, rest: true}, {label: b, rest: true}]", "only one set can be the rest"),
        ("[{label: a, values: [1]}, {label: a, values: [2]}]", "two sets are called 'a'"),
        ("[{label: a, where: v >= 0}, {label: b, rest: true}]", "the set holds no value of 'v'"),
        ("[{each: [1, 2, 3]}]", "'each' of an integer is a range"),
    ],
)
def test_sets_that_cannot_be_made_are_refused(sets, message):
    text = "study: x\nschema: {v: {type: integer, range: [0, 999999]}}\n"
    text += f"groupings: {{g: {{of: v, sets: {sets}}}}}\nworkload: [{{name: x, by: [g]}}]\n"
    with pytest.raises(StudyError, match=message):
        Study.from_text(text)
