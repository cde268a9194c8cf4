"""Malformed conditions and queries end in a `StudyError`, whatever they are."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from dhdmm.errors import StudyError
from dhdmm.study.attributes import CategoryAttribute, IntegerAttribute, NumberAttribute
from dhdmm.study.predicate import boxes
from dhdmm.study.schema import Schema
from dhdmm.study.sql import parse_query

SCHEMA = Schema(
    (
        IntegerAttribute("age", 17, 91),
        CategoryAttribute("race", ("White", "Black", "Other")),
        NumberAttribute("hours", tuple(range(0, 105, 5))),
        CategoryAttribute("veteran", (True, False)),
    )
)
VOCABULARY = """
    AND OR NOT ( ) [ ] { } , ; . :: -> := ' " -- /* */ $1 ? @ # % & | || ^ ~ ! = <> < >= 20 -1 1.5
    5. 1e5 0x1F 'White' age race hours veteran bit_count( IN BETWEEN IS NULL TRUE CASE WHEN THEN
    ELSE END CAST AS INT INTERVAL DATE EXISTS LIKE COLLATE ANY lambda x IF ARRAY UNNEST OVER FILTER
    SELECT COUNT(*) FROM data WHERE GROUP BY CUBE ROLLUP GROUPING SETS ALL DISTINCT HAVING ORDER
    LIMIT UNION JOIN WITH PIVOT QUALIFY TABLESAMPLE VALUES
"""
WORDS = VOCABULARY.split()
CONDITION = "age >= 18 AND race IN ('White', 'Black') OR NOT (veteran AND age & 3 = 1)"
QUERY = f"SELECT race, COUNT(*) AS n FROM data WHERE {CONDITION} GROUP BY CUBE (race), ROLLUP (age)"


def mutated(text: str, dice: random.Random) -> str:
    """The text with a few pieces lost, repeated, or preceded by strange characters or words."""
    pieces = list(text)
    for _ in range(dice.randint(1, 4)):
        start = dice.randrange(len(pieces) + 1)
        stop = start + dice.choice([0, 1, 8])
        strange = dice.choice(["", dice.choice("'\"()[]{};,.\\\n\0é5N"), f" {dice.choice(WORDS)} "])
        pieces[start:stop] = [*strange, *pieces[start:stop] * dice.randint(0, 2)]
    return "".join(pieces)


def garbage(sound: str, dice: random.Random) -> str:
    if dice.random() < 0.7:
        return mutated(sound, dice)
    return " ".join(dice.choices(WORDS, k=dice.randint(1, 12)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("read", "sound"),
    [
        (lambda text: boxes(text, SCHEMA), CONDITION),
        (lambda text: parse_query(text, SCHEMA, ["age_band"]), QUERY),
    ],
    ids=["conditions", "queries"],
)
def test_garbage_is_refused_with_a_study_error_and_nothing_else(
    read: Callable[[str], object], sound: str
) -> None:
    read(sound)
    dice = random.Random(2)
    refused = 0
    for _ in range(500):
        try:
            read(garbage(sound, dice))
        except StudyError:
            refused += 1
    assert 350 < refused < 500, "some mutations leave a sound text, most do not"
