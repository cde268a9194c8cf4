"""Transcripts of small real rounds, and coordinators that sign what is not so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from hashlib import sha256

from dhdmm.aggregation.identity import Identity
from dhdmm.release.release import Release
from dhdmm.release.transcript import Account, Recording, Transcript
from dhdmm.runner import enrol, run_round
from tests.round.small import people, small_plan

LIAR = Identity(bytes(range(32)))
MODELS = ("semi-honest", "malicious")


@cache
def released(threat_model: str) -> Release:
    """A round of twelve, eleven of whom survive, with a full transcript.

    The graph is complete in the malicious model and drawn by the coordinator in the other.
    """
    enrolment = enrol(small_plan(threat_model=threat_model))
    outcome = run_round(enrolment, people(12), dropout=0.1, workers=1, full_transcript=True)
    return outcome.release


def transcript_of(release: Release) -> Transcript:
    assert release.transcript is not None
    return release.transcript


def resealed(
    transcript: Transcript,
    change: Callable[[Account], Account] = lambda account: account,
    recording: Recording | None = None,
) -> Transcript:
    """Another account under a good signature, as a lying coordinator can make it."""
    return Transcript.seal(change(transcript.account), LIAR, recording)


def restated(transcript: Transcript, recording: Recording) -> Transcript:
    """An account that commits to other messages, which are attached."""
    account = transcript.account
    phases = tuple(
        replace(phase, digests=tuple(sha256(message).digest() for message in said))
        for phase, said in zip(account.phases, recording.messages, strict=True)
    )
    coins = sha256(recording.coins).digest()
    return Transcript.seal(replace(account, phases=phases, coins_digest=coins), LIAR, recording)
