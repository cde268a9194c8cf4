"""A coordinator that signs what is not so: what verification finds, and what it cannot."""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import dhdmm
from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason
from dhdmm.aggregation.method import ThreatModel
from dhdmm.errors import DhdmmError, ExitCode, VerificationError
from dhdmm.planning.methods import METHODS
from dhdmm.planning.plan import Plan
from dhdmm.release.transcript import Account, Recording, Transcript
from dhdmm.release.verify import verify
from dhdmm.runner import enrol, run_round
from dhdmm.secagg import messages as m
from dhdmm.secagg.states import CoordinatorState
from dhdmm.session.coordinator import CoordinatorSession
from dhdmm.session.recorder import Recorder
from dhdmm.study.histogram import Histogram
from tests.release.transcripts import (
    MODELS,
    released,
    resealed,
    restated,
    transcript_of,
)

EXAMPLES = Path(__file__).parents[2] / "examples"
BOTH_MODELS = pytest.mark.parametrize("threat_model", MODELS)


def refused(transcript: Transcript, complaint: str) -> None:
    with pytest.raises(VerificationError, match=complaint) as error:
        verify(Transcript.from_bytes(transcript.to_bytes()))
    assert error.value.exit_code is ExitCode.REFUSED


@BOTH_MODELS
@pytest.mark.parametrize("full", [True, False])
def test_the_release_is_derived_anew(threat_model: str, full: bool) -> None:
    release = released(threat_model)
    transcript = transcript_of(release) if full else transcript_of(release).short()
    derived = verify(Transcript.from_bytes(transcript.to_bytes()), transcript.key).release
    assert np.array_equal(derived.answers, release.answers)
    assert np.array_equal(derived.standard_errors, release.standard_errors)
    assert derived.provenance() == release.provenance()


def test_a_sum_over_a_drawn_graph_is_recomputed() -> None:
    transcript = transcript_of(released("semi-honest"))
    assert transcript.recording is not None
    assert len(transcript.recording.coins) == 8 * 12  # a permutation's words, no key
    assert "the sum recomputed" in verify(transcript).checks[-1]


# ---- short transcripts --------------------------------------------------------------------------


def without(account: Account, index: int, positions: set[int]) -> Account:
    """These participants taken out of one phase."""
    phases = list(account.phases)
    members = zip(phases[index].senders.members(), phases[index].digests, strict=True)
    kept = {i: digest for i, digest in members if i not in positions}
    senders = Bitmap.of(len(account.roster), kept)
    phases[index] = replace(phases[index], senders=senders, digests=tuple(kept.values()))
    return replace(account, phases=tuple(phases))


def with_plan(account: Account, **changes: object) -> Account:
    return replace(account, plan=replace(Plan.from_bytes(account.plan), **changes).to_bytes())


LIES = {
    "another session": (lambda a: replace(a, session=bytes(32)), "session is not that"),
    "another round": (lambda a: replace(a, round_id=bytes(16)), "session is not that"),
    "another protocol": (lambda a: replace(a, protocol=2), "version of the protocol"),
    "no root": (lambda a: replace(a, root=None), "Merkle root"),
    "a name changed": (
        lambda a: replace(a, roster=replace(a.roster, names=("eve", *a.roster.names[1:]))),
        "another roster",
    ),
    "less noise": (
        lambda a: with_plan(a, participant_variance=Fraction(9)),
        "no participant may accept this plan: with this noise",
    ),
    "a cheaper budget": (lambda a: with_plan(a, rho=Fraction(1, 1000)), "costs ρ"),
    "a smaller modulus": (
        lambda a: with_plan(a, modulus=type(Plan.from_bytes(a.plan).modulus)(2**8)),
        "sums need a modulus",
    ),
    "a plan that is none": (lambda a: replace(a, plan=a.plan[:-1]), "not a CBOR value"),
    "too few survivors": (
        lambda a: without(a, 3, {0, 1, 2}),
        "collecting-inputs: [89] senders, the protocol needs 11",
    ),
    "too few keys": (lambda a: without(a, 0, {0, 1, 2}), "collecting-keys: 9 senders"),
    "too few reveals": (lambda a: without(a, 5, set(range(9))), "collecting-reveals: [23] senders"),
    "a survivor that never shared": (lambda a: without(a, 2, {alive(a)}), "was not invited"),
    "another model's phases": (
        lambda a: replace(a, phases=(a.phases[0], *a.phases[2:])),
        "the phases are not",
    ),
    "a measurement too short": (
        lambda a: replace(a, measurement=a.measurement[:-1]),
        "not one number per row",
    ),
    "a measurement too large": (
        lambda a: replace(a, measurement=a.measurement + 2**62),
        "modulus cannot hold",
    ),
}


