"""Every file that an earlier dhdmm left is still read, verified and answered from."""

from __future__ import annotations

import json
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from dhdmm.cli.verify import verify as verify_command
from dhdmm.client.home import Home
from dhdmm.client.journal import FileJournal
from dhdmm.errors import Refused
from dhdmm.network import identity as identities
from dhdmm.network.roster import RosterFile
from dhdmm.participant.policy import Policy, review, review_preview
from dhdmm.planning.draft import Draft
from dhdmm.planning.plan import Plan
from dhdmm.privacy.ledger import Ledger
from dhdmm.release.release import Release
from dhdmm.release.transcript import Transcript
from dhdmm.release.verify import verify
from dhdmm.secagg.memory import Memory
from dhdmm.simulation.trace import Trace
from dhdmm.strategy.strategy import Strategy
from dhdmm.study.spec import Study
from tests.cli.commands import called
from tests.museum.cast import (
    COORDINATOR,
    NOW,
    PEOPLE,
    POLICY,
    REGISTRAR,
    REVIEWING,
    exact_sum,
    person_key,
    roster_file,
)
from tests.museum.make import PROTECTED, RELEASED, ROUND_ID, SILENT
from tests.museum.wings import WINGS, Wing

wings = pytest.mark.parametrize("wing", WINGS, ids=str)
studies = pytest.mark.parametrize(
    ("wing", "name"), [(wing, name) for wing in WINGS for name in wing.studies], ids=str
)
releases = pytest.mark.parametrize(
    ("wing", "name"), [(wing, name) for wing in WINGS for name in RELEASED], ids=str
)


@wings
def test_nothing_in_a_wing_was_changed_or_lost(wing: Wing) -> None:
    found = {name: sha256(wing.bytes(name)).hexdigest() for name in wing.exhibits}
    assert found == {name: exhibit["sha256"] for name, exhibit in wing.exhibits.items()}


@studies
def test_a_study_keeps_its_digest(wing: Wing, name: str) -> None:
    encoded = wing.bytes(f"studies/{name}.json")
    study = Study.from_canonical_bytes(encoded)
    assert study.digest.hex() == wing.facts["studies"][name]["study_digest"]
    assert study.canonical_bytes() == encoded
    assert study.workload.queries == wing.facts["studies"][name]["queries"]


@studies
def test_a_strategy_is_read_and_written_as_it_was(wing: Wing, name: str) -> None:
    encoded = wing.bytes(f"strategies/{name}.cbor")
    strategy = Strategy.from_bytes(encoded)
    assert strategy.to_bytes() == encoded
    study = Study.from_canonical_bytes(wing.bytes(f"studies/{name}.json"))
    assert strategy.contains(study.workload)


@studies
def test_a_plan_keeps_its_digests_and_passes_its_review(wing: Wing, name: str) -> None:
    facts, roster = wing.facts["studies"][name], roster_file(signed=True).roster
    policy = REVIEWING.model_copy(
        update={"rosters": [roster.digest.hex()], "studies": [facts["study_digest"]]}
    )
    reviewed = review(
        wing.bytes(f"plans/{name}.cbor"),
        policy,
        roster,
        expected_digest=bytes.fromhex(facts["plan_digest"]),
    )
    preview = review_preview(wing.bytes(f"plans/{name}-preview.cbor"), policy)
    assert list(reviewed.warnings) == facts["warnings"]
    assert list(preview.warnings) == facts["preview_warnings"]
    assert preview.plan.digest.hex() == facts["preview_digest"]
    assert Draft.of(preview.plan).digest.hex() == facts["draft_digest"]
    assert reviewed.plan.promise.epsilon == pytest.approx(facts["epsilon"], rel=1e-9)
    assert str(reviewed.plan.rho) == facts["rho"]


@studies
def test_a_draft_leads_to_the_plan_that_everybody_agreed_on(wing: Wing, name: str) -> None:
    preview = Plan.from_bytes(wing.bytes(f"plans/{name}-preview.cbor"))
    planned = Draft.of(preview).plan_for(roster_file(signed=True).roster)
    assert planned.digest.hex() == wing.facts["studies"][name]["plan_digest"]


@releases
def test_a_release_gives_the_answers_it_gave(wing: Wing, name: str) -> None:
    release, facts = Release.load(wing.folder / "releases" / name), wing.facts["releases"][name]
    assert release.measurement.tolist() == facts["measurement"]
    assert release.survivors == facts["survivors"]
    assert release.answers == pytest.approx(facts["answers"], rel=1e-9, abs=1e-9)
    assert release.standard_errors == pytest.approx(facts["standard_errors"], rel=1e-9)
    further = release.query(facts["query"]["sql"])
    assert further.values[0] == pytest.approx(facts["query"]["value"], rel=1e-9)
    assert further.standard_errors[0] == pytest.approx(facts["query"]["standard_error"], rel=1e-9)
    counted = set(range(PEOPLE)) - {SILENT}
    assert np.array_equal(
        release.measurement, exact_sum(release.plan, ROUND_ID, dict.fromkeys(counted))
    )


