"""A way to add up that the product has never heard of: `dhdmm run`, the service and the pages use
it through the interface alone, by one line in the table of methods."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from dhdmm.aggregation.errors import AbortReason, RemoteProtocolError
from dhdmm.aggregation.group import Element
from dhdmm.aggregation.journal import Journal, MemoryJournal
from dhdmm.aggregation.method import Phase, Store, ThreatModel
from dhdmm.aggregation.modulus import Modulus
from dhdmm.aggregation.roster import Roster
from dhdmm.client.ending import Ending
from dhdmm.planning.methods import METHODS
from dhdmm.release.release import Release
from tests.aggregation.ideal import IdealCoordinator, IdealParticipant, IdealRound, IdealSum
from tests.cli.commands import Shell
from tests.round.small import small_text
from tests.service.participant.people import Coordinator, coordinator, crowd, roster_file, study_of

pytestmark = pytest.mark.slow

PASSWORD = b"open sesame"
PROOF_BYTES = 32


def proof(password: bytes, body: bytes) -> bytes:
    return hmac.digest(password, body, "sha256")


class PasswordParticipant(IdealParticipant):
    """Shows with its input that it knows the password."""

    password = PASSWORD

    def _send(self, kind: bytes, body: bytes = b"") -> bytes:
        return super()._send(kind, proof(self.password, body) + body if body else body)


class PasswordCoordinator(IdealCoordinator):
    """Adds up the inputs of those who know the password."""

    def _unpacked(self, body: bytes) -> Element:
        shown, vector = body[:PROOF_BYTES], body[PROOF_BYTES:]
        if not hmac.compare_digest(shown, proof(PASSWORD, vector)):
            raise RemoteProtocolError(AbortReason.BAD_EVIDENCE, "not the password")
        return super()._unpacked(vector)


@dataclass(frozen=True)
class PasswordSum(IdealSum):
    """A plain sum over those who know a password."""

    phases: tuple[Phase, ...] = field(
        default=(
            Phase("arriving", "Door", "Everybody comes to the door."),
            Phase("collecting-inputs", "Password", "Everybody says the password.", True),
        )
    )

    def participant(self, round: IdealRound, *others: Any) -> PasswordParticipant:
        *_, position, _randomness, journal = others
        return PasswordParticipant(round, position, journal)

    def coordinator(
        self, round: IdealRound, roster: Roster, randomness: Any, store: Store, shard: str = "only"
    ) -> PasswordCoordinator:
        return PasswordCoordinator(round, store, shard)

    def largest_message(self, round: IdealRound) -> int:
        return super().largest_message(round) + PROOF_BYTES


@pytest.fixture(autouse=True)
def in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, ThreatModel.SEMI_HONEST, PasswordSum())


def test_it_runs_through_dhdmm_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, monkeypatch, capsys)
    Path("small.yaml").write_text(small_text(threat_model="semi-honest"))
    tables = []
    for number in range(12):
        tables.append(f"{number}.csv")
        Path(tables[-1]).write_text("age,sex\n" + "3,F\n" * (number + 1))
    given = [part for table in tables for part in ("--data", table)]
    said = shell("run", "small.yaml", *given, "--out", "release", "--full-transcript")
    assert said.code == 0, said.err
    released = Release.load(Path("release"))
    assert released.survivors == 12
    assert [phase.state for phase in released.transcript.account.phases] == [
        "arriving",
        "collecting-inputs",
    ]
    verified = shell("verify", "release")
    assert verified.code == 0, verified.err
    assert "sum recomputed from 24 messages" in " ".join(verified.out.split())


def test_it_runs_through_the_service_and_its_pages(tmp_path: Path) -> None:
    persons = crowd(tmp_path, 6)
    study = study_of(threat_model="semi-honest")
    with coordinator(tmp_path, study, roster_file(persons), public=True) as served:
        served.consent(*persons)
        assert "Door" in _page(served)
        outcomes = served.join_all(persons)
        assert {outcome.ending for outcome in outcomes} == {Ending.RELEASED}
        assert "6 of 6 were counted" in _page(served)
        release = served.join(persons[0], whole=True).verified.release
    assert len(release.measurement) == release.plan.strategy.rows


def _page(served: Coordinator) -> str:
    with httpx.Client(verify=served.files.client(), base_url=served.address) as http:
        return http.get(f"/rounds/{served.round_id.hex()}").text


def test_whoever_does_not_know_the_password_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    roster = Roster(("a", "b", "c"), tuple(bytes([i]) * 32 for i in range(3)))
    method, journals = PasswordSum(), [MemoryJournal() for _ in range(3)]
    round_ = IdealRound(bytes(32), bytes(16), roster.digest, 3, 2, Modulus(2**16), 4)
    server = method.coordinator(round_, roster, None, {})
    machines = [_machine(method, round_, i, journals[i]) for i in range(3)]
    for i, machine in enumerate(machines):
        server.receive(i, machine.begin())
    server.close_phase()
    monkeypatch.setattr(machines[2], "password", b"guess")
    for i, machine in enumerate(machines):
        machine.receive(server.message_for(i))
        said = machine.give_input(np.full(4, i + 1))
        if i < 2:
            server.receive(i, said)
        else:
            with pytest.raises(RemoteProtocolError, match="password"):
                server.receive(i, said)
    server.close_phase()
    assert server.result.total.tolist() == [3, 3, 3, 3]
    assert server.result.survivors.members() == (0, 1)


def _machine(
    method: PasswordSum, round_: IdealRound, position: int, journal: Journal
) -> PasswordParticipant:
    return method.participant(round_, None, None, position, None, journal)
