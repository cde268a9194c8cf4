"""What a condition may not say, with the words a user reads."""

from __future__ import annotations

import pytest

from dhdmm.errors import StudyError
from dhdmm.study import sqltext
from dhdmm.study.attributes import CategoryAttribute, IntegerAttribute, NumberAttribute
from dhdmm.study.predicate import boxes, mask
from dhdmm.study.schema import Schema

SCHEMA = Schema(
    (
        IntegerAttribute("age", 17, 91),
        CategoryAttribute("race", ("White", "Black", "Other")),
        NumberAttribute("hours", tuple(range(0, 105, 5))),
        IntegerAttribute("education-num", 1, 16),
        CategoryAttribute("veteran", (True, False)),
        IntegerAttribute("change", -5, 5),
    )
)
UNDERSTOOD = (
    " (conditions are made of =, <>, <, <=, >, >=, BETWEEN, IN, IS NULL, AND, OR, NOT, TRUE"
    " and FALSE; integers also allow bit_count, % and &, dates EXTRACT and DATE_TRUNC)"
)
GALLERY = {
    "agee = 20": "column 1: unknown attribute 'agee' (did you mean 'age'?)",
    "race = 'Whyte'": "column 8: 'Whyte' is not a value of 'race' (did you mean 'White'?)",
    'race = "White"': "column 8: unknown attribute 'White'"
    " (the value of 'race' stands in single quotes: 'White')",
    "race <> 'Whyte'": "column 9: 'Whyte' is not a value of 'race' (did you mean 'White'?)",
    "age = 5": "column 7: 5 is not a value of 'age' (it ranges from 17 to 91)",
    "age IN (20, 17.5)": "column 13: 17.5 is not a value of 'age' (it ranges from 17 to 91)",
    "age = '20'": "column 7: 'age' holds numbers, not '20'"
    " (text stands in single quotes, numbers in none)",
    "race = 3": "column 8: 'race' holds text, not 3"
    " (text stands in single quotes, numbers in none)",
    "veteran = 1": "column 11: 'veteran' holds TRUE and FALSE, not 1"
    " (text stands in single quotes, numbers in none)",
    "race < 'Other'": "column 8: the values of 'race' have no order, so < means nothing"
    " (use =, <> or IN)",
    "hours >= 37": "column 10: 'hours' >= 37 cuts the bin [35, 40)"
    " (a bin is taken whole: use < or >= with 35 or 40)",
    "hours <= 35": "column 10: 'hours' <= 35 cuts the bin [35, 40)"
    " (a bin is taken whole: use < or >= with 35 or 40)",
    "hours < 100": "column 9: 'hours' < 100 cuts the bin [95, 100]"
    " (a bin is taken whole: use < or >= with 95, <= or > with 100)",
    "hours BETWEEN 10 AND 20": "column 22: 'hours' <= 20 cuts the bin [20, 25)"
    " (a bin is taken whole: use < or >= with 20 or 25)",
    "hours = 40": "column 9: 'hours' comes in bins, so a single value cannot be told apart"
    " (use >= and < with the bins' edges)",
    "hours % 2 = 0": "column 1: 'hours' does not hold integers",
    "education-num > 3": "column 1: education - num is not understood"
    ' (is the attribute meant? then write "education-num")',
    "age": "column 1: 'age' is not TRUE or FALSE: compare it with a value",
    "age IS NULL": "column 1: age IS NULL: every record has a value of 'age'"
    " (if it may be missing, the schema says so: age: {…, missing: true})",
    "age = NULL": "column 1: age = NULL is not understood (write IS NULL or IS NOT NULL)",
    "age IN (SELECT 20)": "column 1: age IN (SELECT 20) is a subquery:"
    " a condition looks at one record",
    "age = hours": "column 1: age = hours does not compare an attribute with a constant"
    + UNDERSTOOD,
    "1 = 1": "column 1: 1 = 1 does not compare an attribute with a constant" + UNDERSTOOD,
    "17 < age < 20": "column 1: 17 < age is not understood" + UNDERSTOOD,
    "race LIKE 'W%'": "column 1: race LIKE 'W%' is not understood" + UNDERSTOOD,
    "age + 1 = 20": "column 1: age + 1 is not understood" + UNDERSTOOD,
    "people.age = 20": "column 1: people.age: the only table is 'data'",
    "age > 1e300": "column 7: 1e300 is out of reach of any attribute",
    "age % 0 = 1": "column 1: age % 0 divides by zero",
    "age & 1.5 = 1": "column 1: age & 1.5 needs an integer after the sign",
    "bit_count(change) = 1": "column 1: BIT_COUNT(change): negative integers have no definite bits",
    "age % 2 = 'x'": "column 11: age % 2 is a number, not 'x'",
    "age > 20 AND": "column 10: the SQL cannot be read near 'AND'",
    "age > 20\n  AND agee = 1": "SQL line 2, column 7: unknown attribute 'agee'"
    " (did you mean 'age'?)",
}


@pytest.mark.parametrize("condition", GALLERY)
def test_refusal_says_what_is_wrong_and_where(condition: str) -> None:
    with pytest.raises(StudyError) as error:
        boxes(condition, SCHEMA, where="study.yaml:7")
    place = "" if GALLERY[condition].startswith("SQL") else "SQL line 1, "
    assert str(error.value) == f"study.yaml:7, {place}{GALLERY[condition]}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("", "the SQL is empty"),
        ("race = 'White", "the SQL cannot be read (is every quotation mark closed?)"),
        ("age > 20; veteran", "a condition may not contain ';'"),
        ("age = 20 OR " * 2_000, "the SQL has 24,000 characters, above the limit of 20,000"),
        ("(" * 21 + "veteran" + ")" * 21, "the SQL is nested too deeply"),
        ("NOT " * 4_000 + "veteran", "the SQL is nested too deeply"),
        ("age " + "% 7 " * 4_000 + "= 1", "the SQL is nested too deeply"),
        ("age > " + "- " * 4_000 + "1", "the SQL is nested too deeply"),
        ("CASE WHEN " * 1_000, "the SQL is nested too deeply"),
    ],
)
def test_unreadable_or_hostile_text_is_refused_as_a_whole(condition: str, message: str) -> None:
    with pytest.raises(StudyError) as error:
        boxes(condition, SCHEMA)
    assert str(error.value) == message


def test_mask_refuses_other_attributes() -> None:
    with pytest.raises(StudyError) as error:
        mask("age > 20 OR race = 'White'", SCHEMA, 0, where="groupings.g")
    assert str(error.value) == (
        "groupings.g, SQL line 1, column 13: only 'age' may be used here, not 'race'"
    )


def test_bounds_are_checked_before_the_parser_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlglot.parse_one", lambda *_, **__: pytest.fail("parsed"))
    for text in ("x" * (sqltext.LENGTH_LIMIT + 1), "(" * (sqltext.BRACKET_LIMIT + 1)):
        with pytest.raises(StudyError):
            sqltext.parse_condition(text)
