"""Queries against DuckDB: the grouping sets are those that SQL means."""

from __future__ import annotations

from collections import Counter
from functools import cache

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhdmm.errors import StudyError
from dhdmm.study.attributes import CategoryAttribute, IntegerAttribute, NumberAttribute
from dhdmm.study.schema import Schema
from dhdmm.study.sql import parse_query
from tests.amounts import examples

SCHEMA = Schema(
    (
        IntegerAttribute("age", 17, 91),
        CategoryAttribute("sex", ("Female", "Male")),
        CategoryAttribute("race", ("White", "Black", "Other")),
        NumberAttribute("hours", (0.0, 20.0, 40.0)),
        CategoryAttribute("income>50K", (True, False)),
    )
)
GROUPINGS = ("age_band",)
NAMES = ("age", "sex", "race", "hours")

columns = st.sampled_from(NAMES)
composites = st.one_of(
    columns,
    st.lists(columns, min_size=1, max_size=3).map(lambda names: f"({', '.join(names)})"),
)


def listed(form: str, parts: st.SearchStrategy[str], fewest: int = 1) -> st.SearchStrategy[str]:
    return st.lists(parts, min_size=fewest, max_size=3).map(lambda x: form.format(", ".join(x)))


cubes = st.one_of(listed("CUBE ({})", composites), listed("rollup({})", composites))
inner_sets = listed("GROUPING SETS ({})", st.one_of(composites, st.just("()"), cubes))
elements = st.one_of(composites, st.just("()"), cubes, inner_sets)
nested = listed("GROUPING SETS ({})", st.one_of(elements))
group_by = listed("{}", st.one_of(elements, nested))


@cache
def one_record() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("CREATE TABLE data (age INT, sex INT, race INT, hours INT)")
    connection.execute("INSERT INTO data VALUES (1, 2, 3, 4)")
    return connection


@pytest.mark.slow
@settings(max_examples=examples(40, 1000), deadline=None, derandomize=True)
@given(group_by)
def test_grouping_sets_are_those_of_duckdb(clause: str) -> None:
    ours = parse_query(f"SELECT COUNT(*) FROM data GROUP BY {clause}", SCHEMA, GROUPINGS)
    used = [name for name in NAMES if any(name in names for names in ours.grouping_sets)]
    selected = ", ".join(
        [*(f"GROUPING({name})" for name in used), "COUNT(*)"]
    )  # a row for each set
    theirs = one_record().execute(f"SELECT {selected} FROM data GROUP BY {clause}").fetchall()
    expected = Counter(
        frozenset(name for name, away in zip(used, row, strict=False) if not away) for row in theirs
    )
    assert Counter(map(frozenset, ours.grouping_sets)) == expected


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("", ((),)),
        ("GROUP BY sex, age_band", (("sex", "age_band"),)),
        ("GROUP BY CUBE (sex, race)", (("sex", "race"), ("sex",), ("race",), ())),
        ("GROUP BY ROLLUP (sex, (race, age))", (("sex", "race", "age"), ("sex",), ())),
        ("GROUP BY GROUPING SETS ((sex), (sex), ())", (("sex",), ("sex",), ())),
        ("GROUP BY sex, ROLLUP (race)", (("sex", "race"), ("sex",))),
        ('GROUP BY "income>50k"', (("income>50K",),)),
        ("GROUP BY AGE_BAND, sex, Data.SEX", (("age_band", "sex"),)),
    ],
)
def test_grouping_sets_keep_their_order(clause: str, expected: tuple[tuple[str, ...], ...]) -> None:
    query = parse_query(f"SELECT COUNT(*) FROM data {clause}", SCHEMA, GROUPINGS)
    assert query.grouping_sets == expected


@pytest.mark.parametrize(
    "count", ["COUNT(*)", "count(*) AS n", "COUNT(1)", "SUM(1) AS people", "COUNT()"]
)
def test_number_of_records_has_several_spellings(count: str) -> None:
    query = parse_query(f"SELECT sex, {count} FROM Data GROUP BY sex;", SCHEMA)
    assert query.grouping_sets == (("sex",),)


