"""Conditions as most are written, read without the SQL parser, which takes long to import.

These are comparisons of columns with constants, one or several joined by AND, without parentheses
in parentheses. Whatever else a text says, and whatever is wrong with it, is left to the parser:
what is read here has the meaning and the spelling that it has there (tests/study/test_plain.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import reduce
from operator import or_

import numpy as np

from dhdmm.effort import allocate, work
from dhdmm.errors import StudyError
from dhdmm.study.attributes.base import Constant, compare_integers
from dhdmm.study.diagram import Atom, Formula, Mask, junction
from dhdmm.study.names import RESERVED
from dhdmm.study.schema import Schema

LONGEST = 400
_TOKEN = re.compile(
    r"""[ ]*
    (?: (?P<word> [A-Za-z_][A-Za-z0-9_]*)
      | (?P<number> [0-9]{1,15} (?:\.[0-9]{1,15})? ) (?!\w)
      | '(?P<text> [^'\\\x00-\x1f]*)'
      | (?P<sign> <> | != | <= | >= | [=<>(),])
    ) (?![.]) [ ]*""",
    re.VERBOSE,
)
_OPERATORS = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_KEYWORDS = RESERVED | frozenset(
    """
    alter between call connect_by_root current_catalog current_date current_role current_time
    current_timestamp current_user drop execute explain force grant if insert install list localtime
    localtimestamp nullable object optimize partitioned_by prepare range regexp rename reset revoke
    rlike rollback row session_user uncache vacuum xor
    """.split()  # noqa: SIM905 - as in names.py
)
"""Words that are not taken for columns here; the last of them mean something to the parser."""

Token = tuple[str, str]
"""Its kind, and its text without quotes."""


class _NotPlain(Exception):
    """The text is one for the parser."""


def conjunction(text: str, schema: Schema, only: int | None = None) -> tuple[str, Formula] | None:
    """A condition in DuckDB's spelling, and where it holds; None if the parser has to read it.

    >>> from dhdmm.study.attributes import IntegerAttribute
    >>> schema = Schema((IntegerAttribute("age", 0, 99), IntegerAttribute("race", 0, 9)))
    >>> conjunction("age>=18 and bit_count(race) != 1", schema)[0]
    'age >= 18 AND BIT_COUNT(race) <> 1'
    >>> conjunction("age >= 18 OR race = 1", schema) is None
    True
    """
    if len(text) > LONGEST:
        return None
    try:
        return _Reader(text, schema, only).condition()
    except (_NotPlain, StudyError):
        return None


class _Reader:
    def __init__(self, text: str, schema: Schema, only: int | None) -> None:
        self.schema, self.only = schema, only
        self.tokens = _tokens(text)[::-1]

    def condition(self) -> tuple[str, Formula]:
        found = self._all_of(self._part)
        if self.tokens:
            raise _NotPlain
        return found

    def _all_of(self, read: Callable[[], tuple[str, Formula]]) -> tuple[str, Formula]:
        """What `read` finds, and while AND follows what it finds after that."""
        found = [read()]
        while self.tokens and self.tokens[-1][1].lower() == "and":
            self._take("and")
            found.append(read())
        texts, parts = zip(*found, strict=True)
        return " AND ".join(texts), junction("all", parts)

    def _part(self) -> tuple[str, Formula]:
        """A comparison, or several in parentheses."""
        if self.tokens[-1:] != [("sign", "(")]:
            return self._comparison()
        self._take("(")
        text, formula = self._all_of(self._comparison)
        self._take(")")
        return f"({text})", formula

    def _comparison(self) -> tuple[str, Atom]:
        side = self._side()
        kind, word = self._next()
        if kind == "sign" and word in _OPERATORS:
            written, constant = self._constant()
            operator = _OPERATORS[word]
            return f"{side} {operator} {written}", side.atom(side.compare(operator, constant))
        if kind == "word" and word.lower() == "between":
            low, least = self._constant()
            self._take("and")
            high, most = self._constant()
            both = side.compare(">=", least) & side.compare("<=", most)
            return f"{side} BETWEEN {low} AND {high}", side.atom(both)
        if kind == "word" and word.lower() == "in":
            self._take("(")
            listed = [self._constant()]
            while (sign := self._next()) == ("sign", ","):
                listed.append(self._constant())
            if sign != ("sign", ")"):
                raise _NotPlain
            any_of = side.any_of([constant for _, constant in listed])
            return f"{side} IN ({', '.join(written for written, _ in listed)})", side.atom(any_of)
        raise _NotPlain

    def _side(self) -> _Side:
        """A column, or the number of its bits."""
        word = self._word()
        if word.lower() != "bit_count":
            return _Side(self.schema, self._column(word), bits=False)
        self._take("(")
        column = self._column(self._word())
        self._take(")")
        return _Side(self.schema, column, bits=True)

    def _column(self, name: str) -> int:
        if name.lower() in _KEYWORDS or name not in self.schema.names:
            raise _NotPlain
        index = self.schema.names.index(name)
        if self.only not in (None, index):
            raise _NotPlain
        return index

    def _constant(self) -> tuple[str, Constant]:
        """As it is written, and what it is."""
        kind, text = self._next()
        if kind == "number":
            return text, Decimal(text)
        if kind == "text":
            return f"'{text}'", text
        if kind == "word" and text.lower() in ("true", "false"):
            return text.upper(), text.lower() == "true"
        raise _NotPlain

    def _next(self) -> Token:
        if not self.tokens:
            raise _NotPlain
        return self.tokens.pop()

    def _word(self) -> str:
        kind, text = self._next()
        if kind != "word":
            raise _NotPlain
        return text

    def _take(self, expected: str) -> None:
        kind, text = self._next()
        if kind not in ("word", "sign") or text.lower() != expected:
            raise _NotPlain


class _Side:
    """What is compared: an attribute's values, or how many bits each has."""

    def __init__(self, schema: Schema, index: int, *, bits: bool) -> None:
        self.attribute, self.index, self.bits = schema.attributes[index], index, bits

    def __str__(self) -> str:
        return f"BIT_COUNT({self.attribute.name})" if self.bits else self.attribute.name

    def compare(self, operator: str, constant: Constant) -> Mask:
        """Which of the values that are not missing compare so."""
        work(10 * self.attribute.size)
        allocate(self.attribute.size / 2)
        present = self.attribute.present
        if not self.bits:
            return present.compare(operator, constant)
        values = present.integers()
        if values is None or values.min() < 0 or not isinstance(constant, Decimal):
            raise _NotPlain
        return compare_integers(np.bitwise_count(values).astype(np.int64), operator, constant)

    def any_of(self, constants: Sequence[Constant]) -> Mask:
        if self.bits:
            return reduce(or_, (self.compare("=", constant) for constant in constants))
        chosen = np.zeros(self.attribute.present.size, np.bool_)
        chosen[[self.attribute.present.code_of(constant) for constant in constants]] = True
        return chosen

    def atom(self, mask: Mask) -> Atom:
        """A missing value compares with nothing."""
        whole = np.zeros(self.attribute.size, np.bool_)
        whole[: len(mask)] = mask
        return Atom(self.index, whole)


def _tokens(text: str) -> list[Token]:
    found, end = [], 0
    while end < len(text):
        token = _TOKEN.match(text, end)
        if token is None or token.lastgroup is None:
            raise _NotPlain
        found.append((token.lastgroup, token[token.lastgroup]))
        end = token.end()
    return found
