"""One thread for linear algebra: faster for many small products, and the same bits on any machine.

To find the libraries that have threads takes milliseconds, and a plan is judged in a few: they are
looked for once, and once more when SciPy has brought its own.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    """Within it, BLAS has one thread."""
    limited: AbstractContextManager[Any] = _found("scipy.linalg" in sys.modules).limit(
        limits=1, user_api="blas"
    )
    return limited


@cache
def _found(_with_scipy: bool) -> ThreadpoolController:
    return ThreadpoolController()
