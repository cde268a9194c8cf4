"""What is read without the SQL parser has the meaning and the spelling that the parser gives it."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokens import TokenType

from dhdmm.errors import StudyError
from dhdmm.study import predicate, sqltext
from dhdmm.study.attributes import Attribute, CategoryAttribute, IntegerAttribute, NumberAttribute
from dhdmm.study.attributes.missing import WithMissing
from dhdmm.study.plain import LONGEST, conjunction
from dhdmm.study.predicate import boxes
from dhdmm.study.schema import Schema
from tests.amounts import examples

ATTRIBUTES: tuple[Attribute, ...] = (
    IntegerAttribute("age", -2, 30),
    IntegerAttribute("bits", 0, 9),
    CategoryAttribute("sex", ("Female", "Male")),
    CategoryAttribute("answer", ("yes", "no", "AND", "", "18")),
    CategoryAttribute("Veteran", (True, False)),
    CategoryAttribute("income>50K", ("yes", "no")),
    NumberAttribute("hours", (0.0, 0.5, 2.5, 10.0)),
    WithMissing("known", IntegerAttribute("known", 0, 5), "unknown"),
)
SCHEMA = Schema(ATTRIBUTES)
WORDS = (
    *("age", "AGE", "bits", "sex", "answer", "Veteran", "income>50K", "hours", "known", "nobody"),
    *("BIT_COUNT(bits)", "bit_count( age )", "bit_count", '"age"', "data.age", "age % 2"),
    *("=", "<>", "!=", "<", "<=", ">", ">=", "==", "<=>", "IN", "in", "NOT IN", "BETWEEN", "IS"),
    *("AND", "and", "OR", "NOT", "(", ")", ",", "--", "/* x */", ";", "TRUE", "false", "NULL"),
    *("0", "1", "2.5", "007", "18", "1.", ".5", "1e1", "-1", "- 1", "12345678901234567", "0x1"),
    *("'Male'", "'yes'", "''", "'it''s'", "'AND'", "'18'", "'a\\'", "E'yes'", "$1", "?"),
    *(
        "(age = 1)",
        "(bits = 1 AND age < 20)",
        "(sex",
        "1)",
        "(1, 2)",
        "(1,18)",
        "('yes', 'no')",
        "(1)",
        "()",
        "(1, 'yes')",
        "2 AND 7",
        "(SELECT 1)",
    ),
)


def agrees(text: str, schema: Schema) -> bool:
    """Whether the text is read here; then the parser reads the same."""
    found = conjunction(text, schema)
    if found is None:
        return False
    tree = sqltext.parse_condition(text)
    assert found[0] == sqltext.render(tree)
    formula = predicate._ConditionReader(schema, None).formula(tree)
    first, second = (boxes(predicate.Read("", one), schema) for one in (found[1], formula))
    assert [box.coefficient for box in first] == [box.coefficient for box in second]
    for one, other in zip(first, second, strict=True):
        assert list(one.masks) == list(other.masks)
        assert all(np.array_equal(one.masks[a], other.masks[a]) for a in one.masks)
    return True


PLAIN = (
    "age >= 18",
    "age>=18 and sex = 'Male'",
    "bit_count(bits) = 2 AND answer <> 'AND' AND Veteran = TRUE",
    "age BETWEEN 2 AND 7 AND bits IN (1, 2, 3)",
    "bit_count(bits) IN (1, 2) AND bit_count(bits) between 0 and 1",
    "known < 3 AND known > 1",
    "hours < 2.5 AND hours >= 0.5",
    "answer in ('yes','18')",
    "age < 1000",
    "age < 5 AND age > 7",
    "(age >= 18) AND (bits = 1 AND age < 20) and sex = 'Male'",
    "(age IN (1, 2))",
)


@pytest.mark.parametrize("text", PLAIN)
def test_plain_conditions_are_read_as_the_parser_reads_them(text: str) -> None:
    assert agrees(text, SCHEMA)


LEFT_TO_THE_PARSER = (
    *("age = 'x'", "age = 31", "sex > 'Male'", "sex = 'male'", "AGE = 1", "nobody = 1"),
    *(
        "age = 1 OR age = 2",
        "NOT age = 1",
        "((age = 1))",
        "(age = 1) = TRUE",
        "(age = 1",
        "age = 1)",
        "(age) = 1",
        "Veteran",
        "1 = age",
        "age = -1",
    ),
    *("bit_count(age) = 1", "bit_count(sex) = 1", "bit_count(bits) = 'x'", "age IN ()", ""),
    *("age = 1 --", "age = 1AND bits = 1", "age = 1.", "data.age = 1", "answer = 'it''s'"),
    *("hours <= 1", "hours IN (1)", "age BETWEEN 1", "age NOT IN (1)", "age", "age =", "age IN (1"),
    *("age = 1\nAND bits = 1", "age = 1;", '"age" = 1', "known IS NULL"),
    " AND ".join(["age = 1"] * LONGEST),
)


@pytest.mark.parametrize("text", LEFT_TO_THE_PARSER)
def test_what_is_not_plain_or_wrong_is_left_to_the_parser(text: str) -> None:
    assert conjunction(text, SCHEMA) is None


def test_only_one_attribute_may_be_asked_for() -> None:
    assert conjunction("age = 1", SCHEMA, 0) is not None
    assert conjunction("age = 1", SCHEMA, 1) is None
    assert conjunction("age = 1 AND bits = 1", SCHEMA, 1) is None


@settings(max_examples=examples(300, 20_000), deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=9), st.sampled_from([" ", "", "  "]))
def test_whatever_is_read_here_the_parser_reads_so(words: list[str], between: str) -> None:
    agrees(between.join(words), SCHEMA)


@settings(max_examples=examples(300, 20_000), deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(*(st.sampled_from(part) for part in (WORDS[:16], WORDS[16:28], WORDS[38:]))),
        min_size=1,
        max_size=3,
    )
)
def test_comparisons_that_are_read_here_the_parser_reads_so(parts: list[tuple[str, ...]]) -> None:
    agrees(" AND ".join(" ".join(part) for part in parts), SCHEMA)


def test_words_that_mean_something_to_the_parser_are_no_columns_here() -> None:
    """All words that the parser knows, as names of columns."""
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
    tokens = {token.name.lower() for token in TokenType} | set(DuckDB.Tokenizer.KEYWORDS)
    functions = {*exp.FUNCTION_BY_NAME, *DuckDB.Parser.FUNCTIONS}
    functions |= set(DuckDB.Parser.NO_PAREN_FUNCTION_PARSERS)
    read = 0
    for word in sorted({word.lower() for word in tokens | functions if word.isidentifier()}):
        schema = Schema((IntegerAttribute(word, 0, 9), CategoryAttribute("sex_", ("a", "b"))))
        for form in ("{} = 1", "{} IN (1, 2)", "{}<5 and sex_ in ('a')", "sex_ = 'a' AND {} >= 3"):
            text = form.format(word)
            read += agrees(text, schema)
    assert read > 2_000


@pytest.mark.slow
def test_a_study_of_plain_conditions_needs_no_parser() -> None:
    example = Path("examples/census-sf1/study.yaml")
    program = (
        "import sys; from dhdmm.study.spec import Study;"
        f"Study.load({str(example)!r}).workload; print('sqlglot' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert printed.stdout == b"False\n"


def test_a_refusal_is_the_parsers() -> None:
    with pytest.raises(StudyError, match=r"SQL line 1, column 7: 31 is not a value of 'age'"):
        boxes("age = 31", SCHEMA)
