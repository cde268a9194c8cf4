"""A participant's own page, asked by those it is not for."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from dhdmm.aggregation.roster import Roster
from dhdmm.client.consent import Parties, figures, words
from dhdmm.errors import Refused
from dhdmm.network.status import NamedKey, Status
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

COMPANY = Parties(
    "https://statistics.example:8443",
    NamedKey(name="Statistics Office", fingerprint="0123456789abcdef" * 2),
    Roster(tuple(f"clinic {i}" for i in range(15)), tuple(bytes([i]) * 32 for i in range(15))),
)


def consent_page(policy: Policy = POLICY) -> ConsentPage:
    reviewed = review_preview(small_plan().to_bytes(), policy)
    return ConsentPage(figures(reviewed, policy, None, STATUS, COMPANY), False)


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
    for said in ("enrolled", "enrolled", "seat 1 of 12"):
        shown.watch(said)
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


def test_the_page_shows_all_that_is_consented_to_above_the_button(owner: httpx.Client):
    text = owner.get("/").text
    above, _, below = text.partition('action="/consent"')
    document = figures_of_small()
    for table in document["description"]["tables"]:
        assert all(term["words"] in html.unescape(above) for term in table["terms"])
    for _, said in words(document):
        assert said[1:] in html.unescape(above)
    assert "Statistics Office, at https://statistics.example:8443" in above
    assert "0123 4567 89ab cdef" in above
    assert all(f"<bdi>clinic {i}</bdi>" in above for i in range(15))
    assert text.count("<button>") == 1
    assert "<dt>" not in below


def test_words_say_what_a_round_costs_and_leaves():
    said = dict(words(figures_of_small()))
    assert f"ε = {figures_of_small()['epsilon']:g} at your δ = 1e-05" in said["cost"]
    found = set(re.findall(r"ε = (\S+?)[ ,;]", " ".join(said.values())))
    assert len(found) == 1  # one cost has one ε
    assert re.search(r"enough for \d+ more rounds like this one", said["budget"])
    assert "may conspire with the coordinator" in said["conspiracy"]
    assert "15 participants: clinic 0, clinic 1" in said["who else"]
    assert "and 3 more" in said["who else"]


def test_words_say_what_is_not_known():
    document = figures_of_small(Parties("http://127.0.0.1:1"))
    said = dict(words(document))
    assert said["coordinator"].startswith("somebody who gives no name, at http://127.0.0.1:1")
    assert "does not say which key" in said["coordinator"]
    assert "settled when enrolment closes" in said["who else"]


def figures_of_small(company: Parties = COMPANY) -> dict[str, Any]:
    reviewed = review_preview(small_plan().to_bytes(), POLICY)
    return figures(reviewed, POLICY, None, STATUS, company)
