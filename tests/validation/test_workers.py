"""Many proofs are verified in other processes."""

from __future__ import annotations

import pytest

from dhdmm.validated import workers
from tests.secagg.seeded import seeded
from tests.validation.claims import STATEMENT, honest


@pytest.mark.slow
def test_many_claims_are_shared_among_processes_and_the_false_ones_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    claims = [honest(b"seat %d" % i, seed=i) for i in range(20)]
    claims[3] = claims[3]._replace(context=b"seat 4")
    claims[18] = claims[18]._replace(proof=b"")
    started = len(used(monkeypatch))
    found = workers.faults_of(STATEMENT, seeded(0), claims)
    assert sorted(found) == [3, 18]
    assert len(used(monkeypatch)) > started


def used(monkeypatch: pytest.MonkeyPatch) -> dict[int, object]:
    """The processes that there are."""
    return dict(workers._pool()._processes)


def test_a_few_are_verified_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_pool", None)
    claims = [honest(), honest()._replace(context=b"")]
    assert sorted(workers.faults_of(STATEMENT, seeded(0), claims)) == [1]


def test_without_a_statement_commitments_are_read_and_proofs_refused() -> None:
    claim = honest()
    bare, bad = claim._replace(proof=b""), claim._replace(proof=b"", commitment=bytes(48))
    found = workers.faults_of(None, seeded(0), [bare, claim, bad])
    assert found == {1: "a proof of nothing that is to be proved", 2: "not a point of the group"}