def alive(account: Account) -> int:
    return account.phases[3].senders.members()[0]


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_that_can_be_recomputed_is_found_even_in_a_short_transcript(lie: str) -> None:
    change, complaint = LIES[lie]
    refused(resealed(transcript_of(released("malicious")), change), complaint)


def test_a_root_in_the_semi_honest_model_is_refused() -> None:
    transcript = transcript_of(released("semi-honest"))
    refused(resealed(transcript, lambda a: replace(a, root=bytes(32))), "Merkle root")


# ---- full transcripts ---------------------------------------------------------------------------


@BOTH_MODELS
def test_another_measurement_is_found_by_a_full_transcript_only(threat_model: str) -> None:
    """The measurement of a short transcript is the coordinator's word."""
    transcript = transcript_of(released(threat_model))

    def lie(account: Account) -> Account:
        return replace(account, measurement=account.measurement + 1)

    assert verify(resealed(transcript, lie)).checks
    refused(resealed(transcript, lie, transcript.recording), "another measurement")


def test_another_root_is_found_by_a_full_transcript_only() -> None:
    transcript = transcript_of(released("malicious"))

    def lie(account: Account) -> Account:
        return replace(account, root=bytes(32))

    assert verify(resealed(transcript, lie)).checks
    refused(resealed(transcript, lie, transcript.recording), "Merkle root is not")


@BOTH_MODELS
def test_a_masked_input_in_place_of_another_changes_the_sum(threat_model: str) -> None:
    transcript = transcript_of(released(threat_model))
    index = [p.state for p in transcript.account.phases].index(CoordinatorState.COLLECTING_INPUTS)

    def change(message: bytes) -> bytes:
        masked = m.decode(message)
        assert isinstance(masked, m.MaskedInput)
        flipped = bytes([masked.vector[0] ^ 1]) + masked.vector[1:]
        return replace(masked, vector=flipped).encode()

    refused(restated(transcript, edited(transcript, index, change)), "another measurement")


def test_keys_that_the_identity_did_not_sign_are_refused() -> None:
    transcript = transcript_of(released("malicious"))

    def change(message: bytes) -> bytes:
        keys = m.decode(message)
        assert isinstance(keys, m.SignedKeys)
        return replace(keys, mask_key=keys.mask_key[::-1]).encode()

    refused(restated(transcript, edited(transcript, 0, change)), "bad-signature|bad-public-key")


def test_a_changed_share_is_found() -> None:
    transcript = transcript_of(released("malicious"))

    def change(message: bytes) -> bytes:
        unmask = m.decode(message)
        assert isinstance(unmask, m.Unmask)
        first, *others = unmask.reveals
        share = first.share[:-1] + bytes([first.share[-1] ^ 1])
        return replace(unmask, reveals=(first._replace(share=share), *others)).encode()

    refused(restated(transcript, edited(transcript, 5, change)), "inconsistent-shares|malformed")


def test_other_coins_lead_to_another_graph() -> None:
    transcript = transcript_of(released("semi-honest"))
    assert transcript.recording is not None
    for coins in (transcript.recording.coins[::-1], b"", transcript.recording.coins[:-1]):
        refused(restated(transcript, replace(transcript.recording, coins=coins)), "recorded")


