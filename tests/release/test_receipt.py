"""A receipt shows a participant that its own messages are in the transcript, and is of no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dhdmm.aggregation import merkle
from dhdmm.errors import TranscriptError, VerificationError
from dhdmm.release import receipt as module
from dhdmm.release.receipt import MAGIC, Receipt
from dhdmm.release.release import Release
from dhdmm.release.transcript import Transcript
from tests.release.transcripts import LIAR, MODELS, released, resealed, transcript_of

BOTH_MODELS = pytest.mark.parametrize("threat_model", MODELS)


def survivor(transcript: Transcript) -> int:
    return transcript.account.senders("collecting-reveals").senders.members()[-1]


def check(receipt: Receipt, release: Release, position: int, **changes: Any) -> tuple[str, ...]:
    account = transcript_of(release).account
    sent = [digest for digest in account.said(position) if digest is not None]
    known: dict[str, Any] = {
        "sent": sent,
        "root": account.root,
        "survivors": account.senders("collecting-inputs").senders,
    } | changes
    return receipt.check(release.plan, release.round_id, position, **known)


@BOTH_MODELS
def test_a_receipt_is_read_back_and_holds(threat_model: str) -> None:
    release = released(threat_model)
    transcript = transcript_of(release)
    position = survivor(transcript)
    receipt = Receipt.from_bytes(Receipt.of(transcript, position).to_bytes())
    assert receipt == Receipt.of(transcript, position)
    assert (
        f"{len(transcript.account.phases)} messages of yours"
        in check(receipt, release, position)[-1]
    )
    assert check(receipt, release, position, root=None, survivors=None, sent=[])
    assert len(receipt.to_bytes()) < 3000


@BOTH_MODELS
def test_it_names_nobody_and_is_the_same_for_all_but_for_its_proof(threat_model: str) -> None:
    transcript = transcript_of(released(threat_model))
    receipts = [Receipt.of(transcript, i) for i in range(12)]
    assert len({receipt.fingerprint for receipt in receipts}) == 1
    for name in transcript.account.roster.names:
        assert not any(name.encode() in receipt.to_bytes() for receipt in receipts)


def lies(transcript: Transcript, position: int) -> dict[str, tuple[Receipt, str]]:
    """What a coordinator may give instead, and what is said of it."""
    account, receipt = transcript.account, Receipt.of(transcript, position)
    other = bytes(32)
    at = [phase.state for phase in account.phases].index("collecting-inputs")
    place = account.phases[at].senders.members().index(position)
    digests = list(account.phases[at].digests)
    digests[place] = other
    phases = list(account.phases)
    phases[at] = replace(phases[at], digests=tuple(digests))
    robbed = resealed(transcript, lambda account: replace(account, phases=tuple(phases)))
    fewer = replace(account.phases[at], senders=account.phases[at].senders.without([position]))
    fewer = replace(fewer, digests=tuple(d for i, d in enumerate(fewer.digests) if i != place))
    phases[at] = fewer
    dropped = resealed(transcript, lambda account: replace(account, phases=tuple(phases)))
    restated = list(receipt.said)
    restated[at] = other
    return {
        "another input": (Receipt.of(robbed, position), "what left here is not in it"),
        "no input": (Receipt.of(dropped, position), "what left here is not in it"),
        "our digests, their entries": (
            replace(Receipt.of(robbed, position), said=receipt.said), "what left here is not in it",
        ),
        "their digests, our entries": (
            replace(receipt, said=tuple(restated)), "what left here is not in it",
        ),
        "another's proof": (replace(receipt, proof=receipt.proof[::-1]), "not in it"),
        "another round": (
            Receipt.of(resealed(transcript, lambda a: replace(a, round_id=bytes(16))), position),
            "of another round",
        ),
        "another plan": (
            Receipt.of(resealed(transcript, lambda a: replace(a, plan=a.plan + b"0")), position),
            "of another plan",
        ),
        "no signature": (replace(receipt, signature=bytes(64)), "signature does not hold"),
        "another's signature": (replace(receipt, key=LIAR.public), "signature does not hold"),
        "nothing": (replace(receipt, entries=()), "signature does not hold"),
        "fewer phases": (replace(receipt, said=receipt.said[:-1]), "other phases"),
    }  # fmt: skip


@pytest.mark.fault(12)
@BOTH_MODELS
def test_a_receipt_that_is_not_of_what_left_here_is_refused(
    threat_model: str, subtests: pytest.Subtests
) -> None:
    release = released(threat_model)
    position = survivor(transcript_of(release))
    for lie, (receipt, complaint) in lies(transcript_of(release), position).items():
        with subtests.test(lie), pytest.raises(VerificationError, match=complaint):
            check(receipt, release, position)


@pytest.mark.fault(12)
def test_without_the_proof_digests_that_are_not_in_the_tree_would_be_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = released("malicious")
    position = survivor(transcript_of(release))
    receipt, _ = lies(transcript_of(release), position)["our digests, their entries"]
    monkeypatch.setattr(module, "verify_multiproof", lambda *_: None)
    assert check(receipt, release, position)
    assert merkle.verify_multiproof is not module.verify_multiproof


@BOTH_MODELS
def test_survivors_and_keys_are_those_that_were_told(threat_model: str) -> None:
    release = released(threat_model)
    transcript = transcript_of(release)
    position = survivor(transcript)
    receipt, told = Receipt.of(transcript, position), transcript.account.phases[0].senders
    with pytest.raises(VerificationError, match="other survivors than we were told"):
        check(receipt, release, position, survivors=told)
    with pytest.raises(VerificationError, match="other keys than we were told"):
        check(receipt, release, position, root=bytes(32))


@pytest.mark.parametrize("encoded", [b"", MAGIC, MAGIC + b"\xa0", MAGIC + b"\xff", b"\x80"])
def test_what_is_no_receipt_is_refused(encoded: bytes) -> None:
    with pytest.raises(TranscriptError):
        Receipt.from_bytes(encoded)
