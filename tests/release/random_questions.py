"""Small random studies and random counting queries, each with its meaning cell by cell.

The meaning is computed here from the codes alone; the library only ever sees the texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import product

import numpy as np
from hypothesis import strategies as st

import dhdmm
from dhdmm.release.release import Release
from dhdmm.study.spec import Study
from tests.release.releases import TERMS

SURVIVORS = 56


@dataclass(frozen=True, eq=False)
class Domain:
    """Attributes with their values as SQL constants, and groupings as sets of codes."""

    kinds: tuple[str, ...]
    sizes: tuple[int, ...]
    groupings: dict[str, tuple[int, list[list[int]]]]

    @property
    def names(self) -> list[str]:
        return [f"a{i}" for i in range(len(self.sizes))]

    def constant(self, attribute: int, code: int) -> str:
        """A value; of a number attribute, the lower edge of its bin."""
        return {"integer": str(code - 1), "category": f"'v{code}'", "number": str(10 * code)}[
            self.kinds[attribute]
        ]

    def schema_yaml(self, attribute: int) -> str:
        size = self.sizes[attribute]
        values = [f"v{code}" for code in range(size)]
        return {
            "integer": f"{{type: integer, range: [-1, {size - 2}]}}",
            "category": f"{{type: category, values: [{', '.join(values)}]}}",
            "number": f'{{type: number, edges: "0:{10 * size}:10"}}',
        }[self.kinds[attribute]]

    def rows(self, name: str) -> tuple[int, list[list[int]]]:
        """The attribute that a name breaks down, and the codes of every row."""
        if name in self.groupings:
            return self.groupings[name]
        attribute = self.names.index(name)
        return attribute, [[code] for code in range(self.sizes[attribute])]

    @cached_property
    def cells(self) -> np.ndarray:
        """(attributes, cells) codes, the last attribute fastest."""
        return np.indices(self.sizes).reshape(len(self.sizes), -1)

    def has(self, attribute: int, codes: list[int]) -> np.ndarray:
        return np.isin(self.cells[attribute], codes)


@dataclass(frozen=True, eq=False)
class Condition:
    sql: str
    holds: np.ndarray


def atom(domain: Domain, attribute: int, low: int, high: int, kind: int) -> Condition:
    """Codes low … high − 1 in one of the spellings that SQL has for them."""
    name, numbers = domain.names[attribute], domain.kinds[attribute] == "number"
    codes = list(range(low, high))
    if domain.kinds[attribute] == "category" or (kind == 0 and not numbers):
        listed = ", ".join(domain.constant(attribute, code) for code in codes)
        return Condition(f"{name} IN ({listed})", domain.has(attribute, codes))
    first = domain.constant(attribute, low)
    if high == domain.sizes[attribute]:
        return Condition(f"{name} >= {first}", domain.has(attribute, codes))
    after = domain.constant(attribute, high)
    return Condition(f"({name} >= {first} AND {name} < {after})", domain.has(attribute, codes))


@st.composite
def conditions(draw: st.DrawFn, domain: Domain, depth: int = 2) -> Condition:
    kind = draw(st.sampled_from(["atom", "atom", "and", "or", "not"] if depth else ["atom"]))
    if kind == "atom":
        attribute = draw(st.integers(0, len(domain.sizes) - 1))
        low = draw(st.integers(0, domain.sizes[attribute] - 1))
        high = draw(st.integers(low + 1, domain.sizes[attribute]))
        return atom(domain, attribute, low, high, draw(st.integers(0, 1)))
    left = draw(conditions(domain, depth - 1))
    if kind == "not":
        return Condition(f"NOT ({left.sql})", ~left.holds)
    right = draw(conditions(domain, depth - 1))
    holds = left.holds & right.holds if kind == "and" else left.holds | right.holds
    return Condition(f"({left.sql} {kind.upper()} {right.sql})", holds)


@st.composite
def breakdowns(draw: st.DrawFn, domain: Domain) -> list[str]:
    """At most one name an attribute."""
    chosen = []
    for attribute, name in enumerate(domain.names):
        groupings = [g for g, (a, _) in domain.groupings.items() if a == attribute]
        found = draw(st.sampled_from([None, None, name, *groupings]))
        chosen += [found] if found else []
    return chosen


@dataclass(frozen=True, eq=False)
class Question:
    domain: Domain
    names: list[str]
    condition: Condition | None

    @property
    def holds(self) -> np.ndarray:
        whole = np.ones(self.domain.cells.shape[1], np.bool_)
        return whole if self.condition is None else self.condition.holds

    @property
    def tail(self) -> str:
        return f" WHERE {self.condition.sql}" if self.condition else ""

    @property
    def sql(self) -> str:
        group = f" GROUP BY {', '.join(self.names)}" if self.names else ""
        columns = ", ".join([*self.names, "COUNT(*)"])
        return f"SELECT {columns} FROM data{self.tail}{group}"

    @property
    def cube_sql(self) -> str:
        columns = ", ".join([*self.names, "COUNT(*)"])
        return f"SELECT {columns} FROM data{self.tail} GROUP BY CUBE ({', '.join(self.names)})"

    def rows(self, study: Study) -> dict[tuple[str, ...], np.ndarray]:
        """Labels of every group → its cells."""
        parts = []
        for name in self.names:
            attribute, sets = self.domain.rows(name)
            labels = _labels(study, name, attribute, sets)
            parts.append([(label, self.domain.has(attribute, s)) for label, s in labels])
        found = {}
        for row in product(*parts):
            inside = np.logical_and.reduce([self.holds, *(held for _, held in row)])
            found[tuple(label for label, _ in row)] = inside.astype(np.int64)
        return found


def _labels(study: Study, name: str, attribute: int, sets: list[list[int]]):
    if name in study.groupings:
        return [(f"s{i}", codes) for i, codes in enumerate(sets)]
    return [(study.schema.attributes[attribute].label(codes[0]), codes) for codes in sets]


@st.composite
def questions(draw: st.DrawFn, domain: Domain) -> Question:
    condition = draw(st.none() | conditions(domain))
    return Question(domain, draw(breakdowns(domain)), condition)


# ---- studies ------------------------------------------------------------------------------------


def random_domain(rng: np.random.Generator) -> Domain:
    sizes = tuple(int(n) for n in rng.integers(1, 6, rng.integers(1, 4)))
    if np.prod(sizes) > 60:
        return random_domain(rng)
    kinds = tuple(str(rng.choice(["integer", "category", "number"])) for _ in sizes)
    groupings = {}
    for a, size in enumerate(sizes):
        if kinds[a] != "number" and size > 1 and rng.random() < 0.7:
            sets = [sorted(rng.permutation(size)[: rng.integers(1, size + 1)]) for _ in range(2)]
            groupings[f"g{a}"] = (a, [[int(code) for code in s] for s in sets])
    return Domain(kinds, sizes, groupings)


def _random_item(domain: Domain, rng: np.random.Generator, number: int) -> str:
    chosen = []
    for a, name in enumerate(domain.names):
        options = [name, f"g{a}"] if f"g{a}" in domain.groupings else [name]
        if rng.random() < 0.55:
            chosen.append(str(rng.choice(options)))
    columns, condition = ", ".join([*chosen, "COUNT(*)"]), ""
    if rng.random() < 0.6:
        parts = []
        for _ in range(rng.integers(1, 3)):
            a = int(rng.integers(len(domain.sizes)))
            low = int(rng.integers(domain.sizes[a]))
            high = int(rng.integers(low + 1, domain.sizes[a] + 1))
            parts.append(atom(domain, a, low, high, int(rng.integers(2))).sql)
        condition = f" WHERE {' OR '.join(parts)}"
    group = f" GROUP BY {', '.join(chosen)}" if chosen else ""
    return f'  - {{name: i{number}, sql: "SELECT {columns} FROM data{condition}{group}"}}'


def _study_text(domain: Domain, rng: np.random.Generator) -> str:
    lines = ["study: random", "schema:"]
    lines += [f"  {name}: {domain.schema_yaml(a)}" for a, name in enumerate(domain.names)]
    lines += ["groupings:"] if domain.groupings else []
    for name, (a, sets) in domain.groupings.items():
        shown = [
            f"{{label: s{i}, values: [{', '.join(domain.constant(a, code) for code in codes)}]}}"
            for i, codes in enumerate(sets)
        ]
        lines.append(f"  {name}: {{of: {domain.names[a]}, sets: [{', '.join(shown)}]}}")
    lines.append("workload:")
    lines += [_random_item(domain, rng, i) for i in range(rng.integers(1, 4))]
    return "\n".join(lines)


@cache
def random_release(seed: int) -> tuple[Domain, Release]:
    rng = np.random.default_rng(seed)
    domain = random_domain(rng)
    plan = dhdmm.plan(Study.from_text(_study_text(domain, rng) + TERMS), participants=60)
    truth = plan.strategy.measure(rng.integers(0, 40, domain.sizes))
    noise = np.rint(rng.normal(0, float(SURVIVORS * plan.participant_variance) ** 0.5, len(truth)))
    return domain, Release(plan, bytes(16), SURVIVORS, truth + noise.astype(np.int64))


class ExactRowSpace:
    """The row space of an integer matrix over the rationals."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.basis: dict[int, list[Fraction]] = {}
        for row in matrix:
            rest = self._reduced(row)
            pivot = next((i for i, entry in enumerate(rest) if entry), None)
            if pivot is not None:
                self.basis[pivot] = [entry / rest[pivot] for entry in rest]

    def _reduced(self, row: np.ndarray) -> list[Fraction]:
        rest = [Fraction(int(entry)) for entry in row]
        for pivot in sorted(self.basis):
            scale = rest[pivot]
            if scale:
                rest = [r - scale * b for r, b in zip(rest, self.basis[pivot], strict=True)]
        return rest

    def __contains__(self, row: np.ndarray) -> bool:
        return not any(self._reduced(row))


@cache
def dense_space(seed: int) -> tuple[np.ndarray, ExactRowSpace]:
    """A' written out, and its exact row space."""
    A = random_release(seed)[1].plan.strategy.to_sparse().toarray()
    return A, ExactRowSpace(A)
