"""What pages say about rounds, privacy and tables; and what they refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pytest

from dhdmm.aggregation.errors import AbortReason
from dhdmm.aggregation.method import ENROLMENT
from dhdmm.network.status import Status
from dhdmm.release.release import Release
from dhdmm.secagg.states import CoordinatorState
from dhdmm.server.studies import add_study
from dhdmm.study.spec import Study
from dhdmm.web.explain import best_guess, explained
from dhdmm.web.listing import ROWS_A_PAGE, encoded, listing
from dhdmm.web.rounds import phase, sentence, steps
from tests.round.small import small_plan, small_text
from tests.service.coordinators import Listening
from tests.web.coordinators import add_finished, add_round, served, synthetic

pytestmark = pytest.mark.slow


def status(state: str, **changes: object) -> Status:
    facts: dict[str, object] = {
        "round": "0" * 32,
        "study": "small",
        "study_digest": "0" * 64,
        "threat_model": "malicious",
        "state": state,
        "minimum": 10,
        "maximum": 12,
        "enrolled": 12,
        "invited": 12,
        "received": 3,
        "alive": 11,
        "departed": 1,
        "remaining_s": None,
        "plan_digest": None,
        "roster_digest": None,
        "reason": None,
        "version": 1,
    }
    return Status.model_validate(facts | changes)


# ---- rounds --------------------------------------------------------------------------------------


def test_every_state_and_every_reason_has_words() -> None:
    for state in (ENROLMENT.name, *CoordinatorState):
        assert phase(status(state)).title
        assert phase(status(state)).explanation
    assert all(reason.words for reason in AbortReason)


@pytest.mark.parametrize(("threat_model", "count"), [("malicious", 8), ("semi-honest", 6)])
def test_steps_are_the_phases_of_the_threat_model(threat_model: str, count: int) -> None:
    found = steps(status("collecting-inputs", threat_model=threat_model))
    assert len(found) == count
    assert [step.name for step in found if step.kind == "now"] == ["Masked sums"]
    assert [step.kind for step in found if step.name in ("Keys", "Unmasking")] == [
        "done",
        "to come",
    ]


def test_a_finished_round_has_done_every_step() -> None:
    assert {step.kind for step in steps(status("finished"))} == {"done"}


def test_an_aborted_round_says_why_and_that_nothing_was_learnt() -> None:
    said = sentence(status("aborted", reason="too-few-shares"))
    assert "too few participants stayed" in said
    assert "Nothing about the participants was found out" in said
    assert steps(status("aborted"))[-1].kind == "failed"


# ---- privacy -------------------------------------------------------------------------------------


def test_privacy_is_explained_with_the_plans_own_numbers() -> None:
    plan = small_plan()
    rho, epsilon, theta = explained(plan)
    assert f"{100 * best_guess(float(plan.rho)):.3g} %" in rho.meaning
    assert epsilon.value == "1 at δ = 1e-06"
    assert "2.72 times" in epsilon.meaning
    assert theta.value == "10 %"
    assert f"noise of {plan.honest_floor} others" in theta.meaning


def test_without_a_budget_the_best_guess_is_blind() -> None:
    assert best_guess(0) == 0.5
    assert best_guess(1e9) == 1.0


# ---- tables --------------------------------------------------------------------------------------


def long_table(rows: int) -> pa.Table:
    values = np.arange(rows, dtype=np.float64)[::-1] - 5
    return pa.table(
        {
            "code": [f"v{i}" for i in range(rows)],
            "value": values,
            "standard_error": np.full(rows, 12.0),
            "low": values - 24,
            "high": values + 24,
        }
    )


def test_a_long_table_is_shown_in_pages() -> None:
    table = long_table(250)
    last = listing(table, 3)
    assert (last.page, last.pages, last.total, len(last.rows)) == (3, 3, 250, 50)
    assert listing(table, 99).page == 3
    assert listing(table, 0).page == 1
    assert [words[0] for words, _ in listing(table, 2).rows][:2] == [f"v{ROWS_A_PAGE}", "v101"]


def test_rows_come_in_the_order_asked_for_and_unknown_orders_are_ignored() -> None:
    table = long_table(250)
    assert listing(table, 1, "value").rows[0][1][0] == "−5"
    assert listing(table, 1, "-value").rows[0][1][0] == "244"
    assert listing(table, 1, "code; DROP TABLE").rows == listing(table, 1).rows


def test_files_have_every_digit() -> None:
    table = pa.table({"code": ["ä", "="], "value": [1 / 3, -2.0], "standard_error": [1.5, 0.1]})
    assert json.loads(encoded(table, "json"))[0] == {
        "code": "ä",
        "value": 1 / 3,
        "standard_error": 1.5,
    }
    assert pa.csv.read_csv(pa.BufferReader(encoded(table, "csv"))).equals(table)
    assert pa.parquet.read_table(pa.BufferReader(encoded(table, "parquet"))).equals(table)


# ---- over HTTP, with public pages ----------------------------------------------------------------


@pytest.mark.fault(51)
def test_rounds_of_a_study_are_shown_in_pages(tmp_path: Path) -> None:
    def rounds_on(path: str) -> list[str]:
        shown = httpx.get(here.address + path, headers={"Accept": "text/html"}, timeout=60)
        assert shown.status_code == 200
        return re.findall('href="(/rounds/[0-9a-f]{32}|/studies/[^"]+after=[^"]+)"', shown.text)

    with served(tmp_path, public=True) as here:
        study = add_study(here.database, Study.from_text(small_text()))
        for number in range(60):
            add_round(here, study, f"{number:032x}", state="aborted", reason="stopped")
        assert len(rounds_on("/")) == 5
        *newest, older = rounds_on(f"/studies/{study.digest}")
        assert newest == [f"/rounds/{number:032x}" for number in range(59, 9, -1)]
        assert rounds_on(older) == [f"/rounds/{number:032x}" for number in range(9, -1, -1)]


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Listening, Release]]:
    study = Study.from_text(small_text())
    release = synthetic(small_plan())
    with served(tmp_path_factory.mktemp("public"), public=True) as made:
        add_finished(made, study, release)
        yield made, release


def get(public: tuple[Listening, Release], path: str, html: bool = True) -> httpx.Response:
    made, release = public
    address = f"{made.address}/releases/{release.round_id.hex()}{path}"
    return httpx.get(address, headers={"Accept": "text/html"} if html else {}, timeout=60)


def test_everybody_reads_public_pages(public: tuple[Listening, Release]) -> None:
    for path in ("", "/tables/1", "/tables/2?sort=-value", "/ask", "/release.json"):
        assert get(public, path).status_code == 200, path


@pytest.mark.fault(37)
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/tables/0", 404),
        ("/tables/3", 404),
        ("/tables/99999999999999999999", 404),
        ("/tables/1.exe", 404),
        ("/tables/..%2F..%2Frelease.json", 404),
        ("/compare?with=../../etc", 404),
        ("/compare", 404),
        ("/ask?sql=DROP+TABLE+data", 422),
        ("/ask?sql=SELECT+COUNT(*)+FROM+data;+DELETE+FROM+data", 422),
        ("/ask?sql=SELECT+*+FROM+read_csv('/etc/passwd')", 422),
        ("/ask?sql=" + "x" * 5000, 422),
        ("/ask.csv?sql=SELECT+nothing", 422),
        ("/ask.csv", 422),
    ],
)
def test_what_makes_no_sense_is_refused(
    public: tuple[Listening, Release], path: str, expected: int
) -> None:
    response = get(public, path)
    assert response.status_code == expected
    assert "root:" not in response.text


def test_odd_pages_and_orders_are_read_as_the_first(public: tuple[Listening, Release]) -> None:
    for query in ("page=-1", "page=abc", "page=9999999999999", "sort='", "chart=7", "chart=²"):
        assert get(public, f"/tables/1?{query}").status_code == 200, query


def test_an_unknown_round_is_a_page_for_people_and_a_problem_for_programs(
    public: tuple[Listening, Release],
) -> None:
    address = f"{public[0].address}/releases/{'0' * 32}"
    page = httpx.get(address, headers={"Accept": "text/html"})
    assert page.status_code == 404
    assert "<h1>Not here</h1>" in page.text
    assert httpx.get(address).json()["reason"] == "not-found"
    assert httpx.get(f"{public[0].address}/v1/nothing").json()["status"] == 404


def test_downloads_are_saved_and_never_shown(public: tuple[Listening, Release]) -> None:
    for path in ("/tables/1.csv", "/tables/1.json", "/release.json"):
        assert get(public, path).headers["content-disposition"].startswith("attachment")


def test_too_many_questions_have_to_wait(tmp_path_factory: pytest.TempPathFactory) -> None:
    with served(tmp_path_factory.mktemp("busy"), public=True) as made:
        release = synthetic(small_plan())
        add_finished(made, Study.from_text(small_text()), release)
        found = [
            get((made, release), "/ask?sql=nonsense", html=False).status_code for _ in range(25)
        ]
    assert found.count(422) >= 20
    assert 429 in found