def test_where_gives_boxes_and_the_text_without_comments() -> None:
    query = parse_query(
        """SELECT sex, COUNT(*)
           FROM data
           WHERE age >= 65 /* pension */ OR sex = 'Female' -- )
           GROUP BY sex""",
        SCHEMA,
    )
    assert len(query.boxes) == 2
    assert query.condition == "age >= 65 OR sex = 'Female'"


def test_query_without_where_counts_every_record() -> None:
    query = parse_query("SELECT COUNT(*) FROM data", SCHEMA)
    assert [(box.coefficient, box.masks) for box in query.boxes] == [(1, {})]
    assert query.condition == ""


def test_where_that_never_holds_gives_no_boxes() -> None:
    assert parse_query("SELECT COUNT(*) FROM data WHERE age > 200", SCHEMA).boxes == ()


SELECT = " (select grouped columns and COUNT(*), SUM(x), AVG(x) or MEDIAN(x))"
GALLERY = {
    "SELEC COUNT(*) FROM data": "1: a query begins with SELECT, not SELEC",
    "DROP TABLE data": "1: a query begins with SELECT, not DROP",
    "SELECT COUNT(*)": "8: FROM data is missing",
    "SELECT COUNT(*) FROM people": "22: people: the only table is 'data'",
    "SELECT COUNT(*) FROM data d": "22: data AS d: write just FROM data",
    "SELECT COUNT(*) FROM main.data": "22: main.data: write just FROM data",
    "SELECT COUNT(*) FROM data TABLESAMPLE 10%": "22: data TABLESAMPLE SYSTEM (10 PERCENT):"
    " write just FROM data",
    "SELECT COUNT(*) FROM (SELECT 1)": "30: (SELECT 1) is a subquery: the only table is 'data'",
    "SELECT COUNT(*) FROM data JOIN b ON TRUE": "32: JOIN b ON TRUE:"
    " a study has one table, so there is nothing to join",
    "SELECT COUNT(*) FROM data, b": "28: , b: a study has one table, so there is nothing to join",
    "WITH t AS (SELECT 1) SELECT COUNT(*) FROM t": "6: WITH t AS (SELECT 1):"
    " a study has one table, and this would make another",
    "SELECT COUNT(*) FROM data UNION SELECT 1": "8: UNION joins queries (ask one at a time)",
    "SELECT COUNT(*) FROM data; SELECT 1": "35: there are several statements (ask one at a time)",
    "(SELECT COUNT(*) FROM data)": "9: (SELECT COUNT(*) FROM data) is not a plain SELECT",
    "SELECT DISTINCT COUNT(*) FROM data": "17: DISTINCT: groups are distinct already",
    "SELECT COUNT(*) FROM data GROUP BY sex HAVING COUNT(*) > 3": "47: HAVING COUNT(*) > 3:"
    " this chooses groups by their exact counts, which nobody sees",
    "SELECT COUNT(*) FROM data QUALIFY 1": "35: QUALIFY 1:"
    " this chooses groups by their exact counts, which nobody sees",
    "SELECT COUNT(*) FROM data ORDER BY 1": "36: ORDER BY 1:"
    " a released table keeps the order of the schema's values",
    "SELECT COUNT(*) FROM data LIMIT 3": "33: LIMIT 3: every group is released",
    "SELECT COUNT(*) FROM data USING SAMPLE 3": "40: TABLESAMPLE RESERVOIR (3 ROWS):"
    " every record is counted",
    "SELECT COUNT(*) INTO t FROM data": "22: INTO t: this is not understood",
    "SELECT race, COUNT(*) FROM data GROUP BY sex": "8: 'race' is selected but not in GROUP BY",
    "SELECT sex FROM data GROUP BY sex": "8: nothing is counted"
    " (select COUNT(*), SUM(x), AVG(x) or MEDIAN(x))",
    "SELECT COUNT(*), COUNT(*) FROM data": "8: the count is selected twice (select it once)",
    "SELECT sex AS s, COUNT(*) FROM data GROUP BY sex": "8: sex AS s: columns keep their names",
    "SELECT * FROM data": "8: *: name the columns to group by" + SELECT,
    "SELECT SUM(race) FROM data": "12: the values of 'race' cannot be added up",
    "SELECT AVG(hourz) FROM data": "12: unknown attribute 'hourz' (did you mean 'hours'?)",
    "SELECT SUM(hours * 2) FROM data": "8: SUM(hours * 2) is not of a column" + SELECT,
    "SELECT MAX(hours) FROM data": "12: MAX(hours) cannot be selected" + SELECT,
    "SELECT COUNT(sex) FROM data": "14: every record has a value of 'sex', so write COUNT(*)",
    "SELECT COUNT(DISTINCT sex) FROM data": "8: COUNT(DISTINCT sex):"
    " distinct values are not a count of records (only the persons of a study whose unit is the"
    " person can be counted)",
    "SELECT COUNT(*) FILTER (WHERE age > 20) FROM data": "8: COUNT(*) FILTER(WHERE age > 20):"
    " the restriction belongs into WHERE" + SELECT,
    "SELECT COUNT(*) OVER () FROM data": "8: COUNT(*) OVER ():"
    " window functions look at the other groups' exact counts, which nobody sees" + SELECT,
    "SELECT (SELECT 1) FROM data": "16: (SELECT 1): a subquery cannot be selected" + SELECT,
    "SELECT sexx, COUNT(*) FROM data": "8: unknown attribute or grouping 'sexx'"
    " (did you mean 'sex'?)",
    "SELECT COUNT(*) FROM data GROUP BY age_bnd": "36: unknown attribute or grouping 'age_bnd'"
    " (did you mean 'age_band'?)",
    "SELECT COUNT(*) FROM data GROUP BY 1": "36: GROUP BY 1 is not a column (name the column)",
    "SELECT COUNT(*) FROM data GROUP BY age / 10": "36: GROUP BY age / 10 is not a column"
    " (for sets of values define a grouping in the study)",
    "SELECT COUNT(*) FROM data GROUP BY ALL": "8: GROUP BY ALL is not understood"
    " (name the columns, or use CUBE (…) or ROLLUP (…))",
    "SELECT COUNT(*) FROM data GROUP BY CUBE ()": "8: CUBE () is empty",
    "SELECT COUNT(*) FROM data GROUP BY": "8: GROUP BY is empty (for the total leave it out)",
    "SELECT COUNT(*) FROM data WHERE age_band = 3": "33: 'age_band' is a grouping:"
    " a condition uses the attribute itself",
    "SELECT COUNT(*) FROM data WHERE EXISTS (SELECT 1)": "48: EXISTS(SELECT 1) is a subquery:"
    " a condition looks at one record",
    "SELECT COUNT(*) FROM data WHERE sex = 'Mail'": "39: 'Mail' is not a value of 'sex'"
    " (did you mean 'Male'?)",
}


@pytest.mark.parametrize("text", GALLERY)
def test_refusal_says_what_is_wrong_and_where(text: str) -> None:
    with pytest.raises(StudyError) as error:
        parse_query(text, SCHEMA, GROUPINGS, where="study.yaml:7")
    assert str(error.value) == f"study.yaml:7, SQL line 1, column {GALLERY[text]}"


def test_number_of_grouping_sets_is_limited() -> None:
    schema = Schema.of_sizes((2,) * 20)
    cube = "SELECT COUNT(*) FROM data GROUP BY CUBE ({})"
    assert len(parse_query(cube.format(", ".join(schema.names[:12])), schema).grouping_sets) == 4096
    with pytest.raises(StudyError, match="1,048,576 grouping sets are above the limit of 4,096"):
        parse_query(cube.format(", ".join(schema.names)), schema)
    crossed = ", ".join(f"CUBE ({name})" for name in schema.names)
    with pytest.raises(StudyError, match="1,048,576 grouping sets are above the limit of 4,096"):
        parse_query(f"SELECT COUNT(*) FROM data GROUP BY {crossed}", schema)
