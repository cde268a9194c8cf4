"""A new reader: a fresh clone, `make install`, then every block of README in what that made."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import PROJECT, blocks


@pytest.mark.soak
def test_every_block_of_the_readme_runs_in_a_fresh_clone_after_make_install(tmp_path: Path) -> None:
    clone = tmp_path / "dhdmm"
    subprocess.run(["git", "clone", "--quiet", str(PROJECT), str(clone)], check=True)
    subprocess.run(["make", "install"], cwd=clone, check=True, capture_output=True)
    system = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin"))
    environment = {
        "PATH": f"{clone / '.venv' / 'bin'}{os.pathsep}{system}",
        "HOME": str(tmp_path),
        "COLUMNS": "80",
    }
    followed = 0
    for block in blocks(PROJECT / "README.md"):
        if block.mark == "run":
            program = ["python", "-c"] if block.language == "python" else ["sh", "-e", "-c"]
            done = subprocess.run(
                [*program, block.text], cwd=clone, env=environment, capture_output=True, text=True
            )
            assert done.returncode == 0, f"{block.place}: {done.stderr}"
            followed += 1
    assert followed >= 3
