"""The server of the builder: places of mistakes, limits, one run each, only for the operator."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dhdmm.network.problems import Problem
from dhdmm.web import drafting
from dhdmm.web.drafting import answers
from dhdmm.web.planners import Planners
from tests.round.small import small_text
from tests.service.coordinators import OPERATOR, Listening
from tests.web.coordinators import served

pytestmark = pytest.mark.slow

SLOW = "import sys, time; sys.stdin.readline(); time.sleep(60)"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Listening]:
    with served(tmp_path) as made:
        yield made


@pytest.fixture
def operator(here: Listening) -> Iterator[httpx.Client]:
    headers = {"Origin": here.address}
    with httpx.Client(base_url=here.address, headers=headers, timeout=60) as client:
        assert client.post("/sign-in", data={"token": OPERATOR, "next": "/"}).status_code == 303
        yield client


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        (small_text(corrupt=1.5), "privacy.corrupt_fraction"),
        (small_text(participants=2), "aggregation"),
        (small_text().replace("by: [age, sex]", "by: [agee]"), "workload[0].by"),
        (
            small_text().replace("by: [age, sex]", "total: true, where: 'agee > 1'"),
            "workload[0].where",
        ),
        ("study: [", ""),
    ],
)
def test_a_mistake_is_told_with_its_path(wrong: str, path: str):
    *_, last = answers("figures", wrong)
    assert (last["kind"], last["path"]) == ("error", path)


def test_a_study_is_first_checked_and_then_planned():
    checked, figures = answers("figures", small_text())
    assert checked["description"]["queries"] == figures["queries"] == 30
    assert {item["name"] for item in figures["items"]} == {"both", "young"}
    assert figures["participant_bytes"] > 0


def test_objectives_and_targets_are_planned():
    checked, figures = answers("figures", small_text() + "objective: max\n")
    assert checked["form"]["objective"] == figures["objective"] == "max"
    assert figures["ratio"] < 1.005
    wanted = small_text().replace("by: [age, sex]", "by: [age, sex], target: 3")
    checked, figures = answers("figures", wanted)
    assert [table["target"] for table in checked["description"]["tables"]] == [3, None]
    assert figures["privacy_needed"]["epsilon"] > figures["epsilon"]
    assert [item.get("target") for item in figures["items"]] == [3, None]


def test_too_many_answers_are_refused_before_the_work(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(drafting, "MOST_QUERIES", 29)
    monkeypatch.setattr(drafting, "optimise", None)  # would fail if it were called
    *_, last = answers("figures", small_text())
    assert last["kind"] == "error"
    assert "30 answers are too many" in last["what"]


def test_a_change_of_the_budget_does_not_search_for_a_strategy_again(
    monkeypatch: pytest.MonkeyPatch,
):
    *_, one = answers("figures", small_text())
    monkeypatch.setattr(drafting, "optimise", None)
    *_, two = answers("figures", small_text().replace("epsilon: 1.0", "epsilon: 0.5"))
    assert two["epsilon"] < one["epsilon"]


def test_a_new_question_ends_the_one_before():
    async def run() -> None:
        planners = Planners((sys.executable, "-c", SLOW))
        first = asyncio.create_task(anext(planners.ask("me", "figures", "")))
        await asyncio.sleep(0.3)
        second = asyncio.create_task(anext(planners.ask("me", "figures", "")))
        answer = await asyncio.wait_for(first, 20)
        assert answer["what"] == "planning was ended"
        assert not second.done()
        await planners.close()
        assert (await second)["what"] == "planning was ended"

    asyncio.run(run())


def test_planning_that_takes_too_long_is_ended():
    async def run() -> None:
        planners = Planners((sys.executable, "-c", SLOW))
        answer = await anext(planners.ask("me", "figures", "", 0.2))
        assert answer["what"] == "planning takes too long"
        await planners.close()

    asyncio.run(run())


def test_few_plan_at_one_time():
    async def run() -> None:
        planners = Planners((sys.executable, "-c", SLOW))
        waiting = [
            asyncio.create_task(anext(planners.ask(who, "figures", ""))) for who in ("a", "b")
        ]
        await asyncio.sleep(0.3)
        with pytest.raises(Problem) as refused:
            await anext(planners.ask("c", "figures", ""))
        assert refused.value.status == 503
        await planners.close()
        await asyncio.gather(*waiting)

    asyncio.run(run())


def test_strangers_plan_nothing_and_start_nothing(here: Listening):
    for path in ("/builder/figures", "/builder/start"):
        answer = httpx.post(here.address + path, content=small_text())
        assert answer.status_code == 401
    page = httpx.get(f"{here.address}/builder", headers={"Accept": "text/html"})
    assert page.headers["Location"].startswith("/sign-in")


def test_another_page_cannot_start_a_round(operator: httpx.Client):
    headers = {"Origin": "https://evil.example"}
    answer = operator.post("/builder/start", json={"study": small_text()}, headers=headers)
    assert answer.status_code == 403


def test_what_is_too_large_or_no_text_is_refused(operator: httpx.Client):
    assert operator.post("/builder/figures", content=b"x" * 2_000_000).status_code == 413
    assert operator.post("/builder/figures", content=b"\xff").status_code == 422
    assert operator.post("/builder/start", json={"studie": ""}).status_code == 422


def test_a_round_begins_with_a_study_that_the_coordinator_did_not_know(operator: httpx.Client):
    wanted = {"study": small_text(threat_model="semi-honest"), "tokens": 2}
    begun = operator.post("/builder/start", json=wanted)
    assert begun.status_code == 201, begun.text
    assert len(begun.json()["tokens"]) == 2
    (status,) = operator.get("/v1/rounds").json()
    assert (status["round"], status["state"]) == (begun.json()["round"], "enrolling")
    refused = operator.post("/builder/start", json={"study": small_text(participants=2)})
    assert refused.status_code == 422
