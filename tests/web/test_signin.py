"""The operator's sign-in: one token, a session that ends, and nobody else's forms."""

from __future__ import annotations

import httpx
import pytest

from dhdmm.web.signin import ATTEMPTS, SESSION_SECONDS, OperatorSessions, local_path
from tests.service.coordinators import OPERATOR, Listening

OURS = {"Sec-Fetch-Site": "same-origin"}
HTML = {"Accept": "text/html"}


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_the_token_opens_a_session_and_nothing_else_does() -> None:
    sessions = OperatorSessions(OPERATOR)
    session = sessions.enter(OPERATOR, "here")
    assert session is not None
    assert sessions.admits(session)
    assert sessions.enter("another token", "here") is None
    assert sessions.enter("", "here") is None


@pytest.mark.parametrize("forged", ["", ".", "..", "9999999999.00.", "9999999999.00.ff", "é.é.é"])
def test_a_made_up_session_is_not_admitted(forged: str) -> None:
    assert not OperatorSessions(OPERATOR).admits(forged)


def test_a_changed_session_is_not_admitted() -> None:
    sessions = OperatorSessions(OPERATOR)
    end, name, mac = (sessions.enter(OPERATOR, "here") or "").split(".")
    assert not sessions.admits(f"{int(end) + 1}.{name}.{mac}")
    assert not sessions.admits(f"{end}.{name[::-1]}x.{mac}")


def test_a_session_ends_by_itself_and_when_it_is_ended() -> None:
    clock = Clock()
    sessions = OperatorSessions(OPERATOR, clock)
    first, second = (sessions.enter(OPERATOR, "here") or "" for _ in range(2))
    sessions.leave(first)
    assert not sessions.admits(first)
    assert sessions.admits(second)
    clock.now += SESSION_SECONDS + 1
    assert not sessions.admits(second)


def test_workers_with_one_token_know_each_others_sessions_and_another_token_ends_them() -> None:
    session = OperatorSessions(OPERATOR).enter(OPERATOR, "here") or ""
    assert OperatorSessions(OPERATOR).admits(session)
    assert not OperatorSessions("the next token").admits(session)


def test_a_few_wrong_tokens_and_then_patience() -> None:
    sessions = OperatorSessions(OPERATOR)
    for _ in range(ATTEMPTS.burst):
        assert sessions.wait("there") == 0
        sessions.enter("wrong", "there")
    assert sessions.wait("there") > 0
    assert sessions.wait("elsewhere") == 0


@pytest.mark.parametrize("place", ["//evil.example", "https://evil.example", "/\\evil", "x", ""])
def test_signing_in_never_leads_to_another_host(place: str) -> None:
    assert local_path(place) == "/"


# ---- over HTTP -----------------------------------------------------------------------------------


def post(coordinator: Listening, path: str, **options: object) -> httpx.Response:
    return httpx.post(f"{coordinator.address}{path}", **options)  # type: ignore[arg-type]


def test_the_cookie_is_for_this_site_alone_and_not_for_scripts(coordinator: Listening) -> None:
    response = post(coordinator, "/sign-in", data={"token": OPERATOR, "next": "/x"}, headers=OURS)
    assert response.status_code == 303
    assert response.headers["location"] == "/x"
    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert OPERATOR not in cookie


def test_a_wrong_token_gets_nothing(coordinator: Listening) -> None:
    response = post(coordinator, "/sign-in", data={"token": "wrong"}, headers=OURS)
    assert response.status_code == 401
    assert "set-cookie" not in response.headers


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": "null"}, {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}],
)
def test_forms_of_other_sites_are_refused(coordinator: Listening, headers: dict[str, str]) -> None:
    for path in ("/sign-in", "/sign-out"):
        response = post(coordinator, path, data={"token": OPERATOR}, headers=headers)
        assert response.status_code == 403
        assert "set-cookie" not in response.headers


def test_an_older_browser_names_our_origin(coordinator: Listening) -> None:
    ours = {"Origin": coordinator.address}
    assert post(coordinator, "/sign-in", data={"token": OPERATOR}, headers=ours).status_code == 303


@pytest.mark.parametrize(
    "path",
    ["/", "/studies/" + "0" * 64, "/rounds/" + "0" * 32, "/releases/" + "0" * 32 + "/tables/1.csv"],
)
def test_without_a_session_there_is_nothing_to_find_out(coordinator: Listening, path: str) -> None:
    to_a_person = httpx.get(coordinator.address + path, headers=HTML)
    assert to_a_person.status_code == 303
    assert to_a_person.headers["location"].startswith("/sign-in?next=")
    to_a_program = httpx.get(coordinator.address + path)
    assert to_a_program.status_code == 401
    assert to_a_program.json()["reason"] == "not-the-operator"


def test_every_answer_has_the_policy_without_exceptions(coordinator: Listening) -> None:
    for path in ("/sign-in", "/", "/nowhere", "/static/style.css", "/static/nothing.css"):
        headers = httpx.get(coordinator.address + path, headers=HTML).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.fault(37)
@pytest.mark.parametrize(
    "path",
    [
        "/static/..%2Fsite.py",
        "/static/%2e%2e/site.py",
        "/static/..%5Csite.py",
        "/static//etc/passwd",
    ],
)
def test_no_path_leads_out_of_the_static_files(coordinator: Listening, path: str) -> None:
    response = httpx.get(coordinator.address + path)
    assert response.status_code in (401, 404)
    assert "import" not in response.text
