"""Leader and helper as real servers over TLS, and people who join with `dhdmm join`'s code."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.method import PENDING
from dhdmm.cli.main import load
from dhdmm.client.ending import Ending
from dhdmm.errors import PolicyReason, PolicyRefusal
from dhdmm.network.helper_link import HelperLink, path_of
from dhdmm.network.identity import NamedIdentity, load_public
from dhdmm.network.signing import sign
from dhdmm.network.trust import Address, trusting
from dhdmm.release.verify import verify
from dhdmm.server.database import Database
from dhdmm.server.helper import HelperService
from dhdmm.server.helper_store import HelperStore
from dhdmm.server.limits import Limits
from dhdmm.server.metrics import HelperMetrics
from dhdmm.server.store import read_log
from dhdmm.twoservers.leader import REPORTED
from tests.participant.postgres import OWNER, Server
from tests.protocol.network import Stream
from tests.service.participant.people import (
    POLICY,
    Coordinator,
    coordinator,
    crowd,
    roster_file,
    study_of,
)
from tests.service.walls.servers import Files, certificate, running, until
from tests.twoservers.parties import Parties

pytestmark = pytest.mark.slow

LEADER = Identity.generate(Stream("coordinator"))
HELPER = NamedIdentity("the helper", Identity.generate(Stream("helper")))
KEY = HELPER.identity.public
KNOWN = POLICY.model_copy(
    update={"threat_models": ["two-servers"], "helpers": {"University of B": KEY.hex()}}
)


@contextlib.contextmanager
def helper(folder: Path, store: str | None = None) -> Iterator[tuple[str, Files]]:
    """A helper that runs; gives its address and its certificate."""
    place = folder / "helper"
    (place / "secrets").mkdir(parents=True, exist_ok=True)
    database = Database(store or f"sqlite:///{place / 'helper.db'}")
    service = HelperService(
        HelperStore(database), place / "secrets", HELPER, [LEADER.public], HelperMetrics()
    )
    files = certificate(place)
    with running(service, Limits(), files, recognise=service.admit) as server:
        yield f"https://localhost:{server.port}", files
    database.close()


def link(address: str, files: Files) -> HelperLink:
    return HelperLink(Address.parse(address), LEADER, trusting(files.certificate))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "validated"])
def test_a_round_over_tls_ends_with_a_release_that_anybody_can_verify(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    """Both servers with a store of this kind; nothing of a vector stays in the leader's."""
    stores: list[str | None] = [None, None]
    if kind == "postgresql":
        server = request.getfixturevalue("postgres")
        stores = [_url(server.with_database()) for _ in range(2)]
    persons = crowd(tmp_path, 6, policy=KNOWN)
    level = "bounded" if kind == "validated" else "none"
    study = study_of(threat_model="two-servers", validation=level)
    with (
        helper(tmp_path, stores[0]) as second,
        coordinator(
            tmp_path,
            study,
            roster_file(persons),
            helper=link(*second),
            helper_key=KEY,
            store=stores[1],
        ) as served,
    ):
        served.consent(*persons)
        outcomes = served.join_all(persons)
        assert {outcome.ending for outcome in outcomes} == {Ending.RELEASED}
        release = served.join(persons[0], whole=True).verified.release
        assert release.survivors == 6
        said = " ".join(verify(release.transcript).checks)
        assert "signed its half of the sum" in said
        assert not list((tmp_path / "helper" / "secrets").iterdir())
        assert _measured(*second) == {
            "dhdmm_helper_open_rounds": 0,
            'dhdmm_helper_reports_total{reply="accepted"}': 6,
            'dhdmm_helper_reports_total{reply="refused"}': 0,
            "dhdmm_helper_answers_total": 1,
        }
        with served.database.reading() as connection:
            names = [entry.name for entry in read_log(connection, served.round_id.hex())]
        assert len([name for name in names if name.startswith(REPORTED)]) == 6
        assert not [name for name in names if name.startswith(PENDING)]


