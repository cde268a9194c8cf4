"""The largest variance: as small as a dense optimum has it, and its bound below that."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from dense import check_against_dense, random_workload, smallest_largest, unweighted
from workloads import ADULT_14, marginals, one_attribute, plain, rows, workload

from dhdmm.errors import StrategyError, StudyError
from dhdmm.strategy import saddle, sizes
from dhdmm.strategy.block_basis import BasisBuilder
from dhdmm.strategy.objective import Largest, PerTable, Weighted
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.query_classes import QueryClasses, by_twins
from dhdmm.strategy.symmetry import reduce_workload
from dhdmm.study.factor import Ranges
from dhdmm.study.spec import Study
from dhdmm.study.workload import Item, Workload
from tests.amounts import seeds

each, prefixes, ranges, total = Ranges.each, Ranges.prefixes, Ranges.all, Ranges.total

SMALL = {
    "prefixes": one_attribute(prefixes(32)),
    "ranges": one_attribute(ranges(24)),
    "pairs": marginals((5, 4, 3), 2),
    "weighted tables": workload(
        (6, 4), (3.0, [(1, [each(6), total(4)])]), (1.0, [(1, [each(6), each(4)])])
    ),
    "prefixes of a few": plain((9, 4), [[prefixes(9), each(4)], [each(9), total(4)]]),
    "rectangles": plain((6, 5), [[ranges(6), ranges(5)]]),
    "one row that counts twice": plain((4, 4), [[rows([[2, 1, 0, 1]]), each(4)], [each(4)] * 2]),
    "or": workload(
        (8, 3),
        (1.0, [(1, [prefixes(8), total(3)])]),
        (
            2.0,
            [
                (1, [rows([[0, 0, 0, 1, 1, 1, 1, 1]]), total(3)]),
                (-1, [each(8).take(np.array([4])), rows([[1, 0, 0]])]),
            ],
        ),
    ),
}


@pytest.mark.parametrize("name", SMALL)
def test_largest_variance_is_within_one_percent_of_the_dense_optimum(name: str) -> None:
    w = SMALL[name]
    lower, upper = smallest_largest(w.to_sparse().toarray().astype(float))
    assert upper < 1.0015 * lower, "the reference has converged"
    found = optimise(w, objective="max")
    check_against_dense(found, w)
    weights = np.repeat([t.weight for t in w.terms], [t.queries for t in w.terms])
    largest = np.sqrt((weights**2 * found.variances()).max() * found.sensitivity_squared)
    assert found.error == pytest.approx(largest)
    assert found.error**2 < 1.01 * lower**2
    assert found.lower_bound <= upper
    assert found.ratio**2 < 1.01


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(8, 25))
def test_random_workloads_reach_the_dense_optimum_and_never_bound_above_it(seed: int) -> None:
    w = random_workload(seed)
    W = w.to_sparse().toarray().astype(float)
    lower, upper = smallest_largest(W[np.any(W, axis=1)], 600)
    found = optimise(w, objective="max")
    assert found.lower_bound <= upper * (1 + 1e-9)
    assert lower <= found.error * (1 + 1e-9)
    assert found.ratio**2 < 1.01


@pytest.mark.slow
def test_pairs_of_adult_have_the_largest_variance_that_residual_planner_finds() -> None:
    """67.8; the least total squared error has one of 844."""
    w = marginals(ADULT_14, 2)
    found, usual = optimise(w, objective="max"), optimise(w)
    assert found.error**2 < 1.01 * 67.8
    assert found.ratio**2 < 1.01
    assert usual.variances().max() * usual.sensitivity_squared > 800


def test_queries_of_a_class_share_their_variance_and_classes_cover_all_queries() -> None:
    w = plain((6, 5, 3), [[prefixes(6), each(5), total(3)], [each(6), total(5), each(3)]])
    reduction = by_twins(reduce_workload(w))
    classes = QueryClasses(reduction)
    assert [classes.shape(t) for t in range(2)] == [(6, 1, 1), (6, 1, 1)]
    assert [classes.counts(t).sum() for t in range(2)] == [term.queries for term in w.terms]
    rng = np.random.default_rng(5)
    masses = [rng.uniform(0.1, 2, classes.shape(t)) for t in range(2)]
    queries = [m / classes.counts(t) for t, m in enumerate(masses)]
    spread = [
        np.broadcast_to(m, t.row_shape).ravel() for m, t in zip(queries, w.terms, strict=True)
    ]
    W = unweighted(w)
    V = W.T @ (np.concatenate(spread)[:, None] * W)
    roots = np.sqrt(np.maximum(np.linalg.eigvalsh(V), 0)).sum()
    found = 0.0
    for block in reduction.blocks():
        shares = classes.shares(block)
        H = sum(share.gram(masses[share.term]) for share in shares)
        found += block.multiplicity * np.sqrt(np.maximum(np.linalg.eigvalsh(H), 0)).sum()
    assert found == pytest.approx(roots), "blocks have V's eigenvalues, as often as V has them"
    identity = [np.zeros(classes.shape(t)) for t in range(2)]
    for block in reduction.blocks():
        for share in classes.shares(block):
            identity[share.term] += block.multiplicity * share.variances(np.eye(block.dimension))
    lengths = np.square(W).sum(axis=1)
    for t, rows_of in enumerate(np.split(lengths, [w.terms[0].queries])):
        shape = w.terms[t].row_shape
        assert np.allclose(np.broadcast_to(identity[t], shape), rows_of.reshape(shape))


def test_tables_of_different_sizes_count_alike() -> None:
    w = plain((40, 3), [[each(40), total(3)], [total(40), each(3)]])
    alike, summed = optimise(w, objective="per-table"), optimise(w)

    def by_table(strategy):
        variances = strategy.variances() * strategy.sensitivity_squared
        return [part.mean() for part in np.split(variances, [40])]

    assert alike.error == pytest.approx(np.sqrt(np.mean(by_table(alike))))
    assert alike.error < np.sqrt(np.mean(by_table(summed)))
    assert alike.ratio < 1.003
    assert alike.rmse > summed.rmse


def test_every_marginal_is_a_table_of_its_own() -> None:
    w = marginals((6, 5, 2), 2)
    assert len(w.items) == 1
    assert PerTable().weights(w) == pytest.approx([30**-0.5, 12**-0.5, 10**-0.5])


def tables(**terms) -> Workload:
    """Items by name, over the same attributes."""
    found = {name: plain(sizes, [factors]) for name, (sizes, factors) in terms.items()}
    first = next(iter(found.values()))
    return Workload(first.schema, tuple(Item(name, w.terms) for name, w in found.items()))


TARGETED = tables(
    wards=((8, 6), [each(8), total(6)]),
    ages=((8, 6), [total(8), prefixes(6)]),
    both=((8, 6), [each(8), each(6)]),
)


@pytest.mark.parametrize(
    "targets",
    [{"wards": 5, "ages": 12, "both": 20}, {"wards": 5, "ages": 1}, {"both": 3.0}],
    ids=["all tables", "two of three", "one"],
)
def test_the_largest_error_relative_to_its_target_is_as_small_as_a_dense_optimum(targets) -> None:
    """The least ρ is proportional to the square of this figure."""
    found = optimise(TARGETED, targets=targets)
    W, variances = unweighted(TARGETED), found.variances() * found.sensitivity_squared
    judged = np.concatenate([W[TARGETED.rows[name]] / t for name, t in targets.items()])
    lower, upper = smallest_largest(judged)
    assert upper < 1.0015 * lower
    missed = [np.sqrt(variances[TARGETED.rows[n]].max()) / t for n, t in targets.items()]
    assert found.error == pytest.approx(max(missed))
    assert found.error**2 < 1.01 * lower**2
    assert found.lower_bound <= upper
    assert found.ratio**2 < 1.01
    assert found.rows == np.linalg.matrix_rank(W), "tables without a target can be answered"


def test_an_optimum_for_total_error_takes_more_budget_for_the_same_targets() -> None:
    targets = {"wards": 5, "ages": 1}
    found, usual = optimise(TARGETED, targets=targets), optimise(TARGETED)
    judged = usual.over(TARGETED, found.objective)
    assert judged.error**2 > 1.2 * found.error**2


@pytest.mark.slow
@pytest.mark.parametrize("path", ["products", "components"])
def test_larger_workloads_are_reweighted_by_term(path: str, monkeypatch) -> None:
    """Better than the least total error, and the bound still holds."""
    monkeypatch.setattr(sizes, "ORBITS", 0)
    monkeypatch.setattr(sizes, "STEP", 0)
    if path == "components":
        monkeypatch.setattr(sizes, "ROWS_OVER_AXES", 0)
        monkeypatch.setattr(BasisBuilder, "is_full", lambda self, block: False)
    by = itertools.combinations(range(3), 2)
    w = plain(
        (6, 5, 3),
        [[prefixes(n) if a in c else total(n) for a, n in enumerate((6, 5, 3))] for c in by],
    )
    lower, upper = smallest_largest(w.to_sparse().toarray().astype(float))
    found = optimise(w, objective="max")
    assert lower < 1.001 * found.error
    assert found.lower_bound <= upper
    assert found.error < 1.1 * upper
    usual = optimise(w).over(w, Largest())
    assert found.error < usual.error
    few = Workload(w.schema, tuple(Item(str(i), (t,)) for i, t in enumerate(w.terms)))
    judged = optimise(few, targets={"1": 2.0})
    one = few.to_sparse().toarray()[few.rows["1"]] / 2
    assert judged.lower_bound <= smallest_largest(one.astype(float))[1]
    assert judged.ratio < 1.2


def test_what_is_no_objective_or_no_table_is_explained() -> None:
    with pytest.raises(StudyError, match="'maximum' is no objective"):
        optimise(TARGETED, objective="maximum")
    with pytest.raises(StudyError, match="there is no table 'ward'") as refused:
        optimise(TARGETED, targets={"ward": 5})
    assert refused.value.hint == "did you mean 'wards'?"
    with pytest.raises(StudyError, match="an objective of their own"):
        optimise(TARGETED, objective="max", targets={"wards": 5})


def test_too_many_queries_for_the_largest_error_are_refused_before_the_search() -> None:
    with pytest.raises(StrategyError, match="too many to look at the error of each") as refused:
        optimise(plain((128, 128), [[ranges(128), ranges(128)]]), objective="max")
    assert "per-table" in (refused.value.hint or "")


def test_given_weights_replace_those_of_the_workload() -> None:
    w = SMALL["weighted tables"]
    assert Weighted((2.0, 1.0)).weights(w) == (2.0, 1.0)
    assert optimise(w, objective=Weighted((3.0, 1.0))).to_bytes() == optimise(w).to_bytes()


def test_a_bound_for_some_terms_is_of_these_alone(monkeypatch) -> None:
    """Not of all that is measured, of which the others are a part however small."""
    monkeypatch.setattr(saddle, "UNJUDGED", 0.5)
    monkeypatch.setattr(sizes, "ORBITS", 0)
    monkeypatch.setattr(sizes, "STEP", 0)
    found = optimise(TARGETED, targets={"wards": 1.0})
    one = unweighted(TARGETED)[TARGETED.rows["wards"]]
    assert found.lower_bound <= smallest_largest(one)[1]


def test_rows_of_equal_sums_and_other_lengths_are_classes_apart() -> None:
    """Values counted one by one, and a row of their mean: the sums are 1, the lengths are not."""
    both = rows(np.vstack([4 * np.eye(4), np.ones((1, 4))]))
    reduction = by_twins(reduce_workload(plain((4,), [[both]])))
    classes = QueryClasses(reduction)
    assert len(reduction.axes[0].sizes) == 1
    assert sorted(classes.counts(0).tolist()) == [1, 4]


@pytest.mark.slow
def test_where_a_matrix_of_cells_is_too_large_terms_are_weighed(monkeypatch) -> None:
    """Marginals have few ranks and many cells: bases fit, and matrices of cells do not."""
    study = Study.from_text(
        "study: wide\nschema:\n  a: {type: integer, range: [0, 11]}\n"
        "  b: {type: integer, range: [0, 9]}\n"
        "workload:\n  - {name: a, ranges: {of: a, kind: prefix}}\n"
        "  - {name: b, ranges: {of: b, kind: prefix}}\n"
    )
    whole = optimise(study.workload, targets={"a": 1.0})
    monkeypatch.setattr("dhdmm.strategy.sizes.MATRICES", 120 * 60)
    refused = "dhdmm.strategy.saddle.SaddleProblem._optimum"
    monkeypatch.setattr(refused, lambda *_: pytest.fail("a matrix of cells was written out"))
    found = optimise(study.workload, targets={"a": 1.0})
    assert found.lower_bound <= whole.lower_bound * whole.ratio
    assert found.ratio < 1.15  # by weights of terms alone
