"""What a strategy measures is checked once in a `join`, unless the coordinator swaps it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dhdmm.client.ending import Ending
from dhdmm.participant import policy
from dhdmm.participant.policy import PolicyReason, PolicyRefusal, review, review_preview
from tests.participant.data_holder import POLICY, ROSTER
from tests.participant.test_policy import with_strategy_of
from tests.planning.studies import planned
from tests.service.participant.people import coordinator, crowd, roster_file, study_of

pytestmark = pytest.mark.slow

TOTAL_ONLY = [{"name": "all", "total": True}]


def count(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each check is made from here on."""
    made = Counter[str]()

    def counting(check: Any) -> Any:
        def counted(*arguments: Any) -> None:
            made[check.__name__] += 1
            check(*arguments)

        return counted

    for name in ("_measured", "_noise"):
        check = getattr(policy, name)
        wrapped = counting(check)
        checks = tuple(wrapped if one is check else one for one in policy._CHECKS)
        monkeypatch.setattr(policy, name, wrapped)
        monkeypatch.setattr(policy, "_CHECKS", checks)
    return made


@pytest.mark.saving  # in another process, whose checks are not counted
def test_a_join_checks_once_what_the_strategy_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the noise twice: it depends on who takes part."""
    persons = crowd(tmp_path, 6)
    study = study_of(threat_model="semi-honest")
    with coordinator(tmp_path, study, roster_file(persons)) as here:
        here.consent(*persons)
        made = count(monkeypatch)
        outcomes = here.join_all(persons)
    assert {outcome.ending for outcome in outcomes} == {Ending.RELEASED}
    assert made == {"_measured": 6, "_noise": 12}


@pytest.mark.parametrize("checked", [True, False])
def test_a_strategy_swapped_after_the_preview_is_checked(
    checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weakened variant believes that the strategy is the preview's."""
    preview = review_preview(planned().to_bytes(), POLICY)
    swapped = with_strategy_of(TOTAL_ONLY)
    assert review(planned().to_bytes(), POLICY, ROSTER, preview=preview)
    if not checked:
        monkeypatch.setattr(policy, "_same_measurements", lambda *_: True)
        assert review(swapped, POLICY, ROSTER, preview=preview)
        return
    with pytest.raises(PolicyRefusal) as refused:
        review(swapped, POLICY, ROSTER, preview=preview)
    assert refused.value.reason is PolicyReason.STRATEGY