@BOTH_MODELS
def test_swapped_messages_are_refused(threat_model: str) -> None:
    transcript = transcript_of(released(threat_model))
    assert transcript.recording is not None
    first, *others = transcript.recording.messages
    swapped = replace(transcript.recording, messages=((first[1], first[0], *first[2:]), *others))
    refused(restated(transcript, swapped), "wrong-session")


def test_messages_of_an_account_without_them_are_refused() -> None:
    transcript = transcript_of(released("malicious"))
    assert transcript.recording is not None
    fewer = replace(transcript.recording, messages=transcript.recording.messages[:-1])
    refused(replace(transcript, recording=fewer), "not the messages of all phases")
    other = replace(transcript.recording, coins=b"heads")
    refused(replace(transcript, recording=other), "coins of the graph")


def edited(transcript: Transcript, index: int, change) -> Recording:
    """The first message of a phase changed."""
    assert transcript.recording is not None
    said = list(transcript.recording.messages)
    first, *others = said[index]
    said[index] = (change(first), *others)
    return replace(transcript.recording, messages=tuple(said))


# ---- recording ----------------------------------------------------------------------------------


def test_departures_and_repetitions_are_not_counted_as_messages_of_a_phase() -> None:
    release = released("semi-honest")
    transcript = transcript_of(release)
    assert transcript.recording is not None
    archive: dict[str, bytes] = {}
    store: dict[str, bytes] = {}
    account, session = transcript.account, release.plan.round(release.round_id).session
    again = CoordinatorSession(
        release.plan, release.round_id, account.roster, os.urandom, store, archive=archive
    )
    keys = transcript.recording.messages[0]
    for position in range(11):
        again.receive(position, keys[position])
        again.receive(position, keys[position])
    again.receive(11, m.Aborted(session, 11, AbortReason.MALFORMED).encode())
    assert sorted(archive.values()) == sorted(keys[:11])
    assert sum(name.startswith("transcript/collecting-keys/") for name in store) == 11


def test_notes_in_a_store_outlive_the_recorder() -> None:
    notes: dict[str, bytes] = {}
    first = Recorder(METHODS[ThreatModel.MALICIOUS].phases, 5, notes, None)
    first.counted(CoordinatorState.COLLECTING_KEYS, 3, b"three")
    first.announced(bytes(32))
    again = Recorder(METHODS[ThreatModel.MALICIOUS].phases, 5, notes, None)
    again.counted(CoordinatorState.COLLECTING_KEYS, 1, b"one")
    keys, *others = again.phases()
    assert keys.senders.members() == (1, 3)
    assert keys.digests == (sha256(b"one").digest(), sha256(b"three").digest())
    assert all(not len(phase.senders) for phase in others)
    assert again.root == bytes(32)
    assert again.recording() is None


@pytest.mark.soak
def test_a_census_of_a_thousand_participants_verifies_and_no_changed_byte_does() -> None:
    """SF1 in the malicious model with as many dropouts as allowed."""
    plan = dhdmm.plan(dhdmm.Study.load(EXAMPLES / "census-sf1" / "study.yaml"), participants=1000)
    generator = np.random.default_rng(11)
    sizes = plan.study.schema.shape
    cells = np.stack([generator.integers(0, size, 1000) for size in sizes], axis=1)
    histograms = [Histogram.of_records(cells[i : i + 1]) for i in range(1000)]
    release = run_round(enrol(plan), histograms, dropout=0.05, full_transcript=True).release
    encoded = transcript_of(release).to_bytes()
    derived = verify(Transcript.from_bytes(encoded), transcript_of(release).key).release
    assert np.array_equal(derived.answers, release.answers)
    for place in generator.integers(0, len(encoded), 100):
        changed = bytearray(encoded)
        changed[place] ^= int(generator.integers(1, 256))
        with pytest.raises(DhdmmError):
            verify(Transcript.from_bytes(bytes(changed)))
