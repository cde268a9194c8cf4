"""Makes a wing of the museum with the code that is here: `python -m tests.museum.make VERSION`.

A wing is made once, when a version is released or a format changes, and is never changed after.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import dhdmm
from dhdmm import formats
from dhdmm.aggregation.journal import MemoryJournal
from dhdmm.aggregation.method import ThreatModel
from dhdmm.formats import Format
from dhdmm.network import identity as identities
from dhdmm.network.identity import PublicIdentity
from dhdmm.participant.limits import commented, written
from dhdmm.participant.policy import review, review_preview
from dhdmm.planning.methods import METHODS
from dhdmm.planning.plan import Plan
from dhdmm.privacy.ledger import Ledger
from dhdmm.privacy.protection import Protection
from dhdmm.release.release import Release
from dhdmm.secagg.states import CoordinatorState
from dhdmm.session.coordinator import CoordinatorSession
from dhdmm.session.participant import ParticipantSession
from dhdmm.simulation.trace import Trace
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.canonical import format_of
from dhdmm.study.spec import Study
from tests.museum.cast import (
    COORDINATOR,
    HERE,
    NOW,
    PEOPLE,
    POLICY,
    REGISTRAR,
    REVIEWING,
    TERMS,
    Recorded,
    noise_of,
    person_key,
    person_seed,
    records_of,
    reproducible,
    roster_file,
    text_of,
)
from tests.museum.interrupted import STOPS, interrupted
from tests.protocol.network import Stream

RELEASED = ("semi-honest", "malicious")
ROUND_ID = bytes(range(16))
PROTECTED = (
    Protection("record", "zero-out", "", 1, 1),
    Protection("person", "replace", "who", 2, 3),
)
SILENT = 1
"""Who drops out before the inputs of a round that leads to a release."""
FURTHER = "SELECT COUNT(*) FROM data WHERE sex = 'm' OR age < 3"
PERSON = "rounds/*/people/*"
OPENING = """# dhdmm {version}

