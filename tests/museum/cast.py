"""What every wing of the museum is made from: studies, people and keys, always the same.

The keys are made for these tests, from words that stand here: they protect nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

import numpy as np

from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.roster import Roster
from dhdmm.network.roster import RosterFile
from dhdmm.participant.measure import measure
from dhdmm.participant.policy import Policy
from dhdmm.planning.draft import Draft, draft
from dhdmm.planning.plan import Plan
from dhdmm.privacy.keystream import KeyStream
from dhdmm.release.decode import decode
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study
from tests.protocol.network import Stream
from tests.sums import PlainSum

HERE = Path(__file__).parent
PEOPLE = 5
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LAST_SECOND = 2**31 - 1
"""Until then an enrolment token may be valid: PostgreSQL keeps 32 bits of it."""

QUESTIONS = """
schema:
  age: {type: integer, range: [0, 5]}
  sex: {type: category, values: {f: Female, m: Male}}
  hours: {type: number, edges: [0, 20, 37.5]}
groupings:
  band: {of: age, edges: [0, 3, 6]}
workload:
  - {name: by sex, by: [sex], with_totals: [sex]}
  - {name: bands, by: [band], where: "sex = 'f'", weight: 2}
  - {name: young, ranges: {of: age, kind: prefix}, by: [sex]}
  - {name: hours, sql: "SELECT sex, hours, COUNT(*) FROM data GROUP BY sex, hours"}
"""
ANSWERS = """
schema:
  ward: {type: category, values: [a, b, c], missing: not recorded}
  days: {type: integer, range: [0, 5], missing: true}
  cost: {type: measure, range: [0, 50], step: 10, missing: true}
  seen: {type: date, range: [2024-01-30, 2024-02-02], format: "%d.%m.%Y"}
  came: {type: datetime, range: [2024-01-31T22, 2024-02-01T01]}
groupings:
  month: {of: seen, by: month}
  house:
    of: ward
    levels: [floor, side]
    mapping: {a: [first, west], b: [first, west], c: [second, east]}
workload:
  - {name: floors, by: [floor], with_totals: [floor]}
  - {name: months, by: [month], where: "days IS NOT NULL"}
  - {name: hours, by: [hour of came]}
  - {name: costs, sum: {of: cost, by: [side]}, with_totals: [side]}
  - {name: mean cost, mean: {of: cost}}
  - {name: median stay, quantiles: {of: days, at: [0.5]}}
  - {name: rows, coverage: true}
"""
"""With everything that 0.2.0 brought to questions."""
ROUND = "participants: {min: 4, max: 5}, max_dropout: 0.2, max_records_per_participant: 8"
TERMS = {
    "semi-honest": f"""
privacy: {{unit: record, epsilon: 1.0, delta: 1e-6, corrupt_fraction: 0.1}}
aggregation: {{threat_model: semi-honest, {ROUND}}}
""",
    "malicious": f"""
privacy: {{unit: record, rho: 0.02, corrupt_fraction: 0.1, relation: replace}}
aggregation: {{{ROUND}}}
""",
    "person": f"""
privacy:
  unit: {{person: {{column: who, max_records: 2, max_participants: 3}}}}
  epsilon: 2
  delta: 1e-6
  corrupt_fraction: 0.1
aggregation: {{threat_model: semi-honest, {ROUND}}}
""",
    "more": f"""
extra_measurements: true
privacy: {{unit: record, rho: 0.02, corrupt_fraction: 0.1}}
aggregation: {{{ROUND}, validation: sum}}
""",
    "participant": """
privacy: {unit: participant, epsilon: 4.0, delta: 1e-5, corrupt_fraction: 0.2}
aggregation: {participants: 5, max_records_per_participant: 8}
""",
    "answers": f"""
privacy: {{unit: record, rho: 0.02, corrupt_fraction: 0.1}}
aggregation: {{{ROUND}}}
""",
    "largest": f"""
objective: max
privacy: {{unit: record, rho: 0.02, corrupt_fraction: 0.1}}
aggregation: {{{ROUND}}}
""",
    "targets": f"""
privacy: {{unit: record, rho: 0.02, corrupt_fraction: 0.1}}
aggregation: {{{ROUND}}}
""",
    "persons": f"""
privacy:
  unit: {{person: {{column: who, max_records: 2, max_participants: 3}}}}
  rho: 0.02
  corrupt_fraction: 0.1
aggregation: {{{ROUND}}}
""",
    "servers": f"""