@releases
def test_the_verify_command_passes_a_release_with_its_tables(wing: Wing, name: str) -> None:
    place = wing.folder / "releases" / name
    said = called(verify_command, place, "--key", COORDINATOR.public.hex(), "--json")
    document = json.loads(said)
    assert document["verified"]
    assert document["provenance"]["dhdmm"] == wing.version
    assert any("8 table files hold these answers" in check for check in document["checks"])


@releases
def test_a_full_transcript_adds_up_again(wing: Wing, name: str) -> None:
    encoded = wing.bytes(f"transcripts/{name}-full.cbor")
    transcript = Transcript.from_bytes(encoded)
    verified = verify(transcript, COORDINATOR.public)
    assert any("the sum recomputed" in check for check in verified.checks)
    assert transcript.to_bytes() == encoded
    short = wing.bytes(f"releases/{name}/transcript.cbor")
    assert transcript.short().to_bytes() == short


@wings
def test_a_ledger_opens_and_goes_on(wing: Wing, tmp_path: Path) -> None:
    place = wing.copy("ledger", tmp_path / "ledger") / "ledger"
    ledger, facts = Ledger(place, lambda: NOW), wing.facts["ledger"]
    for figure in ("budget", "spent", "reserved", "remaining"):
        assert str(getattr(ledger, figure)()) == facts[figure]
    reserved, fresh = bytes([2]) * 16, bytes([9]) * 16
    ledger.debit(reserved, sha256(b"another input").digest())
    ledger.reserve(sha256(b"plan").digest(), fresh, Fraction(1, 10), PROTECTED[0])
    ledger.cancel(fresh)
    assert len(Ledger(place, lambda: NOW).entries()) == facts["entries"] + 3
    with pytest.raises(Refused, match="was cancelled"):
        ledger.debit(bytes([1]) * 16, sha256(b"input").digest())


@wings
def test_a_ledger_from_before_its_anchor_is_still_refused(wing: Wing, tmp_path: Path) -> None:
    folder = wing.copy("ledger", tmp_path / "ledger")
    Ledger(folder / "ledger", lambda: NOW).debit(bytes([2]) * 16, sha256(b"input").digest())
    wing.copy("ledger/ledger", folder / "ledger")
    with pytest.raises(Refused, match="behind entry"):
        Ledger(folder / "ledger", lambda: NOW)


@wings
def test_consents_still_apply_to_what_was_consented_to(wing: Wing, tmp_path: Path) -> None:
    for number, name in enumerate(RELEASED):
        home = Home(wing.copy(f"rounds/{name}-keys/people/3", tmp_path / str(number)))
        mine, other = (Plan.from_bytes(wing.bytes(f"plans/{n}-preview.cbor")) for n in
                       (name, RELEASED[1 - number]))  # fmt: skip
        assert home.consented(Draft.of(mine))
        assert not home.consented(Draft.of(other))


@wings
def test_journals_are_read_in_mid_round(wing: Wing, tmp_path: Path) -> None:
    for number, name in enumerate(wing.of_kind("journal")):
        place = wing.copy(str(Path(name).parent), tmp_path / str(number))
        person = int(Path(name).parts[3])
        round_id = bytes.fromhex(Path(name).stem.partition("-")[0])
        with FileJournal(place, round_id, person_key(person).public) as journal:
            written = journal.read()
        assert written is not None
        state, outgoing = written
        memory = Memory.decode(state)
        assert memory.encode() == state
        assert int.from_bytes(memory.position, "big") == person
        assert outgoing


@wings
def test_policies_load(wing: Wing) -> None:
    assert Policy.load(wing.folder / "policies" / "default.yaml") == Policy()
    assert Policy.load(wing.folder / "policies" / "museum.yaml") == POLICY
    pinned = Policy.load(wing.folder / "rounds/malicious-keys/people/0/policy.yaml")
    assert pinned.studies == [wing.facts["studies"]["malicious"]["study_digest"]]


@wings
def test_identities_and_rosters_are_believed(wing: Wing, tmp_path: Path) -> None:
    identity = wing.copy("identities/person.identity", tmp_path / "identity")
    assert identities.load(identity).identity.public == person_key(0).public
    registrar = identities.load_public(wing.folder / "identities" / "registrar.json")
    signed = RosterFile.from_bytes(wing.bytes("rosters/signed.json"))
    assert signed.is_signed_by(bytes.fromhex(registrar.key))
    assert signed.is_signed_by(REGISTRAR.public)
    unsigned = RosterFile.from_bytes(wing.bytes("rosters/unsigned.json"))
    assert unsigned.roster.digest == signed.roster.digest == roster_file(signed=True).roster.digest


@wings
def test_a_trace_is_read(wing: Wing) -> None:
    trace = Trace.load(wing.folder / "trace.npz")
    assert (trace.participants, trace.plan_bytes) == (PEOPLE, 1000)
    assert trace.sent_bytes.ravel().tolist() == list(range(trace.sent_bytes.size))
