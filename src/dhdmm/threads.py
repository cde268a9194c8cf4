"""One thread for linear algebra, where products are small and many: more would only wait."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController

SAID = "OPENBLAS_NUM_THREADS"
"""The command `dhdmm` says it before NumPy is loaded."""


def one_blas_thread() -> AbstractContextManager[Any]:
    """For as long as the context lasts; where the environment says so, it is so anyway.

    To find the libraries of a process takes longer than most of what is computed here, so they are
    looked for once, and again when SciPy has brought its own.
    """
    if os.environ.get(SAID) == "1":
        return nullcontext()
    limit: AbstractContextManager[Any] = _libraries("scipy.linalg" in sys.modules).limit(
        limits=1, user_api="blas"
    )
    return limit


@lru_cache(maxsize=2)
def _libraries(with_scipy: bool) -> ThreadpoolController:
    return ThreadpoolController()
