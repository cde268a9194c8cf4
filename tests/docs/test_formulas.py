"""Formulas of the documentation, computed as they are written there, beside the code or the truth.

Names are those of the pages. The other formulas are named by the pages with the tests that check
them: tests/privacy for the accounting, tests/secagg for the wire format.
"""

from __future__ import annotations

import hashlib
import math
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dhdmm.aggregation.masks import add_masks
from dhdmm.aggregation.method import ThreatModel
from dhdmm.aggregation.modulus import Modulus
from dhdmm.aggregation.roster import Roster
from dhdmm.secagg.channels import keys_statement
from dhdmm.secagg.round import RoundParameters, session_under_root
from dhdmm.strategy.optimise import optimise
from dhdmm.study.workload import Workload
from tests.vectors.make_secagg_primitives import mask

Floats = NDArray[np.float64]
SEEDS = range(5)


def digest(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


# ---- docs/noise.md ------------------------------------------------------------------------------


@pytest.mark.parametrize(("variance", "B"), [(30.0, 1), (70.0**2, 2), (300.0**2, 8)])
def test_a_proposal_passes_with_the_probability_of_its_value(variance: float, B: int) -> None:
    w = [math.exp(-((q * B) ** 2) / (2 * variance)) for q in range(2000)]
    W = sum(w)
    for q in range(60):
        for r in range(B):
            t = r * (2 * q * B + r) / (2 * variance)
            passes = w[q] / W / B / 2 * math.exp(-t)
            x = q * B + r
            assert passes == pytest.approx(math.exp(-(x**2) / (2 * variance)) / (2 * B * W))


# ---- docs/protocol.md ---------------------------------------------------------------------------


def test_sessions_are_hashes_of_what_they_name() -> None:
    roster = Roster(("north", "süd", "river"), tuple(bytes([i]) * 32 for i in (1, 2, 3)))
    members = [
        len(name.encode()).to_bytes(4, "little") + name.encode() + key
        for name, key in zip(roster.names, roster.identities, strict=True)
    ]
    assert roster.flat_digest == digest(b"dhdmm roster 1", (3).to_bytes(4, "little"), *members)
    leaves = [
        digest(
            b"\x00", (3).to_bytes(4, "big"), i.to_bytes(4, "big"), b"dhdmm roster 2",
            len(name.encode()).to_bytes(4, "big"), name.encode(), key,
        )
        for i, (name, key) in enumerate(zip(roster.names, roster.identities, strict=True))
    ]  # fmt: skip
    assert roster.digest == digest(b"\x01", digest(b"\x01", *leaves[:2]), leaves[2])
    for byte, threat_model in (
        (b"\x00", ThreatModel.SEMI_HONEST),
        (b"\x01", ThreatModel.MALICIOUS),
    ):
        agreed = RoundParameters(
            plan_digest=b"p" * 32,
            round_id=b"r" * 16,
            threat_model=threat_model,
            roster_digest=roster.digest,
            participants=3,
            degree=2,
            threshold=2,
            minimum_survivors=3,
            modulus=Modulus(2**16),
            length=1,
        )
        session = digest(b"dhdmm session 1", b"p" * 32, b"r" * 16, byte, roster.digest)
        assert agreed.session == session
        root = b"m" * 32
        assert session_under_root(session, root) == digest(
            b"dhdmm session under root 1", session, root
        )


def test_a_keys_statement_names_session_position_and_keys() -> None:
    session, first, second = b"s" * 32, b"1" * 32, b"2" * 32
    said = b"dhdmm1 keys".ljust(16, b"\0") + session + (7).to_bytes(4, "big") + first + second
    assert keys_statement(session, 7, first, second) == said


@pytest.mark.parametrize("m", [2**16, 2**40])
def test_masks_cancel_in_the_sum_and_hide_what_is_added(m: int) -> None:
    """F is the plain implementation's; the code adds the same masks."""
    rng = np.random.default_rng(m)
    n, length = 4, 5
    x = rng.integers(0, 100, (n, length))
    b = [rng.bytes(32) for _ in range(n)]
    s = {pair: rng.bytes(32) for pair in combinations(range(n), 2)}

    def F(seed: bytes) -> NDArray[np.int64]:
        return np.array(mask(seed, m, length), np.int64)

    total = np.zeros(length, np.int64)
    for i in range(n):
        later = sum((F(s[i, j]) for j in range(i + 1, n)), np.zeros(length, np.int64))
        earlier = sum((F(s[j, i]) for j in range(i)), np.zeros(length, np.int64))
        y = (x[i] + F(b[i]) + later - earlier) % m
        modulus = Modulus(m)
        ours = x[i].astype(modulus.dtype)
        seeds = [(seed, 1 if pair[0] == i else -1) for pair, seed in s.items() if i in pair]
        add_masks(modulus, ours, [(b[i], 1), *seeds])
        assert np.array_equal(modulus.reduce(ours), y)
        total += y - F(b[i])
    assert np.array_equal(total % m, x.sum(axis=0))


# ---- docs/strategy.md ---------------------------------------------------------------------------


def workload(seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2, (6, 4)) + np.eye(6, 4)


def error_of(W: Floats, A: Floats) -> float:
    V, X = W.T @ W, A.T @ A
    return float(np.diag(X).max() * np.trace(V @ np.linalg.pinv(X)))


@pytest.mark.parametrize("seed", SEEDS)
def test_error_of_a_strategy_is_that_of_least_squares(seed: int) -> None:
    W = workload(seed)
    strategy = optimise(Workload.from_kronecker([(1.0, [W.astype(int)])]))
    A = strategy.to_sparse().toarray()
    variance = np.square(np.linalg.norm(A, axis=0)).max()
    direct = variance * np.square(W @ np.linalg.pinv(A)).sum()
    assert error_of(W, A) == pytest.approx(direct)
    assert error_of(W, 3 * A) == pytest.approx(direct)
    assert strategy.rmse == pytest.approx(math.sqrt(direct / len(W)))


@pytest.mark.parametrize("kind", [np.tri(9), np.array([np.arange(9) == u for u in range(9)])])
def test_the_best_strategy_is_an_integral_of_inverses(kind: Floats) -> None:
    V = kind.T @ kind
    d = np.random.default_rng(5).dirichlet(np.full(9, 3.0))
    D, tau = np.diag(d), np.exp(np.arange(-30, 30, 0.3))
    H_values, U = np.linalg.eigh(np.sqrt(np.outer(d, d)) * V)
    X = (U * np.sqrt(H_values)) @ U.T / np.sqrt(np.outer(d, d))
    V_inverse, D_inverse = np.linalg.inv(V), np.linalg.inv(D)
    direct = sum(t * np.linalg.inv(V_inverse + t**2 * D) for t in tau) * 0.3 * 2 / math.pi
    inverse = sum(t * np.linalg.inv(D_inverse + t**2 * V) for t in tau) * 0.3 * 2 / math.pi
    assert np.allclose(direct, X, rtol=1e-6)
    assert np.allclose(inverse, np.linalg.inv(X), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_distribution_bounds_the_error_of_every_strategy(seed: int) -> None:
    W, rng = workload(seed), np.random.default_rng(seed)
    for _ in range(20):
        d, A = rng.dirichlet(np.ones(4)), rng.normal(size=(5, 4))
        X = A.T @ A
        nuclear = np.linalg.norm(W * np.sqrt(d), "nuc")
        product = np.linalg.norm((W @ np.linalg.pinv(A)) @ (A * np.sqrt(d)), "nuc")
        between = math.sqrt(np.trace(W.T @ W @ np.linalg.pinv(X)) * (d @ np.diag(X)))
        assert nuclear == pytest.approx(product)
        assert nuclear <= between * (1 + 1e-9)
        assert between <= math.sqrt(error_of(W, A)) * (1 + 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_pair_of_distributions_bounds_the_largest_variance(seed: int) -> None:
    W, rng = workload(seed), np.random.default_rng(seed)
    for _ in range(20):
        d, p = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(len(W)))
        A = rng.normal(size=(5, 4))
        X = A.T @ A
        bound = np.linalg.norm(np.sqrt(p)[:, None] * W * np.sqrt(d), "nuc") ** 2
        variances = np.diag(W @ np.linalg.pinv(X) @ W.T)
        assert bound <= np.diag(X).max() * variances.max() * (1 + 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_unmixed_gram_lies_below_the_gram(seed: int) -> None:
    F = np.random.default_rng(seed).normal(size=(9, 7))
    gram = F.T @ F
    A, E, C = gram[:3, :3], gram[:3, 3:], gram[3:, 3:]
    U = np.linalg.svd(E)[0]
    A_E = U @ np.linalg.inv(U.T @ np.linalg.inv(A) @ U) @ U.T
    S = E.T @ np.linalg.inv(A) @ E
    least = np.linalg.eigvals(np.linalg.solve(C, S)).real.max()
    for theta in (least, (1 + least) / 2, 1.0):
        below = np.block([[A - theta * A_E, 0 * E], [0 * E.T, C - S / theta]])
        assert np.linalg.eigvalsh(gram - below).min() >= -1e-9
        assert np.linalg.eigvalsh(below).min() >= -1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_rounding_the_triangle_keeps_the_row_space(seed: int) -> None:
    """However coarse γ is; rounding the product itself would tilt the space."""
    rng = np.random.default_rng(seed)
    B = rng.integers(0, 2, (3, 6)) + np.eye(3, 6, dtype=int)
    E = np.array([[1, -1, 0], [1, 0, -1]])
    T = np.triu(rng.normal(size=(3, 3)))
    rounded = np.round(1.5 * T)
    np.fill_diagonal(rounded, np.where(np.diag(rounded) == 0, 1, np.diag(rounded)))
    A, space = np.kron(rounded @ B, E), np.kron(B, E)
    assert np.linalg.matrix_rank(A) == np.linalg.matrix_rank(np.vstack([A, space])) == len(space)
