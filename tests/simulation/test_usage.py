"""What simulating takes is told of each process by itself."""

import subprocess
import sys

import numpy as np
import pytest

from dhdmm.cohort.usage import peak_bytes

pytestmark = pytest.mark.slow

LARGE = 400 * 2**20
TELL = "from dhdmm.cohort.usage import peak_bytes; print(peak_bytes())"


def test_memory_of_a_large_parent_is_not_its_childs():
    before = peak_bytes()
    held = np.ones(LARGE, np.uint8)
    assert peak_bytes() >= max(before, LARGE)
    told = subprocess.run([sys.executable, "-c", TELL], capture_output=True, check=True, text=True)
    assert 0 < int(told.stdout) < LARGE // 4
    del held
