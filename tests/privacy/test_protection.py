"""ρ is converted between units and relations only upwards, and as far as a theorem reaches."""

from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest

import dhdmm
from dhdmm.privacy.protection import (
    NOT_RECORDED,
    REPLACE,
    ZERO_OUT,
    Bound,
    Exposure,
    Protection,
    Subject,
    bounds,
    exposure,
)
from tests.release.releases import TERMS, study_of

ITEMS = "  - {name: sexes, by: [sex]}"
RECORD = Protection("record", ZERO_OUT, "", 1, 1)
PATIENT = Protection("person", ZERO_OUT, "patient", 2, 1)
INSURED = Protection("person", REPLACE, "insured", 1, 3)
WARD = Protection("participant", ZERO_OUT, "", 50, 1)
PERSON = "unit: {person: {column: id, max_records: 2, max_participants: 3}}"


def protection(words):
    return Protection.of(dhdmm.Study.from_text(study_of(ITEMS) + TERMS.replace(*words)))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("unit: record", "unit: record"), RECORD),
        (("unit: record", PERSON), Protection("person", ZERO_OUT, "id", 2, 3)),
        (
            ("unit: record", f"{PERSON}, relation: replace"),
            Protection("person", REPLACE, "id", 2, 3),
        ),
    ],
)
def test_a_study_says_whom_it_protects(words, expected):
    assert protection(words) == expected
    assert expected.is_possible


def test_a_participant_is_as_large_as_its_record_bound():
    study = dhdmm.Study.from_text(
        study_of(ITEMS) + TERMS.replace("unit: record", "unit: participant")
    )
    largest = study.aggregation.max_records_per_participant
    assert Protection.of(study) == Protection("participant", ZERO_OUT, "", largest, 1)
    assert Protection.of(study).is_possible


def test_what_was_not_recorded_cannot_be_reserved():
    assert not NOT_RECORDED.is_possible


AMOUNTS = [
    (RECORD, Fraction(1, 10)),
    (PATIENT, Fraction(1, 5)),
    (INSURED, Fraction(1, 4)),
    (WARD, Fraction(1, 2)),
    (NOT_RECORDED, Fraction(1, 100)),
]


def test_every_promise_covers_a_record():
    total = sum((rho for _, rho in AMOUNTS), Fraction(0))
    (record, *_) = bounds(AMOUNTS)
    assert record.removed == Exposure(total, Fraction(0))
    assert record.replaced == Exposure(4 * total - 3 * Fraction(1, 4), Fraction(0))


def test_a_person_is_covered_by_her_own_and_her_participants_promises():
    """By one identifier; every other round counts k² for k records."""
    _, insured, patient, participant = bounds(AMOUNTS)
    assert patient == Bound(
        Subject("person", "patient"),
        removed=Exposure(Fraction(7, 10), Fraction(36, 100)),
        replaced=Exposure(Fraction(28, 10), Fraction(44, 100) + Fraction(1, 4)),
    )
    assert insured.removed == Exposure(Fraction(3, 4), Fraction(31, 100))
    assert participant.removed == Exposure(Fraction(1, 2), Fraction(56, 100))
    assert patient.removed.of(3) == Fraction(7, 10) + 9 * Fraction(36, 100)


def test_records_alone_bound_no_person():
    _, person, participant = bounds([(RECORD, Fraction(1, 10))])
    assert person.subject == Subject("person")
    assert person.removed == participant.removed == Exposure(Fraction(0), Fraction(1, 10))


# The conversions against what noise of that size really hides.


def largest_change(columns, records, relation):
    """max ‖change‖² over all ways to remove, or to replace, so many records."""
    choices = list(combinations_with_replacement(range(columns.shape[1]), records))
    sums = np.array([columns[:, list(choice)].sum(axis=1) for choice in choices])
    removed = (sums**2).sum(axis=1).max()
    if relation == ZERO_OUT:
        return Fraction(int(removed))
    differences = sums[:, None, :] - sums[None, :, :]
    return Fraction(int(max(removed, (differences**2).sum(axis=2).max())))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("promised", [RECORD, PATIENT, INSURED])
def test_bounds_hold_for_strategies_and_reach_some_of_them(seed, promised):
    """Noise for ρ = 1 by the planned sensitivity; then k records change the release by less than
    the bound says. For strategies with opposite columns the bound is reached."""
    columns = np.random.default_rng(seed).integers(-3, 4, (3, 4))
    if seed == 0:
        columns[:, 1] = -columns[:, 0]
        columns[:, 2:] = 0
    of_unit = promised.max_records * promised.max_participants
    planned = largest_change(columns, 1, promised.relation) * of_unit**2
    ratios = []
    for relation in (ZERO_OUT, REPLACE):
        for k in (1, 2, 3):
            true = largest_change(columns, k, relation) / planned
            ratios.append(true / exposure(Subject("person"), relation, [(promised, 1)]).of(k))
        covered = exposure(promised.subject, relation, [(promised, Fraction(1))]).of(of_unit)
        assert largest_change(columns, of_unit, relation) / planned <= covered
    assert max(ratios) <= 1
    assert max(ratios) == 1 or seed or promised != RECORD
