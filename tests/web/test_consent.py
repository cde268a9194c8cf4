"""A participant's own page, asked by those it is not for."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from dhdmm.client.consent import figures
from dhdmm.errors import Refused
from dhdmm.network.status import Status
from dhdmm.participant.policy import Policy, review_preview
from dhdmm.web.consent import ConsentPage
from tests.round.small import small_plan

pytestmark = pytest.mark.slow

POLICY = Policy(threat_models=["malicious"], max_epsilon=2.0, min_participants=3, total_rho=1.0)
STATUS = Status(
    round="ab" * 16, study="small", study_digest="", threat_model="malicious", state="enrolling",
    minimum=12, maximum=12, enrolled=0, invited=0, received=0, alive=0, remaining_s=None,
    reason=None, version=1,
)  # fmt: skip


def consent_page(policy: Policy = POLICY) -> ConsentPage:
    reviewed = review_preview(small_plan().to_bytes(), policy)
    return ConsentPage(figures(reviewed, policy, None, STATUS), False)


@pytest.fixture
def shown() -> ConsentPage:
    return consent_page()


@pytest.fixture
def address(shown: ConsentPage) -> Iterator[str]:
    with shown.served() as made:
        yield made


@pytest.fixture
def owner(address: str) -> Iterator[httpx.Client]:
    """A browser that has opened the printed address."""
    with httpx.Client(base_url=address.partition("?")[0]) as client:
        assert client.get(address).status_code == 303
        yield client


def ours(client: httpx.Client) -> dict[str, str]:
    return {"Origin": str(client.base_url).rstrip("/")}


def test_the_printed_address_opens_once(address: str, owner: httpx.Client):
    assert "Take part" in owner.get("/").text
    assert httpx.get(address).status_code == 401


@pytest.mark.parametrize("path", ["/", "/?key=wrong", "/progress", "/static/style.css"])
def test_without_the_key_there_is_nothing_to_see(address: str, path: str):
    answer = httpx.get(address.partition("/?")[0] + path)
    assert answer.status_code == 401
    assert "small" not in answer.text


@pytest.mark.parametrize("name", ["evil.example", "127.0.0.1", "localhost.evil.example:80"])
def test_another_hosts_name_does_not_lead_here(owner: httpx.Client, name: str):
    assert owner.get("/", headers={"Host": name}).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}],
)
def test_no_other_page_can_consent(
    owner: httpx.Client, shown: ConsentPage, headers: dict[str, str]
):
    assert owner.post("/consent", headers=headers).status_code == 403
    assert owner.get("/progress").json()["state"] == "asking"


def test_consent_is_given_once_and_cannot_be_turned_around(owner: httpx.Client, shown: ConsentPage):
    assert owner.post("/refuse", headers=ours(owner)).status_code == 303
    assert owner.post("/consent", headers=ours(owner)).status_code == 303
    with pytest.raises(Refused, match="refused on the page"):
        shown.require_consent()


def test_progress_and_ending_are_told(owner: httpx.Client, shown: ConsentPage):
    owner.post("/consent", headers=ours(owner))
    shown.require_consent()
    for words in ("enrolled", "enrolled", "seat 1 of 12"):
        shown.watch(words)
    assert owner.get("/progress").json()["said"] == ["enrolled", "seat 1 of 12"]
    shown.end({"ending": "aborted", "reason": "<b>too few</b>", "hint": None})
    text = owner.get("/").text
    assert "&lt;b&gt;too few&lt;/b&gt;" in text


def test_a_budget_that_does_not_suffice_leaves_only_no():
    shown = consent_page(POLICY.model_copy(update={"total_rho": 1e-9}))
    with shown.served() as address, httpx.Client(base_url=address.partition("?")[0]) as client:
        client.get(address)
        text = client.get("/").text
        assert "does not suffice" in text
        assert 'action="/consent"' not in text
        assert client.post("/consent", headers=ours(client)).status_code == 409


def test_every_answer_has_the_policy_of_all_pages(owner: httpx.Client):
    for path in ("/", "/progress", "/static/consent.js", "/nowhere"):
        policy = owner.get(path).headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