Small files of every kind, as dhdmm {version} made them. `index.json` says of each what it is, which
format number it has and its SHA-256; under `facts` are digests and numbers that must stay the same.
**All keys are for tests only**: they are derived from words in `tests/museum/cast.py`, as are the
tokens. Nothing here is ever changed; `tests/museum` reads, verifies and resumes all of it.
"""
KINDS: dict[str, tuple[Format | None, tuple[str, ...]]] = {
    "study file": (None, ("studies/*.yaml",)),
    "study": (formats.STUDY, ("studies/*.json", f"{PERSON}/consents/*.study")),
    "strategy": (formats.STRATEGY, ("strategies/*.cbor",)),
    "plan": (formats.PLAN, ("plans/*.cbor",)),
    "roster": (formats.ROSTER, ("rosters/*.json",)),
    "identity": (formats.IDENTITY, ("identities/*.identity", f"{PERSON}/identity.json")),
    "public identity": (formats.PUBLIC_IDENTITY, ("identities/*.json",)),
    "transcript": (formats.TRANSCRIPT, ("transcripts/*.cbor",)),
    "release": (formats.RELEASE, ("releases/*/*", "releases/*/tables/*")),
    "policy": (formats.POLICY, ("policies/*.yaml", f"{PERSON}/policy.yaml")),
    "ledger": (formats.LEDGER, ("ledger/ledger", f"{PERSON}/ledger")),
    "ledger anchor": (None, ("ledger/ledger.anchor", f"{PERSON}/ledger.anchor")),
    "trace": (formats.TRACE, ("trace.npz",)),
    "store": (formats.STORE, ("rounds/*/store.json",)),
    "store file": (formats.STORE, ("rounds/*/coordinator.db",)),
    "journal": (formats.JOURNAL, (f"{PERSON}/journals/*.journal",)),
    "consent": (formats.CONSENT, (f"{PERSON}/consents/*.json",)),
}
"""Each kind of file: its format if it has one, and where it is."""


def make(folder: Path, version: str, recorded: Recorded) -> dict[str, Any]:
    """Everything but the index; the facts."""
    folder.mkdir()
    facts: dict[str, Any] = {"studies": {}, "releases": {}, "rounds": {}}
    for name in TERMS:
        with reproducible(version, f"study {name}"):
            facts["studies"][name] = _study(folder, name, recorded)
    for name in RELEASED:
        with reproducible(version, f"release {name}"):
            facts["releases"][name] = _release(folder, name, recorded)
    for name, stops in STOPS.items():
        for stop in stops:
            place = f"{name}-{stop.removeprefix('collecting-')}"
            with reproducible(version, f"round {place}"):
                made = interrupted(recorded.draft(name), stop, folder / "rounds" / place)
            shutil.rmtree(folder / "rounds" / place / "gone", ignore_errors=True)
            facts["rounds"][place] = made
    _people(folder)
    facts["ledger"] = _ledger(folder / "ledger")
    _trace(folder / "trace.npz")
    for left in folder.rglob("*.lock"):
        left.unlink()
    return facts


def _study(folder: Path, name: str, recorded: Recorded) -> dict[str, Any]:
    """The study, its strategy, and its plans: a preview for the fewest, one with a roster."""
    for kind in ("studies", "strategies", "plans"):
        (folder / kind).mkdir(exist_ok=True)
    study, draft = Study.from_text(text_of(name)), recorded.draft(name)
    roster = roster_file(signed=True).roster
    preview, plan = draft.plan(PEOPLE), draft.plan(PEOPLE, roster.digest)
    (folder / "studies" / f"{name}.yaml").write_text(text_of(name), encoding="utf-8")
    (folder / "studies" / f"{name}.json").write_bytes(study.canonical_bytes())
    (folder / "strategies" / f"{name}.cbor").write_bytes(draft.strategy.to_bytes())
    (folder / "plans" / f"{name}-preview.cbor").write_bytes(preview.to_bytes())
    (folder / "plans" / f"{name}.cbor").write_bytes(plan.to_bytes())
    policy = REVIEWING.model_copy(update={"rosters": [roster.digest.hex()]})
    return {
        "rho": str(draft.rho),
        "study_digest": study.digest.hex(),
        "draft_digest": draft.digest.hex(),
        "preview_digest": preview.digest.hex(),
        "plan_digest": plan.digest.hex(),
        "warnings": list(review(plan.to_bytes(), policy, roster).warnings),
        "preview_warnings": list(review_preview(preview.to_bytes(), policy).warnings),
        "epsilon": plan.promise.epsilon,
        "queries": study.workload.queries,
    }


def _release(folder: Path, name: str, recorded: Recorded) -> dict[str, Any]:
    """A round with one dropout; the release with its short transcript, and the full one."""
    plan = recorded.draft(name).plan(PEOPLE, roster_file(signed=True).roster.digest)
    coordinator = finished_round(plan, clock=lambda: NOW, archive={})
    release = coordinator.release()
    assert release.transcript is not None
    (folder / "transcripts").mkdir(exist_ok=True)
    (folder / "transcripts" / f"{name}-full.cbor").write_bytes(release.transcript.to_bytes())
    replace(release, transcript=release.transcript.short()).save(folder / "releases" / name)
    return _numbers(release)


def finished_round(plan: Plan, **options: Any) -> CoordinatorSession:
    """The coordinator of a round with one dropout, when everything is said."""
    roster = roster_file(signed=True).roster
    policy = REVIEWING.model_copy(update={"rosters": [roster.digest.hex()]})
    reviewed = review(plan.to_bytes(), policy, roster)
    coordinator = CoordinatorSession(
        plan, ROUND_ID, roster, Stream("museum graph"), identity=COORDINATOR, **options
    )
    sessions = {
        i: ParticipantSession(
            reviewed,
            ROUND_ID,
            roster,
            i,
            person_key(i),
            records_of(i),
            pay=lambda _digest: None,
            randomness=Stream("museum session", i),
            noise=lambda i=i: noise_of(i),
            journal=MemoryJournal(),
        )
        for i in range(PEOPLE)
    }
    answers = {i: session.begin() for i, session in sessions.items()}
    while not coordinator.over:
        for i, answer in answers.items():
            if coordinator.machine.state is not CoordinatorState.COLLECTING_INPUTS or i != SILENT:
                coordinator.receive(i, answer)
        invited = coordinator.close_phase()
        told = {i: coordinator.machine.message_for(i) for i in invited}
        answers = {i: sessions[i].receive(message) or b"" for i, message in told.items() if message}
    return coordinator


def _numbers(release: Release) -> dict[str, Any]:
    further = release.query(FURTHER)
    return {
        "survivors": release.survivors,
        "measurement": release.measurement.tolist(),
        "answers": release.answers.tolist(),
        "standard_errors": release.standard_errors.tolist(),
        "query": {
            "sql": FURTHER,
            "value": float(further.values[0]),
            "standard_error": float(further.standard_errors[0]),
        },
    }


def _people(folder: Path) -> None:
    """Identities, rosters, policies."""
    for kind in ("identities", "rosters", "policies"):
        (folder / kind).mkdir()
    place = folder / "identities"
    person = identities.create(place / "person.identity", "museum test person 0", person_seed(0))
    identities.export_public(person.public, place / "person.json")
    registrar = PublicIdentity(name="museum test registrar", key=REGISTRAR.public.hex())
    identities.export_public(registrar, place / "registrar.json")
    for signed in (False, True):
        name = "signed" if signed else "unsigned"
        (folder / "rosters" / f"{name}.json").write_bytes(roster_file(signed=signed).to_bytes())
    (folder / "policies" / "default.yaml").write_text(commented(), encoding="utf-8")
    (folder / "policies" / "museum.yaml").write_text(written(POLICY), encoding="utf-8")


def _ledger(folder: Path) -> dict[str, Any]:
    """One round in each state: debited, cancelled, reserved."""
    folder.mkdir()
    ledger = Ledger.create(folder / "ledger", Fraction(1), lambda: NOW)
    rounds = [bytes([i]) * 16 for i in range(3)]
    for i, round_id in enumerate(rounds):
        ledger.reserve(sha256(b"plan").digest(), round_id, Fraction(i + 1, 10), PROTECTED[i % 2])
    ledger.debit(rounds[0], sha256(b"masked input").digest())
    ledger.cancel(rounds[1])
    found = ledger.budget(), ledger.spent(), ledger.reserved(), ledger.remaining()
    names = ("budget", "spent", "reserved", "remaining")
    return dict(zip(names, map(str, found), strict=True)) | {"entries": len(ledger.entries())}


def _trace(path: Path) -> None:
    trace = Trace.empty(METHODS[ThreatModel.MALICIOUS].phases, PEOPLE)
    trace.asked[:], trace.answered[:] = True, True
    trace.sent_bytes[:] = np.arange(trace.sent_bytes.size).reshape(trace.sent_bytes.shape)
    trace.plan_bytes = 1000
    trace.save(path)


def index(folder: Path, version: str, facts: dict[str, Any]) -> None:
    """What is where, and the numbers that stay."""
    (folder / "README.md").write_text(OPENING.format(version=version), encoding="utf-8")
    exhibits = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder)
        for kind, (format, patterns) in KINDS.items():
            if any(_matches(name, pattern) for pattern in patterns):
                digest, number = sha256(path.read_bytes()).hexdigest(), format and format.writes
                if kind == "study":
                    number = format_of(path.read_bytes())  # in the first that can say it
                if kind == "strategy":
                    number = Strategy.from_bytes(path.read_bytes()).format
                exhibits[name.as_posix()] = {"kind": kind, "format": number, "sha256": digest}
    document = {"dhdmm": version, "exhibits": exhibits, "facts": facts}
    text = json.dumps(document, indent=1)
    (folder / "index.json").write_text(text + "\n", encoding="utf-8")


def _matches(name: Path, pattern: str) -> bool:
    return len(name.parts) == len(Path(pattern).parts) and name.match(pattern)


def main() -> None:
    (version,) = sys.argv[1:]
    if version != dhdmm.__version__.partition(".dev")[0]:
        raise SystemExit(f"this is dhdmm {dhdmm.__version__}: it makes no wing of {version}")
    folder = HERE / version
    if folder.exists():
        raise SystemExit(f"{folder.name} is there already, and a wing is never changed")
    index(folder, version, make(folder, version, Recorded.found_now()))


if __name__ == "__main__":
    main()
