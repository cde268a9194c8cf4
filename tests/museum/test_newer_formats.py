"""What a newer dhdmm made is refused by its number, in a few words, and not called damaged."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import cbor2
import numpy as np
import pytest

import dhdmm
from dhdmm import formats
from dhdmm.aggregation.errors import LocalProtocolError
from dhdmm.client.home import Home, SeenRoster
from dhdmm.client.joined import Note
from dhdmm.client.journal import FileJournal
from dhdmm.errors import DhdmmError
from dhdmm.network import identity as identities
from dhdmm.network.identity import read_document
from dhdmm.network.roster import RosterFile
from dhdmm.participant.data_sets import DataSets
from dhdmm.participant.policy import Policy, PolicyReason, PolicyRefusal, review_preview
from dhdmm.planning.draft import Draft
from dhdmm.planning.plan import Plan
from dhdmm.release.release import Release
from dhdmm.release.transcript import Transcript
from dhdmm.secagg.memory import Memory
from dhdmm.server.database import Database
from dhdmm.simulation.trace import Trace
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.spec import Study
from tests.museum.cast import POLICY, person_key
from tests.museum.wings import NEWEST

NEWER = 99
MAKER = "9.9"


def canonical(value: object) -> bytes:
    return bytes(cbor2.dumps(value, canonical=True))


def newer_json(name: str, to: Path) -> Path:
    document = json.loads(NEWEST.bytes(name)) | {"format": NEWER, "something": "new"}
    to.write_text(json.dumps(document), encoding="utf-8")
    to.chmod(0o600)
    return to


def study(_: Path) -> None:
    values = json.loads(NEWEST.bytes("studies/malicious.json")) | {"format": NEWER}
    Study.from_canonical_bytes(json.dumps(values).encode(), made_by=MAKER)


def strategy(_: Path) -> None:
    magic, _number, *rest = cbor2.loads(NEWEST.bytes("strategies/malicious.cbor"))
    Strategy.from_bytes(canonical([magic, NEWER, *rest, "more"]), made_by=MAKER)


def plan(_: Path) -> None:
    Plan.from_bytes(newer_plan())


def newer_plan() -> bytes:
    fields = cbor2.loads(NEWEST.bytes("plans/malicious-preview.cbor"))
    return canonical(fields | {"version": NEWER, "dhdmm": MAKER, "more": 1})


def transcript(_: Path) -> None:
    fields = cbor2.loads(NEWEST.bytes("releases/malicious/transcript.cbor"))
    first = cbor2.loads(fields["entries"][0]) | {"dhdmm": MAKER}
    entries = [canonical(first), *fields["entries"][1:]]
    Transcript.from_bytes(canonical(fields | {"version": NEWER, "entries": entries}))


def release(folder: Path) -> None:
    place = NEWEST.copy("releases/malicious", folder / "release") / "release.json"
    document = json.loads(place.read_text("utf-8"))
    document |= {"format": NEWER, "provenance": {"dhdmm": MAKER}, "more": 1}
    place.write_text(json.dumps(document), encoding="utf-8")
    Release.load(place.parent)


def roster(folder: Path) -> None:
    RosterFile.from_bytes(newer_json("rosters/signed.json", folder / "roster").read_bytes())


def identity(folder: Path) -> None:
    identities.load(newer_json("identities/person.identity", folder / "identity"))


def public_identity(folder: Path) -> None:
    identities.load_public(newer_json("identities/person.json", folder / "public"))


def consent(folder: Path) -> None:
    home = Home(NEWEST.copy("rounds/malicious-keys/people/3", folder / "home"))
    (name,) = (home.root / "consents").glob("*.json")
    place = name.relative_to(home.root)
    newer_json(f"rounds/malicious-keys/people/3/{place.as_posix()}", name)
    home.consented(Draft.of(Plan.from_bytes(NEWEST.bytes("plans/malicious-preview.cbor"))))


def policy(folder: Path) -> None:
    place = folder / "policy.yaml"
    place.write_text(f"format: {NEWER}\nlargest_table: 3\n", encoding="utf-8")
    Policy.load(place)


def journal(folder: Path) -> None:
    read_journal(folder, b"dhdmm journal %d\n" % NEWER + bytes(100))


def memory(folder: Path) -> None:
    state = b"dhdmm memory %d\n" % NEWER + bytes(100)
    content = b"dhdmm journal 1\n" + len(state).to_bytes(8, "big") + bytes(8) + state
    read_journal(folder, content + sha256(content).digest())


def read_journal(folder: Path, content: bytes) -> None:
    with FileJournal(folder / "journals", bytes(16), person_key(0).public) as opened:
        opened.write(b"state", b"outgoing")
        (place,) = (folder / "journals").glob("*.journal")
        place.write_bytes(content)
        opened.read()


def store(folder: Path) -> None:
    place = folder / "coordinator.db"
    Database(f"sqlite:///{place}").migrate()
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute(f"UPDATE alembic_version SET version_num = '{NEWER:04}'")
    Database(f"sqlite:///{place}").migrate()


def trace(folder: Path) -> None:
    with np.load(NEWEST.folder / "trace.npz") as stored:
        arrays = dict(stored)
    document = json.loads(arrays["rest"].tobytes()) | {"format": NEWER, "more": 1}
    arrays["rest"] = np.frombuffer(json.dumps(document).encode(), np.uint8)
    np.savez(folder / "trace.npz", **arrays)
    Trace.load(folder / "trace.npz")


def newer_file(kind: str, path: Path) -> Path:
    path.write_text(json.dumps({"dhdmm": kind, "format": NEWER, "something": "new"}), "utf-8")
    path.chmod(0o600)
    return path


def joined_round(folder: Path) -> None:
    read_document(Note, newer_file("joined round", folder / "note"))


def data_set(folder: Path) -> None:
    (folder / "data" / "visits").mkdir(parents=True)
    newer_file("data set", folder / "data" / "visits" / "data.json")
    DataSets(folder).all()


def roster_seen(folder: Path) -> None:
    read_document(SeenRoster, newer_file("roster seen", folder / "seen"))


READERS: dict[str, Callable[[Path], None]] = {
    "study": study,
    "strategy": strategy,
    "plan": plan,
    "transcript": transcript,
    "release": release,
    "roster": roster,
    "identity": identity,
    "public identity": public_identity,
    "consent": consent,
    "policy": policy,
    "journal": journal,
    "memory": memory,
    "joined round": joined_round,
    "data set": data_set,
    "roster seen": roster_seen,
    "store": store,
    "trace": trace,
}
SAYING_THE_MAKER = ("study", "strategy", "plan", "transcript", "release")
ELSEWHERE = {"ledger"}
"""Refused by tests of their own."""


def test_every_kind_has_a_reader_here() -> None:
    assert {*READERS, *ELSEWHERE} == {format.kind for format in formats.FORMATS}


@pytest.mark.parametrize("kind", READERS)
def test_a_newer_file_is_refused_by_its_number(kind: str, tmp_path: Path) -> None:
    with pytest.raises(DhdmmError) as refused:
        READERS[kind](tmp_path)
    said, format = str(refused.value), next(f for f in formats.FORMATS if f.kind == kind)
    this = f"this is dhdmm {dhdmm.__version__}, which reads {format.reads}"
    assert f"{kind} format {NEWER}; {this}" in said
    assert (f"made by dhdmm {MAKER}, " in said) == (kind in SAYING_THE_MAKER)
    assert "upgrade dhdmm to read it" in said
    assert len(said.splitlines()) == 1
    for accusing in ("damaged", "changed", "canonical", "corrupt", "not a "):
        assert accusing not in said


def test_a_participant_refuses_a_newer_plan_by_its_number() -> None:
    with pytest.raises(PolicyRefusal, match=f"made by dhdmm {MAKER}, plan format {NEWER}") as why:
        review_preview(newer_plan(), POLICY)
    assert why.value.reason is PolicyReason.UNREADABLE
    assert why.value.hint == formats.UPGRADE


def test_the_memory_of_a_newer_participant_is_refused_by_its_machine_as_well() -> None:
    with pytest.raises(LocalProtocolError, match=f"memory format {NEWER}; this version reads"):
        Memory.decode(b"dhdmm memory %d\n" % NEWER + bytes(100))


@pytest.mark.parametrize("hostile", ["\x1b[2J", "0.2\nall is well", "x" * 1000, 3, None])
def test_a_hostile_maker_is_not_repeated(hostile: object) -> None:
    with pytest.raises(ValueError, match=r"^plan format 99; this is dhdmm"):
        formats.readable(formats.PLAN, 99, lambda what, hint: ValueError(what), hostile)
