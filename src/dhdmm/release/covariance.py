"""Exact covariances of the answers of a release.

Answers are W A'⁺ M̂ with independent noise of variance s in every measurement, so two queries f and
g have the covariance s · f (A'ᵀA')⁺ gᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dhdmm.errors import DhdmmError
from dhdmm.release.intervals import Floats
from dhdmm.study.workload import Item, Product, Term
from dhdmm.threads import one_blas_thread

if TYPE_CHECKING:
    from dhdmm.release.release import Release

LARGEST_MATRIX = 25_000_000
"""Entries of a covariance matrix."""


def combined(terms: Sequence[Term], coefficients: Sequence[Fraction]) -> Term:
    """Row by row Σ coefficient · term, of terms with the same rows."""
    products = tuple(
        Product(product.coefficient * coefficient, product.factors)
        for term, coefficient in zip(terms, coefficients, strict=True)
        for product in term.products
    )
    return replace(terms[0], products=products)


def variances(release: Release, term: Term) -> Floats:
    """Of the answers of a term; what rounding leaves below 0 is 0."""
    return np.maximum(row_covariances(release, term, term), 0)


def row_covariances(release: Release, left: Term, right: Term) -> Floats:
    """Row by row, of the answers of two terms with as many rows."""
    with one_blas_thread():  # many small products
        unit = release.plan.strategy.reconstruction.covariances(left, right)
    return np.asarray(release.measurement_variance * unit)


def covariance(release: Release, left: Item, right: Item) -> Floats:
    """(queries of left, queries of right): the covariance of every pair of answers."""
    entries = left.queries * right.queries
    if entries > LARGEST_MATRIX:
        raise DhdmmError(
            f"a covariance matrix of {left.queries:,} × {right.queries:,} answers is too large",
            hint=f"up to {LARGEST_MATRIX:,} entries are written out; ask for fewer answers",
        )
    return np.block([[_of_terms(release, a, b) for b in right.terms] for a in left.terms])


def _of_terms(release: Release, left: Term, right: Term) -> Floats:
    """One term with a row for every pair of rows, one attribute after another."""
    pairs = [(a, b) for a, b in zip(left.row_shape, right.row_shape, strict=True)]
    first = taken(left, [np.repeat(np.arange(a), b) for a, b in pairs])
    second = taken(right, [np.tile(np.arange(b), a) for a, b in pairs])
    found = row_covariances(release, first, second).reshape([n for pair in pairs for n in pair])
    axes = range(0, 2 * len(pairs), 2)
    return found.transpose(*axes, *(a + 1 for a in axes)).reshape(left.queries, right.queries)


def taken(term: Term, rows: Sequence[np.ndarray]) -> Term:
    """The term with these rows of every factor."""
    products = tuple(
        replace(p, factors=tuple(f.take(r) for f, r in zip(p.factors, rows, strict=True)))
        for p in term.products
    )
    return replace(term, products=products)
