"""Degree, threshold and margin of the aggregation graph: E1–E7 of docs/parameters.md.

Letters: n participants; c of them corrupt; s the fewest survivors accepted; k the degree; t the
threshold; m = ⌊(n−c)/2⌋, the largest size that two disjoint sets of honest participants can both
have; X and D the numbers of corrupt and of dropped neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from dhdmm.aggregation.method import ParameterError, ThreatModel
from dhdmm.aggregation.turnout import counts
from dhdmm.secagg.conditions import (
    CORRECTNESS_BITS,
    SECURITY_BITS,
    e2_holds,
    e5b_holds,
    e6,
    first_broken,
    margin_needed,
    rare,
)
from dhdmm.secagg.tails import is_below

MODELS = (ThreatModel.SEMI_HONEST, ThreatModel.MALICIOUS)
"""Those in which participants mask with neighbours in a graph."""
LARGEST_DEGREE = 4096  # beyond it sharing among neighbours costs more than a round is worth
SMALL_ROUND = 200  # up to here a malicious round takes the complete graph: it needs no margin


FIELDS = ("degree", "threshold", "minimum_survivors", "corrupt", "margin")


@dataclass(frozen=True, slots=True)
class GraphParameters:
    """What participants agree on before a round; `check` lets each verify it for itself."""

    degree: int
    threshold: int
    minimum_survivors: int
    corrupt: int
    margin: int
    complete: bool

    @property
    def honest_floor(self) -> int:
        """h: the honest noise shares in every sum that can be unmasked."""
        return self.minimum_survivors - self.corrupt - self.margin

    def fields(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in FIELDS}


def choose(
    participants: int,
    corrupt_fraction: Fraction | float,
    max_dropout: Fraction | float,
    threat_model: ThreatModel,
) -> GraphParameters:
    """The smallest degree that has a threshold, with the smallest such threshold.

    >>> choose(1000, 0.05, 0.05, ThreatModel.MALICIOUS).degree
    61
    """
    chosen = _graph(participants, corrupt_fraction, max_dropout, threat_model)
    if chosen is None:
        raise ParameterError(
            f"no graph serves {participants} participants "
            f"with corrupt fraction {float(corrupt_fraction):g} and dropout {float(max_dropout):g} "
            f"in the {threat_model} model; "
            + _nearest(participants, corrupt_fraction, max_dropout, threat_model)
        )
    return chosen


def check(
    parameters: GraphParameters,
    participants: int,
    corrupt_fraction: Fraction | float,
    max_dropout: Fraction | float,
    threat_model: ThreatModel,
) -> None:
    """Raise unless these parameters, from whoever proposed them, satisfy E1–E7.

    Any graph that is safe passes, not only the one `choose` would pick.
    """
    n, k, t = participants, parameters.degree, parameters.threshold
    c, s = counts(participants, corrupt_fraction, max_dropout)
    if (parameters.corrupt, parameters.minimum_survivors) != (c, s):
        raise ParameterError(
            f"{parameters.corrupt} corrupt and {parameters.minimum_survivors} survivors stated "
            f"where {c} and {s} follow from the fractions"
        )
    if not 1 <= t <= k <= n - 1 or parameters.complete != (k == n - 1):
        raise ParameterError(f"degree {k}, threshold {t} describe no graph on {n} participants")
    if not parameters.complete and threat_model is ThreatModel.SEMI_HONEST and k % 2:
        raise ParameterError(f"a Harary graph needs an even degree, not {k}")
    broken = first_broken(n, c, s, k, t, threat_model)
    if broken is not None:
        raise ParameterError(f"degree {k}, threshold {t} violate {broken} for {n} participants")
    needed = margin_needed(n, c, s, k, t, threat_model)
    if parameters.margin < needed:
        raise ParameterError(f"margin {parameters.margin} is below the {needed} that E7 asks for")
    if parameters.honest_floor < 1:
        raise ParameterError("no honest noise is certain to remain")


# Search.


def _graph(
    n: int, gamma: Fraction | float, delta: Fraction | float, threat_model: ThreatModel
) -> GraphParameters | None:
    c, s = counts(n, gamma, delta)
    t = _lowest_threshold(n - 1, c + 1, threat_model)
    complete = None
    if n - 1 <= LARGEST_DEGREE and t <= s - 1:
        complete = GraphParameters(n - 1, t, s, c, 0, complete=True)
    if complete and n <= SMALL_ROUND and threat_model is ThreatModel.MALICIOUS:
        return complete
    sparse = _search(n, c, s, threat_model)
    if sparse is not None:
        margin = margin_needed(n, c, s, *sparse, threat_model)
        if s - c - margin >= 1:
            return GraphParameters(*sparse, s, c, margin, complete=False)
    return complete


def _search(n: int, c: int, s: int, threat_model: ThreatModel) -> tuple[int, int] | None:
    """(k, t) of the sparsest graph; None where the complete one, which needs no margin, is better.

    In the malicious model a participant meets its k out-neighbours and as many in-neighbours, so
    from 2k = n − 1 on the complete graph costs no more.
    """
    malicious = threat_model is ThreatModel.MALICIOUS
    for k, low, high in _windows(n, c, s, threat_model):
        if not (is_below(e6(n, k), CORRECTNESS_BITS) if malicious else e2_holds(n, c, s, k)):
            continue
        if not malicious:
            return k, low
        if 2 * k >= n - 1:
            return None
        if e5b_holds(n, c, k, high):
            while high > low and e5b_holds(n, c, k, high - 1):
                high -= 1
            return k, high
    return None


def _windows(n: int, c: int, s: int, threat_model: ThreatModel) -> Iterator[tuple[int, int, int]]:
    """Every degree whose thresholds low…high satisfy E3 with E1 (semi-honest) or E4 (malicious).

    One more neighbour raises a quantile of X or D by 0 or 1. So low never falls and high rises by
    at most 1: while low exceeds high by some gap, the next `gap` − 1 degrees are hopeless too.
    """
    semi_honest = threat_model is ThreatModel.SEMI_HONEST
    k, corrupt, dropped = 0, 1, 1  # of no neighbours none is corrupt, none dropped
    step = 1
    while (k := k + step) <= min(n - 2, LARGEST_DEGREE):
        bits = SECURITY_BITS + (1 if semi_honest else 2)
        corrupt = _quantile(n, c, k, corrupt, corrupt + step, bits)
        dropped = _quantile(n, n - s, k, dropped, dropped + step, CORRECTNESS_BITS)
        low, high = _lowest_threshold(k, corrupt, threat_model), k - dropped + 1
        step = max(1, low - high)
        if low <= high and not (semi_honest and k % 2):
            yield k, low, high


def _quantile(n: int, marked: int, k: int, low: int, high: int, bits: int) -> int:
    """Smallest x in low…high with n·Pr[Hyp(n−1, marked, k) ≥ x] ≤ 2^−bits; high is one such."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if rare(n, marked, k, middle, bits) else (middle + 1, high)
    return low


def _lowest_threshold(k: int, x: int, threat_model: ThreatModel) -> int:
    """Smallest t with t ≥ x (E1), or 2t − k ≥ x (E4), where X ≥ x is too rare to happen."""
    return x if threat_model is ThreatModel.SEMI_HONEST else -((-k - x) // 2)


def _nearest(
    n: int, gamma: Fraction | float, delta: Fraction | float, threat_model: ThreatModel
) -> str:
    def largest(feasible: Callable[[Fraction], bool]) -> Fraction | None:
        low, high = -1, 100  # per cent: the last that works, the first that does not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if feasible(Fraction(middle, 100)) else (low, middle)
        return None if low < 0 else Fraction(low, 100)

    dropout = largest(lambda d: _graph(n, gamma, d, threat_model) is not None)
    corrupt = largest(lambda g: _graph(n, g, delta, threat_model) is not None)
    options = [
        f"{name} up to {float(value):g}"
        for name, value in (("dropout", dropout), ("corrupt fraction", corrupt))
        if value is not None
    ]
    return "feasible with " + " or ".join(options) if options else "feasible with less of both"
