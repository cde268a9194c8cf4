"""A browser's report in a round of machines: taken by leader and helper, and in the sum."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import MemoryJournal, MemorySecrets
from dhdmm.aggregation.roster import Roster
from dhdmm.participant.measure import measure
from dhdmm.planning.draft import plan as make_plan
from dhdmm.planning.plan import NO_ROSTER, Plan, terms_of
from dhdmm.privacy.keystream import KeyStream
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study
from tests.browser.test_report_parts import blank as blank
from tests.browser.test_report_parts import computed

pytestmark = pytest.mark.slow

TEXT = """
study: one record each
schema:
  age: {{type: integer, range: [0, 9]}}
  sex: {{type: category, values: [F, M], missing: not told}}
workload:
  - {{name: both, by: [age, sex]}}
  - {{name: young, ranges: {{of: age, kind: prefix}}}}
privacy: {{unit: record, epsilon: 1.0, delta: 1e-6, corrupt_fraction: 0.25}}
aggregation:
  threat_model: two-servers
  sealing: {sealing}
  participants: 4
  max_dropout: 0.0
  max_records_per_participant: 1
"""
BROWSERS = 2
CODES = [[3, 0], [9, 2], [0, 1], [3, 1]]


def identities_of(page: Page, count: int) -> list[bytes]:
    """Keys that stay in the page; their public halves."""
    body = """globalThis.pairs = [];
    for (let i = 0; i < given; i++)
      pairs.push(await crypto.subtle.generateKey("Ed25519", false, ["sign"]));
    const raw = ({ publicKey }) => crypto.subtle.exportKey("raw", publicKey);
    return (await Promise.all(pairs.map(raw))).map((key) => hex(new Uint8Array(key)));"""
    return [bytes.fromhex(key) for key in computed(page, "report", "report", body, count)]


REPORT = """
const plan = new Plan(bytes(given.draft)).under(bytes(given.terms));
const session = await plan.session(bytes(given.round));
const key = await helperKey(bytes(given.key), plan, session);
const { position, codes } = given;
return hex(await report(plan, session, position, key, codes, pairs[position].privateKey));
"""


@pytest.mark.parametrize("sealing", ["x25519", "mlkem768-x25519"])
def test_reports_of_browsers_and_of_python_add_up(blank: Page, sealing: str) -> None:
    """The noise of the browsers is unknown here: 10 of its standard deviations are allowed for
    each row, a false alarm in 10²⁰ runs. That there is any noise has a third of its deviation."""
    own = [Identity.generate(os.urandom) for _ in range(4 - BROWSERS)]
    keys = [*identities_of(blank, BROWSERS), *(identity.public for identity in own)]
    roster = Roster(tuple(f"participant {i}" for i in range(4)), tuple(keys))
    helper_identity = Identity.generate(os.urandom)
    study = Study.from_text(TEXT.format(sealing=sealing))
    plan = make_plan(study, roster=roster, helper=helper_identity.public)
    round_id = os.urandom(16)
    round, method = plan.round(round_id), plan.method
    helper = method.helper(
        round, roster, helper_identity, os.urandom, MemorySecrets(), MemoryJournal()
    )
    leader = method.coordinator(round, roster, os.urandom, {})
    consult(leader, helper)
    for position in range(BROWSERS):
        given = {
            "draft": replace(plan, roster_digest=NO_ROSTER).to_bytes().hex(),
            "terms": terms_of(plan).hex(),
            "round": round_id.hex(),
            "key": leader.message_for(position).hex(),
            "position": position,
            "codes": CODES[position],
        }
        report = computed(blank, "report", "Plan, helperKey, report", REPORT, given)
        leader.receive(position, bytes.fromhex(report))
    drawn = np.zeros(plan.strategy.rows, np.int64)
    for position, identity in enumerate(own, BROWSERS):
        value = measured(plan, position)
        drawn += plan.modulus.signed(value) - column(plan, position)
        machine = method.participant(round, roster, identity, position, os.urandom, MemoryJournal())
        machine.receive(leader.message_for(position))
        leader.receive(position, machine.give_input(value))
    leader.close_phase()
    consult(leader, helper)
    leader.close_phase()
    assert leader.result.survivors.members() == (0, 1, 2, 3)
    total = plan.modulus.signed(leader.result.total)
    left = total - drawn - sum(column(plan, position) for position in range(4))
    deviation = float(BROWSERS * plan.participant_variance) ** 0.5
    assert np.all(np.abs(left) < 10 * deviation)
    assert np.std(left) > deviation / 3


def consult(leader: Any, helper: Any) -> None:
    while (request := leader.to_helper()) is not None:
        leader.from_helper(request, helper.answer(request))


def measured(plan: Plan, position: int) -> Any:
    record = Histogram.of_records(np.array([CODES[position]]))
    return measure(plan, record, KeyStream.fresh())


def column(plan: Plan, position: int) -> Any:
    return plan.strategy.measure(Histogram.of_records(np.array([CODES[position]])))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"variance": lambda v: v / 4}, "states a smaller cost of privacy than it has"),
        ({"rho": lambda r: r / 4}, "states a smaller cost of privacy than it has"),
    ],
)
def test_a_plan_that_understates_its_cost_is_refused(
    blank: Page, change: dict[str, Any], said: str
) -> None:
    """A browser computes what its own record costs, and believes no figure of the plan."""
    study = Study.from_text(TEXT.format(sealing="x25519"))
    honest = make_plan(study, 4, helper=bytes([7] * 32))
    names = {"variance": "participant_variance", "rho": "rho"}
    changed = {names[name]: of(getattr(honest, names[name])) for name, of in change.items()}
    body = """try {
      const plan = new Plan(bytes(given.plan));
      given.codes.forEach((codes) => plan.requireHonestCost(plan.strategy.column(codes)));
      return "accepted";
    } catch (error) { return error.message; }"""

    def answer(plan: Plan) -> str:
        given = {"plan": plan.to_bytes().hex(), "codes": CODES}
        return str(computed(blank, "report", "Plan", body, given))

    assert answer(honest) == "accepted"
    assert said in answer(replace(honest, **changed))
