"""The file: one encoding, a chain, a signature; no byte of it can change unnoticed."""

from __future__ import annotations

import random
from dataclasses import replace
from hashlib import sha256

import cbor2
import numpy as np
import pytest

from dhdmm.errors import DhdmmError, ExitCode, TranscriptError, VerificationError
from dhdmm.release import transcript_format as form
from dhdmm.release.transcript import Account, Recording, Transcript
from dhdmm.release.verify import verify
from dhdmm.runner import enrol, run_round
from dhdmm.secagg.states import CoordinatorState
from tests.release.transcripts import LIAR, MODELS, released, resealed, transcript_of
from tests.round.small import people, small_plan

BOTH_MODELS = pytest.mark.parametrize("threat_model", MODELS)
CHANGES = 500


@BOTH_MODELS
def test_a_transcript_is_read_back_to_the_byte(threat_model: str) -> None:
    for transcript in (
        transcript_of(released(threat_model)),
        transcript_of(released(threat_model)).short(),
    ):
        encoded = transcript.to_bytes()
        again = Transcript.from_bytes(encoded)
        assert again.to_bytes() == encoded
        assert again.full == transcript.full


@BOTH_MODELS
def test_it_tells_what_the_round_was(threat_model: str) -> None:
    release = released(threat_model)
    account = transcript_of(release).account
    assert account.plan == release.plan.to_bytes()
    assert account.roster.digest == release.plan.roster_digest
    assert account.round_id == release.round_id
    assert np.array_equal(account.measurement, release.measurement)
    sizes = {phase.state: len(phase.senders) for phase in account.phases}
    assert sizes[CoordinatorState.COLLECTING_SHARES] == 12
    assert sizes[CoordinatorState.COLLECTING_INPUTS] == release.survivors == 11
    assert (account.root is not None) == (threat_model == "malicious")


@pytest.mark.slow
@BOTH_MODELS
@pytest.mark.parametrize("full", [True, False])
def test_each_changed_byte_is_detected(threat_model: str, full: bool) -> None:
    transcript = transcript_of(released(threat_model))
    encoded = (transcript if full else transcript.short()).to_bytes()
    generator = random.Random(7)
    for _ in range(CHANGES):
        changed = bytearray(encoded)
        changed[generator.randrange(len(encoded))] ^= generator.randrange(1, 256)
        with pytest.raises((TranscriptError, VerificationError)):
            verify(Transcript.from_bytes(bytes(changed)))


@BOTH_MODELS
def test_missing_added_and_repeated_bytes_are_detected(threat_model: str) -> None:
    encoded = transcript_of(released(threat_model)).to_bytes()
    generator = random.Random(8)
    for _ in range(50):
        place = generator.randrange(len(encoded))
        for changed in (
            encoded[:place],
            encoded[:place] + encoded[place + 1 :],
            encoded[:place] + bytes([encoded[place] ^ 1]) + encoded[place:],
        ):
            with pytest.raises((TranscriptError, VerificationError)):
                Transcript.from_bytes(changed)
    with pytest.raises(TranscriptError):
        Transcript.from_bytes(encoded + b"\x00")


@pytest.mark.parametrize(
    ("number", "place"),
    [(1, "entry 3"), (3, r"entry 5"), (6, "entry 8 "), (8, "commits to something else")],
)
def test_a_changed_entry_is_named_by_where_the_chain_breaks(number: int, place: str) -> None:
    """The byte changed is the last of a byte string, so the entry still decodes."""
    transcript = transcript_of(released("semi-honest")).short()
    entries = list(transcript.entries)
    content = cbor2.loads(entries[number])
    name = {"plan": "digest", "phase": "senders", "result": "digest"}[content["kind"]]
    content[name] = content[name][:-1] + bytes([content[name][-1] ^ 1])
    entries[number] = form.encode(content)
    with pytest.raises(VerificationError, match=place):
        Transcript.from_bytes(replace(transcript, entries=tuple(entries)).to_bytes())


def test_a_forged_chain_does_not_have_the_signature() -> None:
    transcript = transcript_of(released("malicious"))
    account = transcript.account
    forged = replace(account, measurement=account.measurement + 1)
    entries = form.chain(forged.contents())
    with pytest.raises(VerificationError, match="signature does not hold"):
        Transcript.from_bytes(
            replace(transcript.short(), entries=entries, content=forged.content()).to_bytes()
        )


def test_a_transcript_that_was_never_a_file_is_checked_as_well() -> None:
    transcript = transcript_of(released("malicious"))
    for forged in (
        replace(transcript, signature=bytes(64)),
        replace(transcript, recording=Recording(b"", ((),))),
    ):
        with pytest.raises(VerificationError):
            verify(forged)


def test_a_forger_with_a_key_of_his_own_is_stopped_by_the_pinned_key_only() -> None:
    transcript = transcript_of(released("malicious"))
    forged = resealed(
        transcript, lambda account: replace(account, measurement=account.measurement + 1)
    )
    forged = Transcript.from_bytes(forged.to_bytes())
    assert verify(forged).release.survivors == 11  # without the key, anybody may have signed
    with pytest.raises(VerificationError, match="not with the one given"):
        verify(forged, transcript.key)
    assert verify(transcript, transcript.key).release.survivors == 11


