"""What a transcript shows of noise that was removed, and what a coordinator can only claim."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.wrapping import attach, detach
from dhdmm.errors import ReleaseError, VerificationError
from dhdmm.planning.draft import plan
from dhdmm.release.release import Release
from dhdmm.release.transcript import Transcript
from dhdmm.release.verify import verify
from dhdmm.removal.account import Account
from dhdmm.removal.method import BELIEVED
from dhdmm.runner import enrol, run_round
from dhdmm.study.histogram import Histogram
from tests.release.transcripts import resealed, restated
from tests.removal.test_rounds import study


@cache
def released(threat_model: str = "malicious", validation: str = "none") -> Release:
    histograms = [Histogram.of_records(np.array([[i], [7]])) for i in range(10)]
    made = plan(study(threat_model, validation))
    return run_round(enrol(made), histograms, workers=1, full_transcript=True).release


def reread(transcript: Transcript) -> Transcript:
    return Transcript.from_bytes(transcript.to_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("threat_model", ["semi-honest", "malicious"])
@pytest.mark.parametrize("validation", ["none", "sum"])
def test_the_release_is_derived_anew(threat_model, validation, tmp_path) -> None:
    release = released(threat_model, validation)
    for transcript in (release.transcript, release.transcript.short()):
        found = verify(reread(transcript))
        assert np.array_equal(found.release.standard_errors, release.standard_errors)
        assert "10 of 10 survivors removed excess noise" in found.checks
        assert (BELIEVED in found.unproven) == (not transcript.full)
    release.save(tmp_path / "release")
    loaded = Release.load(tmp_path / "release")
    assert loaded.measurement_variance == release.measurement_variance
    assert loaded.unremoved == 0


def claims(removed: list[int]):
    """An account in which these, and no others, have removed their excess."""

    def change(account):
        said = Account.decode(account.inputs)
        claimed = replace(said, removed=Bitmap.of(10, removed))
        return replace(account, inputs=claimed.encode())

    return change


def test_a_removal_that_did_not_happen_is_found_in_a_full_transcript() -> None:
    """Nine removed their excess in truth; the account says that all did, for smaller error bars."""
    release = released()
    true = release.transcript
    messages = true.recording.messages

    last = (attach(b"", detach(messages[-1][0])[1]), *messages[-1][1:])
    recording = replace(true.recording, messages=(*messages[:-1], last))
    honest = restated(true, recording)
    with pytest.raises(VerificationError, match="add up to another measurement"):
        verify(reread(honest))  # the sum is not the one with nine removals, either
    for removed in ([*range(9)], []):
        claimed = resealed(true, claims(removed), true.recording)
        with pytest.raises(VerificationError, match="others removed noise than the account says"):
            verify(reread(claimed))


def test_without_the_messages_it_is_the_coordinators_word() -> None:
    release = released()
    claimed = resealed(release.transcript.short(), claims([*range(9)]))
    found = verify(reread(claimed))
    assert BELIEVED in found.unproven
    assert found.release.unremoved == 1
    assert found.release.measurement_variance > release.measurement_variance


def test_a_checked_sum_is_checked_with_the_removed_noise_put_back() -> None:
    transcript = released("malicious", "sum").transcript.short()
    verify(reread(transcript))
    for change, complaint in (
        (claims([*range(9)]), "not the seeds of everybody"),
        (_without_one, "the sum is not what was committed to"),
        (_other_seeds, "the sum is not what was committed to"),
    ):
        with pytest.raises(VerificationError, match=complaint):
            verify(reread(resealed(transcript, change)))


def _without_one(account):
    said = Account.decode(account.inputs)
    each = len(said.seeds) // 10
    fewer = replace(said, removed=Bitmap.of(10, range(9)), seeds=said.seeds[: 9 * each])
    return replace(account, inputs=fewer.encode())


def _other_seeds(account):
    said = Account.decode(account.inputs)
    return replace(account, inputs=replace(said, seeds=bytes(len(said.seeds))).encode())


@pytest.mark.slow
def test_nobody_removes_who_is_not_in_the_sum() -> None:
    histograms = [Histogram.of_records(np.array([[i], [7]])) for i in range(10)]
    made = plan(study())
    outcome = run_round(enrol(made), histograms, dropout=0.1, workers=1)
    (gone,) = set(range(10)) - set(outcome.survivors)
    claimed = resealed(outcome.release.transcript, claims([gone]))
    with pytest.raises(VerificationError, match="not in the sum"):
        verify(reread(claimed))
    fewest = run_round(enrol(made), histograms, dropout=0.3, workers=1)
    claimed = resealed(fewest.release.transcript, claims([fewest.survivors[0]]))
    with pytest.raises(VerificationError, match="none was in excess"):
        verify(reread(claimed))


def test_a_directory_states_how_many_have_not_removed(tmp_path) -> None:
    release = replace(released(), unremoved=3, transcript=None)
    release.save(tmp_path / "release")
    assert Release.load(tmp_path / "release").unremoved == 3
    file = tmp_path / "release" / "release.json"
    file.write_text(file.read_text().replace('"unremoved": 3', '"unremoved": 11'))
    with pytest.raises(ReleaseError):
        Release.load(tmp_path / "release")
