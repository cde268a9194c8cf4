"""What `make test-fast` runs starts nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
STARTS = """
import socket, subprocess, sys

def test_a_process():
    subprocess.run([sys.executable, "--version"])

def test_a_listener_though_the_refusal_is_caught():
    try:
        socket.create_server(("127.0.0.1", 0))
    except BaseException:
        pass

def test_neither():
    pass
"""


@pytest.mark.slow
def test_a_fast_test_that_starts_something_fails(tmp_path: Path) -> None:
    (tmp_path / "test_starts.py").write_text(STARTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "tests.fast", "-rf"]
    where = ["--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run([*command, *where], cwd=PROJECT, capture_output=True, text=True)
    assert "2 failed, 1 passed" in done.stdout
    assert "starts a process: mark it" in done.stdout
    assert "listens at a socket: mark it" in done.stdout