def _measured(address: str, files: Files) -> dict[str, float]:
    """What the helper's own metrics say of its work."""
    text = httpx.get(f"{address}/metrics", verify=trusting(files.certificate)).text
    lines = [line for line in text.splitlines() if line.startswith("dhdmm_helper")]
    return {
        name: float(value)
        for name, value in (line.rsplit(" ", 1) for line in lines)
        if "_created" not in name
    }


def test_a_helper_counts_what_it_refuses() -> None:
    """Once each: the same report again is neither accepted nor refused."""
    round_ = Parties()
    batch = round_.batch(*(round_.report(i) for i in range(3)))
    forged = round_.batch(round_.report(4)[:-64] + bytes(64))
    for request in (batch, batch, forged):
        round_.helper.answer(request)
    assert (round_.helper.accepted, round_.helper.refused) == (3, 1)


def _url(server: Server) -> str:
    address = f"127.0.0.1:{server.port}/{server.database}"
    return f"postgresql+psycopg://{OWNER}:{server.password}@{address}"


def test_a_helper_that_the_policy_does_not_know_is_refused(tmp_path: Path) -> None:
    stranger = {"helpers": {"somebody else": "00" * 32}}
    persons = crowd(tmp_path, 6, policy=KNOWN.model_copy(update=stranger))
    study = study_of(threat_model="two-servers")
    with (
        helper(tmp_path) as second,
        coordinator(
            tmp_path,
            study,
            roster_file(persons),
            helper=link(*second),
            helper_key=KEY,
        ) as served,
    ):
        served.consent(*persons)
        with pytest.raises(PolicyRefusal) as refused:
            served.join(persons[0])
        assert refused.value.reason is PolicyReason.UNKNOWN_HELPER


def test_the_page_shows_both_servers_and_that_one_is_away(tmp_path: Path) -> None:
    persons = crowd(tmp_path, 6, policy=KNOWN)
    study = study_of(threat_model="two-servers")
    nowhere = HelperLink(Address.parse("http://127.0.0.1:1"), LEADER)
    given = {"helper": nowhere, "helper_key": KEY, "public": True}
    with coordinator(tmp_path, study, roster_file(persons), **given) as served:
        until(lambda: _status(served)["helper_away"])
        assert _status(served)["settled"] == 0
        with httpx.Client(verify=served.files.client(), base_url=served.address) as http:
            page = http.get(f"/rounds/{served.round_id.hex()}").text
    assert "Two servers" in page
    assert "it does not answer now; the round waits" in page


def _status(served: Coordinator) -> dict[str, object]:
    with httpx.Client(verify=served.files.client(), base_url=served.address) as http:
        return http.get(f"/v1/rounds/{served.round_id.hex()}").json()


def test_the_helper_answers_its_leaders_only(tmp_path: Path) -> None:
    stranger = Identity.generate(Stream("stranger"))
    path = path_of("00" * 16)
    with helper(tmp_path) as (address, files):
        trust = trusting(files.certificate)
        for headers, status in (
            ({}, 401),
            (sign(stranger, "POST", path, b"x"), 401),
            (sign(LEADER, "POST", path, b"y"), 401),
            (sign(LEADER, "POST", path, b"x"), 404),
        ):
            answer = httpx.post(address + path, content=b"x", headers=headers, verify=trust)
            assert answer.status_code == status, answer.text
        about = httpx.get(f"{address}/v1/helper", verify=trust).json()
        assert about == {"name": "the helper", "key": KEY.hex()}


def test_the_page_on_two_institutions_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Identities are made as the page says; the two servers have the options that it gives."""
    page = (Path(__file__).parents[2] / "docs" / "DEPLOYING.md").read_text()
    block = page.split("test_the_page_on_two_institutions_is_followed -->")[1].split("```")[1]
    first, *servers = block.removeprefix("sh\n").strip().splitlines()
    monkeypatch.chdir(tmp_path)
    for command in first.split(" && "):
        run = [sys.executable, "-c", "from dhdmm.cli.main import main; main()"]
        subprocess.run([*run, *shlex.split(command)[1:]], check=True, capture_output=True)
    assert load_public(Path("helper.pub")).name == "University of B"
    for line in servers:
        _, name, *given = shlex.split(line)
        known = {option for one in load(name).params for option in one.opts}
        assert {one for one in given if one.startswith("--")} <= known
