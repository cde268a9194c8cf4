"""Made-up records: their tables agree with the release, and the report says how well.

Everything is seeded, so nothing here fails by chance.
"""

from __future__ import annotations

import numpy as np
import pytest

from dhdmm.errors import DhdmmError
from dhdmm.participant.tabulate import tabulate
from dhdmm.release import records as making
from dhdmm.release.model import fit, fitted_terms, start_of
from tests.release.releases import records, release_of

STUDY = """
study: pairs
schema:
  a: {type: category, values: [x, y, z]}
  b: {type: integer, range: [0, 9]}
  c: {type: integer, range: [0, 19]}
  colour: {type: category, values: [red, green]}
workload:
  - {name: ab, by: [a, b]}
  - {name: bc, by: [b, c]}
  - {name: low c, by: [a], where: "c < 5 OR b = 0"}
"""


@pytest.fixture(scope="module")
def release():
    return release_of(STUDY)


@pytest.fixture(scope="module")
def made(release):
    return release.synthesize()


def test_there_are_as_many_records_as_were_counted(release, made):
    assert len(made) == round(release["ab"].values.sum())


def test_records_are_a_table_that_the_study_counts(release, made):
    counted = tabulate(made.to_arrow(), release.plan.study.schema)
    measured = release.plan.strategy.measure(counted.histogram)
    answers = release.plan.strategy.reconstruct(measured)
    distance = (answers - release.answers) / release.standard_errors
    for report in made.quality:
        rows = release.rows(report.table)
        assert report.distance == pytest.approx(np.sqrt(np.mean(distance[rows] ** 2)), rel=0.01)
        assert report.inside == pytest.approx(np.mean(np.abs(distance[rows]) <= 1.96), abs=0.01)
        assert report.answers == len(distance[rows])


def test_tables_agree_as_well_as_error_bars_allow(made):
    for report in made.quality:
        assert report.distance < 1.5
        assert report.inside > 0.85


@pytest.mark.slow
def test_exchanging_records_brings_their_tables_nearer(release):
    fitted = fitted_terms(release)
    raw = [release.estimate.term(one.term) for one in fitted]
    mixture = fit(fitted, raw, start_of(release, release.estimate))

    def distance(codes):
        parts = [
            (making.RecordTable(one.queries, mixture).count(codes) - mixture.count(one.queries))
            * np.sqrt(one.precision)
            for one in fitted
        ]
        return np.sqrt(np.mean(np.concatenate([part.ravel() for part in parts]) ** 2))

    drawn = making.draw(mixture, 3000, np.random.default_rng(1))
    exchanged, _ = making.synthesize(mixture, fitted, 3000, np.random.default_rng(1))
    assert distance(exchanged) < 0.6 * distance(drawn)


def test_attributes_that_nobody_asked_about_are_named_and_even(made):
    assert made.unasked == ("colour",)
    shares = np.bincount(made.codes[:, 3], minlength=2) / len(made)
    assert shares == pytest.approx([0.5, 0.5], abs=0.05)


@pytest.mark.slow
def test_another_number_and_another_seed(release):
    few, others = release.synthesize(50), release.synthesize(50, seed=2)
    assert len(few) == len(others) == 50
    assert not np.array_equal(few.codes, others.codes)
    assert np.array_equal(few.codes, release.synthesize(50).codes)
    with pytest.raises(DhdmmError, match="between 1 and"):
        release.synthesize(0)


def test_terms_of_many_attributes_are_looked_up_record_by_record(release, monkeypatch):
    """The same counts and the same excess, whether cells are written out or not."""
    mixture = fit(
        fitted := fitted_terms(release),
        [release.estimate.term(one.term) for one in fitted],
        start_of(release, release.estimate),
    )
    codes = making.draw(mixture, 500, np.random.default_rng(1))
    tables = [making.RecordTable(one.queries, mixture) for one in fitted]
    slopes = [np.random.default_rng(2).normal(size=one.queries.shape) for one in fitted]
    both = []
    for largest in (making.LARGEST_TABLE, 1):
        monkeypatch.setattr(making, "LARGEST_TABLE", largest)
        counts = [table.count(codes).ravel() for table in tables]
        excess = [t.excess(slope, codes) for t, slope in zip(tables, slopes, strict=True)]
        both.append(np.concatenate([*counts, *excess]))
    assert both[0] == pytest.approx(both[1], abs=1e-3)


def test_counts_of_records_are_those_of_the_study(release):
    """A record counts in a query exactly when the query's own row holds its cell."""
    histogram = records(release.plan, np.random.default_rng(5), 200)
    axes = release.plan.strategy.axes
    merged = np.stack([axis.merged[histogram.codes[:, a]] for a, axis in enumerate(axes)], axis=1)
    fitted = fitted_terms(release)
    mixture = fit(
        fitted,
        [release.estimate.term(one.term) for one in fitted],
        start_of(release, release.estimate),
    )
    counts = [making.RecordTable(one.queries, mixture).count(merged).ravel() for one in fitted]
    exact = release.plan.strategy.reconstruct(release.plan.strategy.measure(histogram))
    assert np.concatenate(counts) == pytest.approx(exact, abs=1e-3)
