"""Every natural number is a sum of four squares (Lagrange); found as by Rabin and Shallit (1986).

The parts are committed to and never shown. How long the search takes depends on the number.
"""

from __future__ import annotations

from math import isqrt

from dhdmm.aggregation.randomness import Randomness

_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
"""Miller and Rabin's test with these is exact below 3.3·10²⁴. A larger number that it takes for a
prime wrongly gives no square root of −1, and another is drawn."""
_SMALL = 200  # below, all are tried


def four_squares(number: int, randomness: Randomness) -> tuple[int, int, int, int]:
    """a, b, c, d with a² + b² + c² + d² = number ≥ 0."""
    if number < 0:
        raise ValueError("a negative number is no sum of squares")
    if number and number % 4 == 0:  # a² + b² is never 3 modulo 4: the search would not end
        a, b, c, d = four_squares(number // 4, randomness)
        return 2 * a, 2 * b, 2 * c, 2 * d
    if number < _SMALL:
        return _small(number)
    while True:
        a = _below(isqrt(number) + 1, randomness)
        b = _below(isqrt(number - a * a) + 1, randomness)
        rest = number - a * a - b * b
        if rest % 4 == 1 and _is_prime(rest) and (parts := _two_squares(rest)) is not None:
            return a, b, *parts


def _two_squares(prime: int) -> tuple[int, int] | None:
    """Of a prime 4j + 1: Euclid's algorithm from a square root of −1, half way (Cornacchia)."""
    for base in range(2, prime):
        root = pow(base, (prime - 1) // 4, prime)
        if root * root % prime == prime - 1:
            break
        if root * root % prime != 1:
            return None
    else:
        return None
    larger, smaller = prime, root
    while smaller * smaller > prime:
        larger, smaller = smaller, larger % smaller
    return smaller, larger % smaller


def _small(number: int) -> tuple[int, int, int, int]:
    roots = range(isqrt(number) + 1)
    return next(
        (a, b, c, isqrt(left))
        for a in roots
        for b in roots
        for c in roots
        if (left := number - a * a - b * b - c * c) >= 0 and isqrt(left) ** 2 == left
    )


def _is_prime(number: int) -> bool:
    """Miller and Rabin's test of an odd number. Primes that are too small for it are not needed."""
    if number <= _WITNESSES[-1] or any(number % p == 0 for p in _WITNESSES):
        return False
    twos = ((number - 1) & -(number - 1)).bit_length() - 1
    return all(_passes(number, witness, twos) for witness in _WITNESSES)


def _passes(number: int, witness: int, twos: int) -> bool:
    power = pow(witness, (number - 1) >> twos, number)
    if power in (1, number - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False


def _below(bound: int, randomness: Randomness) -> int:
    """Any distribution would do that covers much: the result is never shown."""
    return int.from_bytes(randomness(bound.bit_length() // 8 + 9), "little") % bound