@pytest.mark.parametrize(
    ("arrange", "complaint"),
    [
        (lambda c: c[1:], "not one entry of kind 'round'"),
        (lambda c: c[:-1], "not one entry of kind 'result'"),
        (lambda c: [c[0], *c], "not one entry of kind 'round'"),
        (lambda c: [c[1], c[0], *c[2:]], "not in their order"),
        (lambda c: [*c[:4], *c[5:], c[4]], "not in their order"),
        (lambda c: [*c, c[4]], "not in their order"),
        (lambda c: [], "not one entry"),
    ],
    ids=["no round", "no result", "two rounds", "swapped", "root last", "two roots", "empty"],
)
def test_other_entries_than_those_of_a_round_are_refused(arrange, complaint: str) -> None:
    transcript = transcript_of(released("malicious")).short()
    entries = form.chain(arrange(list(transcript.account.contents())))
    signature = LIAR.sign(form.signed_statement(entries)) if entries else bytes(64)
    forged = replace(transcript, entries=entries, key=LIAR.public, signature=signature)
    with pytest.raises(TranscriptError, match=complaint):
        Transcript.from_bytes(forged.to_bytes())


@pytest.mark.parametrize("name", ["plan", "names", "senders", "digests", "measurement"])
def test_entries_commit_to_what_stands_beside_them(name: str) -> None:
    """The chain and the signature still hold: only the digests in the entries tell."""
    transcript = transcript_of(released("malicious")).short()
    content = dict(transcript.content)
    long = content[name]
    if name == "names":
        content[name] = ["somebody else", *long[1:]]
    elif isinstance(long, list):
        content[name] = [long[0][:-1] + bytes([long[0][-1] ^ 1]), *long[1:]]
    else:
        content[name] = long[:-1] + bytes([long[-1] ^ 1])
    with pytest.raises((VerificationError, TranscriptError), match=r"commits to|one digest"):
        Transcript.from_bytes(replace(transcript, content=content).to_bytes())


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"\xff",
        b"[]",
        b"\x9f" * 100_000,
        b"\x81" * 100_000,
        cbor2.dumps({"format": "dhdmm transcript", "version": 2}),
        cbor2.dumps({"format": "dhdmm transcript", "version": 1}),
        cbor2.dumps({1: 2}),
        cbor2.dumps([1]),
        bytes.fromhex("a1d81c6161d81d00"),
        bytes.fromhex("c249010000000000000000"),
        bytes.fromhex("d9010282"),
        bytes.fromhex("a1a0a0"),
        bytes.fromhex("5b7fffffffffffffff"),
    ],
)
def test_what_is_no_transcript_is_refused_as_a_wrong_file(encoded: bytes) -> None:
    with pytest.raises(TranscriptError) as refused:
        Transcript.from_bytes(encoded)
    assert refused.value.exit_code is ExitCode.INPUT


def test_an_encoding_that_is_not_canonical_is_refused() -> None:
    transcript = transcript_of(released("malicious")).short()
    fields = cbor2.loads(transcript.to_bytes())
    backwards = dict(reversed(fields.items()))
    with pytest.raises(TranscriptError, match="not the canonical one"):
        Transcript.from_bytes(cbor2.dumps(backwards))


@pytest.mark.parametrize(
    ("field", "value"),
    [("coins", b""), ("messages", []), ("key", bytes(31)), ("entries", [1]), ("more", 1)],
)
def test_fields_that_do_not_fit_are_refused(field: str, value: object) -> None:
    fields = cbor2.loads(transcript_of(released("malicious")).short().to_bytes())
    with pytest.raises(TranscriptError):
        Transcript.from_bytes(form.encode(fields | {field: value}))


def test_a_key_of_small_order_signs_nothing() -> None:
    transcript = transcript_of(released("malicious")).short()
    neutral = bytes([1]) + bytes(31)
    with pytest.raises(VerificationError, match="signature"):
        Transcript.from_bytes(
            replace(transcript, key=neutral, signature=neutral + bytes(32)).to_bytes()
        )


def test_leaving_the_messages_out_keeps_the_signature() -> None:
    transcript = transcript_of(released("malicious"))
    short = Transcript.from_bytes(transcript.short().to_bytes())
    assert (short.key, short.signature) == (transcript.key, transcript.signature)
    assert not short.full
    assert len(short.to_bytes()) < len(transcript.to_bytes()) / 4


def test_a_participant_finds_what_it_paid_for_among_the_inputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paid: list[bytes] = []
    monkeypatch.setattr("dhdmm.cohort.members._already_paid", paid.append)
    release = run_round(enrol(small_plan()), people(12), workers=1).release
    transcript = transcript_of(release)
    inputs = phase(transcript.account, CoordinatorState.COLLECTING_INPUTS)
    assert sorted(inputs.digests) == sorted(paid)


def test_neither_messages_nor_entries_are_in_a_repr() -> None:
    assert len(repr(transcript_of(released("malicious")))) < 300


def test_short_is_the_default_and_has_no_message() -> None:
    transcript = transcript_of(run_round(enrol(small_plan()), people(12), workers=1).release)
    assert not transcript.full


def test_messages_are_those_that_the_account_commits_to() -> None:
    transcript = transcript_of(released("semi-honest"))
    assert transcript.recording is not None
    for noted, said in zip(transcript.account.phases, transcript.recording.messages, strict=True):
        assert noted.digests == tuple(sha256(message).digest() for message in said)


def test_errors_carry_no_escape_sequence_of_a_hostile_file() -> None:
    fields = cbor2.loads(transcript_of(released("malicious")).short().to_bytes())
    with pytest.raises(DhdmmError) as refused:
        Transcript.from_bytes(form.encode(fields | {"\x1b[2J": 1}))
    assert "\x1b" not in str(refused.value)


def phase(account: Account, state: CoordinatorState):
    return next(phase for phase in account.phases if phase.state == state)