privacy: {{unit: record, rho: 0.02, corrupt_fraction: 0.1}}
aggregation: {{threat_model: two-servers, sealing: x25519, {ROUND}}}
""",
    "removed": f"""
privacy: {{unit: record, rho: 0.02, corrupt_fraction: 0.1}}
aggregation: {{excess_noise: remove, {ROUND}}}
""",
}
"""By name: units record, person and participant, both relations, all threat models; `more`,
`answers`, `largest`, `targets`, `persons`, `servers` and `removed` have the keys that 0.1.0 did
not know.
"""

POLICY = Policy(
    threat_models=["malicious", "semi-honest"], max_epsilon=5.0, min_participants=4, total_rho=1.0
)
HELPER = Identity(bytes(range(32))).public
REVIEWING = POLICY.model_copy(
    update={
        "threat_models": ["malicious", "semi-honest", "two-servers"],
        "person_columns": ["who"],
        "helpers": {"the museum's": HELPER.hex()},
    }
)
"""With limits that policies of 0.1.0 did not have."""


def text_of(name: str) -> str:
    questions = ANSWERS if name == "answers" else QUESTIONS
    if name == "targets":
        questions = questions.replace("weight: 2", "target: 2.5")
    if name == "persons":
        questions += "  - {name: different persons, persons: {}}\n"
    return f"study: museum {name}\n{questions.lstrip()}{TERMS[name].lstrip()}"


def key_of(owner: str) -> Identity:
    return Identity(sha256(f"test key of the museum: {owner}".encode()).digest())


COORDINATOR, REGISTRAR = key_of("coordinator"), key_of("registrar")


def person_name(position: int) -> str:
    return f"museum test person {position}"


def person_seed(position: int) -> Stream:
    return Stream("museum", position)


def person_key(position: int) -> Identity:
    """As `identity.create` makes it from the person's seed."""
    return Identity.generate(person_seed(position))


def roster_file(*, signed: bool) -> RosterFile:
    names = tuple(person_name(i) for i in range(PEOPLE))
    roster = Roster(names, tuple(person_key(i).public for i in range(PEOPLE)))
    return RosterFile.signed(roster, REGISTRAR) if signed else RosterFile(roster)


def records_of(position: int) -> Histogram:
    """So many records as the position says, and two."""
    rows = [((3 * i + position) % 6, (i + position) % 2, i % 2) for i in range(position + 2)]
    return Histogram.of_records(np.array(rows, np.int64))


def noise_of(position: int) -> KeyStream:
    return KeyStream.from_key_for_tests(sha256(f"noise of {position}".encode()).digest())


def exact_sum(plan: Plan, round_id: bytes, survivors: Mapping[int, object]) -> np.ndarray:
    """M̂ if the survivors had handed their measurements to a trusted party."""
    inputs = {i: measure(plan, records_of(i), noise_of(i)) for i in survivors}
    return decode(plan, PlainSum(plan.round(round_id)).sum(inputs).total)


@dataclass(frozen=True)
class Recorded:
    """What the search found when the wing was made: floating point may end elsewhere one day."""

    strategies: Mapping[str, bytes]
    rhos: Mapping[str, Fraction]

    @classmethod
    def found_now(cls) -> Recorded:
        found = {name: draft(Study.from_text(text_of(name))) for name in TERMS}
        strategies = {name: made.strategy.to_bytes() for name, made in found.items()}
        return cls(strategies, {name: made.rho for name, made in found.items()})

    def draft(self, name: str) -> Draft:
        study = Study.from_text(text_of(name))
        strategy = Strategy.from_bytes(self.strategies[name]).over(study.workload)
        helper = HELPER if name == "servers" else b""
        return Draft(study, strategy, self.rhos[name], helper)


@contextmanager
def reproducible(version: str, exhibit: str) -> Iterator[Stream]:
    """The same randomness, time and version whenever this exhibit is made."""
    stream = Stream("museum", exhibit)
    fixed = {
        "os.urandom": stream,
        "secrets.token_hex": lambda size: stream(size).hex(),
        "secrets.token_urlsafe": lambda size: stream(size).hex(),
        "time.time": NOW.timestamp,
        "dhdmm.client.home.now": lambda: NOW,
        "dhdmm.release.made.now": lambda: NOW,
        "dhdmm.__version__": version,
    }
    with ExitStack() as stack:
        for name, value in fixed.items():
            stack.enter_context(patch(name, value))
        yield stream
