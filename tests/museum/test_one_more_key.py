"""A later version whose studies have one more optional key: nothing of before changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dhdmm.errors import StudyError
from dhdmm.participant.policy import PolicyReason, PolicyRefusal, review
from dhdmm.planning.draft import draft
from dhdmm.planning.plan import Plan
from dhdmm.study.spec import Study
from tests.museum import test_interrupted_rounds as rounds
from tests.museum import test_museum as museum
from tests.museum.cast import PEOPLE, REVIEWING, roster_file
from tests.museum.make import RELEASED
from tests.museum.wings import WINGS, Wing
from tests.study.wider import with_one_more_key

wings = pytest.mark.parametrize("wing", WINGS, ids=str)


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    with_one_more_key(monkeypatch)


@pytest.mark.slow
@wings
def test_studies_strategies_and_plans_are_what_they_were(wing: Wing) -> None:
    for name in wing.studies:
        museum.test_a_study_keeps_its_digest(wing, name)
        museum.test_a_strategy_is_read_and_written_as_it_was(wing, name)
        museum.test_a_plan_keeps_its_digests_and_passes_its_review(wing, name)
        museum.test_a_draft_leads_to_the_plan_that_everybody_agreed_on(wing, name)


@wings
def test_a_study_file_gives_the_digest_it_gave(wing: Wing) -> None:
    for name in wing.studies:
        found = Study.load(wing.folder / "studies" / f"{name}.yaml").digest.hex()
        assert found == wing.facts["studies"][name]["study_digest"]


@pytest.mark.slow
@wings
def test_releases_and_transcripts_verify(wing: Wing) -> None:
    for name in RELEASED:
        museum.test_a_release_gives_the_answers_it_gave(wing, name)
        museum.test_the_verify_command_passes_a_release_with_its_tables(wing, name)
        museum.test_a_full_transcript_adds_up_again(wing, name)


@pytest.mark.slow
@wings
def test_consents_journals_and_pins_hold_and_a_round_goes_on(wing: Wing, tmp_path: Path) -> None:
    museum.test_consents_still_apply_to_what_was_consented_to(wing, tmp_path / "consents")
    museum.test_journals_are_read_in_mid_round(wing, tmp_path / "journals")
    museum.test_policies_load(wing)
    (tmp_path / "round").mkdir()
    rounds.test_a_round_goes_on_where_it_stopped(wing, "malicious-inputs", tmp_path / "round")


@pytest.mark.parametrize("name", RELEASED)
def test_the_key_in_use_is_another_study_that_can_be_planned(name: str) -> None:
    path = WINGS[0].folder / "studies" / f"{name}.yaml"
    without, roster = Study.load(path), roster_file(signed=True).roster
    used = without.with_aggregation(servers=2)
    assert used.digest != without.digest
    planned = draft(used).plan(PEOPLE, roster.digest)
    policy = REVIEWING.model_copy(update={"rosters": [roster.digest.hex()]})
    assert review(planned.to_bytes(), policy, roster).plan.study.model == used.model
    agreed = policy.model_copy(update={"studies": [without.digest.hex()]})
    with pytest.raises(PolicyRefusal) as refused:
        review(planned.to_bytes(), agreed, roster)
    assert refused.value.reason is PolicyReason.WRONG_STUDY


def test_who_does_not_know_the_key_is_told_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    path = WINGS[0].folder / "studies" / "malicious.yaml"
    planned = draft(Study.load(path).with_aggregation(servers=2)).plan(PEOPLE).to_bytes()
    monkeypatch.undo()
    with pytest.raises(StudyError, match="unknown key 'servers'"):
        Plan.from_bytes(planned)
