"""What was checked of a plan is kept across restarts, for the same bytes and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dhdmm.client.checked import KeptChecks
from dhdmm.errors import PolicyReason, PolicyRefusal, Refused
from dhdmm.participant import policy
from dhdmm.participant.policy import Review, review_preview
from dhdmm.planning.plan import NO_ROSTER
from tests.participant.data_holder import POLICY
from tests.planning.studies import planned, study


@pytest.fixture
def kept(tmp_path: Path) -> KeptChecks:
    return KeptChecks(tmp_path / "home" / "checked")


@pytest.fixture
def looked_at(monkeypatch) -> list[bytes]:
    """The plans whose measurements were checked in full."""
    seen: list[bytes] = []

    def counted(plan, limits, roster):
        seen.append(plan.digest)
        measured(plan, limits, roster)

    measured = policy._measured
    checks = tuple(counted if check is measured else check for check in policy._CHECKS)
    monkeypatch.setattr(policy, "_CHECKS", checks)
    monkeypatch.setattr(policy, "_measured", counted)
    return seen


def preview() -> bytes:
    return replace(planned(), roster_digest=NO_ROSTER).to_bytes()


def _other_strategy() -> bytes:
    """Of all five values, where one total is asked for."""
    asked = study(workload=[{"name": "all", "total": True}])
    return replace(planned(), study=asked, roster_digest=NO_ROSTER).to_bytes()


def review(kept: KeptChecks) -> Review:
    return review_preview(preview(), POLICY, kept)


def test_a_restart_does_not_check_again(kept, looked_at):
    first, again = review(kept), review(KeptChecks(kept.folder))
    assert len(looked_at) == 1
    assert again.plan.sensitivity_squared == first.plan.sensitivity_squared


@pytest.mark.parametrize("damage", [b"", b"7\n" + b"0" * 64, b"nothing"])
def test_a_damaged_file_counts_for_nothing(kept, looked_at, damage):
    first = review(kept)
    (file,) = kept.folder.iterdir()
    file.write_bytes(damage)
    assert review(kept).plan.sensitivity_squared == first.plan.sensitivity_squared
    assert len(looked_at) == 2


def test_another_version_of_the_checks_begins_anew(kept, looked_at, monkeypatch):
    review(kept)
    monkeypatch.setattr(policy, "CHECKS", policy.CHECKS + 1)
    review(kept)
    assert len(looked_at) == 2


def test_what_is_known_of_one_strategy_says_nothing_of_another(kept, looked_at):
    review(kept)
    with pytest.raises(PolicyRefusal) as refused:
        review_preview(_other_strategy(), POLICY, kept)
    assert refused.value.reason is PolicyReason.STRATEGY
    assert len(looked_at) == 2
    assert len(list(kept.folder.iterdir())) == 1, "what was refused is not kept"


def test_whoever_leaves_the_study_out_of_the_key_believes_the_other_plan(kept, monkeypatch):
    """The same attack on a weakened key."""
    monkeypatch.setattr(policy, "_checked_key", lambda _plan: bytes(32))
    review(kept)
    review_preview(_other_strategy(), POLICY, kept)


def test_a_file_that_others_may_change_is_refused(kept):
    review(kept)
    (file,) = kept.folder.iterdir()
    file.chmod(0o666)
    with pytest.raises(Refused, match="open to other users"):
        review(kept)


def test_where_nothing_can_be_kept_the_plan_is_checked_all_the_same(tmp_path, looked_at):
    (tmp_path / "home").write_text("a file")
    kept = KeptChecks(tmp_path / "home" / "checked")
    review(kept)
    review(kept)
    assert len(looked_at) == 2
