"""The description in /openapi.json is true: schemathesis asks whatever it allows, and beyond."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from dhdmm.server.database import Database
from dhdmm.server.studies import add_study, current_round
from tests.service.coordinators import AS_OPERATOR, listening, sqlite_in
from tests.service.server.rounds import roster_file, study_of

pytestmark = pytest.mark.slow

TRUE = [
    schemathesis.checks.not_a_server_error,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
_rounds: list[str] = []


def test_the_binary_routes_are_not_described_and_the_json_routes_are(described) -> None:
    paths = {operation.ok().path for operation in described.get_all_operations()}
    assert "/v1/rounds/{round_id}/message" not in paths
    assert {"/healthz", "/v1/rounds", "/v1/tokens", "/v1/rounds/{round_id}/enrolment"} <= paths


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[schemathesis.BaseSchema]:
    """A server in a thread: one round that enrols, one with a roster, one that is over."""
    folder: Path = tmp_path_factory.mktemp("described")
    database: Database = sqlite_in(folder)
    enrolling = study_of("semi-honest", participants="{min: 10, max: 12}")
    _rounds.append(current_round(database, add_study(database, enrolling)))
    _rounds.append(current_round(database, add_study(database, study_of()), roster_file()))
    with listening(database, folder / "out") as here:
        yield schemathesis.openapi.from_url(f"{here.address}/openapi.json")


def explore(described: schemathesis.BaseSchema, ask: Callable[[schemathesis.Case], None]) -> None:
    """Every operation, with what its description allows and with what it does not."""
    for found in described.get_all_operations():
        for mode in schemathesis.GenerationMode:
            cases = found.ok().as_strategy(generation_mode=mode)
            often = settings(max_examples=8, suppress_health_check=list(HealthCheck))
            with suppress(Unsatisfiable):  # what takes nothing cannot be given something wrong
                often(given(cases)(ask))()


@pytest.mark.fault(37)
def test_a_stranger_gets_what_the_description_promises(described: schemathesis.BaseSchema) -> None:
    def ask(case: schemathesis.Case) -> None:
        do_not_wait(case)
        case.call_and_validate(checks=TRUE)

    explore(described, ask)


@pytest.mark.fault(37)
def test_the_operator_of_real_rounds_gets_what_the_description_promises(
    described: schemathesis.BaseSchema,
) -> None:
    def ask(case: schemathesis.Case) -> None:
        do_not_wait(case)
        if re.fullmatch("[0-9a-f]{32}", str((case.path_parameters or {}).get("round_id"))):
            case.path_parameters["round_id"] = _rounds[len(str(case.body)) % 2]
        case.call_and_validate(checks=TRUE, headers=AS_OPERATOR)

    explore(described, ask)


def do_not_wait(case: schemathesis.Case) -> None:
    """A long-poll that is asked to wait waits."""
    if "wait" in (case.query or {}):
        case.query["wait"] = "0"
