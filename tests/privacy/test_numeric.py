"""The numerical analysis of our own, against mpmath and against functions whose answer is known."""

from __future__ import annotations

import math

import mpmath
import pytest

from dhdmm.privacy.numeric import erfcx, minimum, sign_change


@pytest.mark.parametrize("x", [0.0, 1e-9, 0.3, 1.0, 4.7, 9.9999, 10.0, 10.0001, 26.5, 69.0, 1e5])
def test_erfcx_is_exact_to_the_last_digits(x: float) -> None:
    with mpmath.workdps(60):
        exact = mpmath.exp(mpmath.mpf(x) ** 2) * mpmath.erfc(x) if x < 100 else None
        if exact is None:  # beyond mpmath's reach: three terms of the series are exact to 1e-30
            u = 1 / (2 * mpmath.mpf(x) ** 2)
            exact = (1 - u * (1 - 3 * u)) / (x * mpmath.sqrt(mpmath.pi))
        assert abs(erfcx(x) / exact - 1) < 1e-15


@pytest.mark.parametrize(
    ("function", "low", "high", "root"),
    [
        (lambda x: x**3 - 2, 0.0, 2.0, 2 ** (1 / 3)),
        (lambda x: 1e-6 - math.exp(-x), 0.0, 1000.0, math.log(1e6)),
        (lambda x: 1e-6 - math.exp(-x), -700.0, 20.0, math.log(1e6)),
        (lambda x: 5.0 if x < 0.1 else -x, 0.0, 64.0, 0.1),  # a plateau, and a jump
        (lambda x: x, -1.0, 3.0, 0.0),
    ],
)
def test_a_sign_change_is_found_from_the_side_of_the_upper_end(function, low, high, root) -> None:
    asked: list[float] = []

    def counted(x: float) -> float:
        asked.append(x)
        return function(x)

    found = sign_change(counted, low, high)
    assert abs(found - root) <= 2e-13 * abs(root) + 2e-15
    assert (function(found) > 0) == (function(high) > 0)
    assert len(asked) < 160  # three steps at most for a binary digit


def test_the_minimum_of_a_valley_is_found_inside_and_at_an_end() -> None:
    assert minimum(lambda x: math.cosh(x - 0.7), -20.0, 9.0) == pytest.approx(1.0, abs=1e-12)
    assert minimum(lambda x: x, 2.0, 5.0) == pytest.approx(2.0, abs=1e-6)
