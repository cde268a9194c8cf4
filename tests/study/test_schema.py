import math

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhdmm.errors import DataError, StudyError
from dhdmm.study.attributes import CategoryAttribute, IntegerAttribute, NumberAttribute
from dhdmm.study.names import RESERVED, column, literal
from dhdmm.study.schema import Schema
from tests.amounts import examples

AGE = IntegerAttribute("age", 17, 91)
RACE = CategoryAttribute("race", ("White", "Black", "Other"))
SMOKER = CategoryAttribute("smoker", (True, False))
CODED = CategoryAttribute("coded", (1, 5), ("one", "five"))
HOURS = NumberAttribute("hours", (0.0, 5.0, 10.0, 12.5))


@pytest.mark.parametrize(
    ("attribute", "value", "code"),
    [
        (AGE, 17, 0),
        (AGE, np.int32(91), 74),
        (AGE, 18.0, 1),
        (RACE, "Other", 2),
        (RACE, np.str_("Black"), 1),
        (SMOKER, True, 0),
        (SMOKER, np.bool_(False), 1),
        (CODED, 5, 1),
        (HOURS, 0, 0),
        (HOURS, 4.999, 0),
        (HOURS, 5, 1),
        (HOURS, 12.5, 2),
    ],
)
def test_values_have_codes(attribute, value, code):
    assert attribute.code(value) == code


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        (AGE, 16),
        (AGE, 92),
        (AGE, 17.5),
        (AGE, math.nan),
        (AGE, math.inf),
        (AGE, True),
        (AGE, "17"),
        (AGE, None),
        (RACE, "white"),
        (RACE, 1),
        (SMOKER, 1),
        (CODED, True),
        (CODED, "1"),
        (HOURS, -0.1),
        (HOURS, 12.6),
        (HOURS, math.nan),
        (HOURS, "5"),
    ],
)
def test_a_value_outside_the_domain_is_refused_without_repeating_it(attribute, value):
    with pytest.raises(DataError) as caught:
        attribute.code(value)
    assert caught.value.what == f"a value of '{attribute.name}' is not in the study's domain"


def test_labels():
    assert [AGE.label(0), AGE.range_label(0, 8), RACE.label(1)] == ["17", "17–24", "Black"]
    assert [HOURS.label(0), HOURS.label(2)] == ["[0, 5)", "[10, 12.5]"]
    assert (SMOKER.label(0), CODED.label(1)) == ("true", "five")
    assert AGE.set_label(np.array([0, 1, 2, 5])) == "17–19, 22"
    assert AGE.set_label(np.arange(0, 20, 2)) == "17, 19, 21, 23, 25, 27, … (10 values)"


@pytest.mark.parametrize(
    ("attribute", "codes", "sql"),
    [
        (AGE, range(8), "age >= 17 AND age < 25"),
        (AGE, [3], "age = 20"),
        (AGE, range(75), ""),
        (AGE, [1, 3], "age IN (18, 20)"),
        (AGE, [1, 3, 4], "((age = 18) OR (age >= 20 AND age < 22))"),
        (AGE, [], "FALSE"),
        (RACE, [0, 1], "race IN ('White', 'Black')"),
        (RACE, [2], "race = 'Other'"),
        (SMOKER, [0], "smoker = TRUE"),
        (CODED, [1], "coded = 5"),
        (HOURS, [0], "hours >= 0 AND hours < 5"),
        (HOURS, [2], "hours >= 10 AND hours <= 12.5"),
    ],
)
def test_predicates_speak_of_the_raw_column(attribute, codes, sql):
    assert attribute.set_predicate(np.array(codes, int)) == sql


def test_predicates_bracket_what_they_join():
    """A union of runs stands in brackets, so that it can be joined with AND."""
    text = HOURS.set_predicate(np.array([0, 2]))
    assert text.startswith("(")
    assert text.endswith(")")


def test_names_that_sql_would_misread_are_quoted():
    assert [column(name) for name in ("age", "order", "a b", 'a"b', "1x")] == [
        "age",
        '"order"',
        '"a b"',
        '"a""b"',
        '"1x"',
    ]
    known = duckdb.execute(
        "SELECT keyword_name FROM duckdb_keywords()"
        " WHERE keyword_category IN ('reserved', 'type_function')"
    ).fetchall()
    assert {word for (word,) in known} <= RESERVED


@settings(max_examples=examples(25, 500), deadline=None, derandomize=True)
@given(
    st.one_of(st.text(st.characters(codec="utf-8", exclude_characters="\0")), st.integers(-9, 9))
)
def test_literals_mean_themselves_to_duckdb(value):
    assert duckdb.execute(f"SELECT {literal(value)}").fetchone() == (value,)


def test_cells_are_numbered_with_the_last_attribute_fastest():
    schema = Schema((AGE, RACE, SMOKER))
    assert schema.cells == 75 * 3 * 2
    assert schema.encode({"smoker": False, "race": "White", "age": 18, "name": "x"}) == (1, 0, 1)
    assert schema.cell((1, 0, 1)) == 7
    assert [schema.cell(schema.codes(cell)) for cell in range(450)] == list(range(450))
    with pytest.raises(DataError, match="the record has no column 'race'"):
        schema.encode({"age": 18})


def test_a_schema_may_have_any_number_of_cells_that_can_be_written_as_a_double():
    schema = Schema.of_sizes([10**6] * 41)
    assert schema.codes(10**246 - 1) == (999_999,) * 41
    with pytest.raises(StudyError, match=r"more than 10\^252 cells, beyond 10\^250"):
        Schema.of_sizes([10**6] * 42)
    with pytest.raises(StudyError, match="would have 1,000,001 values"):
        Schema.of_sizes([10**6 + 1])
