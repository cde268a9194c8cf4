"""The long rounds of the examples, shorter: tests/docs runs what the READMEs say word by word."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dhdmm.participant.data_sets import UNNAMED
from dhdmm.release.release import Release
from tests.cli.commands import Shell

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
ROUNDS = {"phones": 475, "census-sf1": 95}
"""Examples with data of their own, and how many stay to the end of the round."""
SHORTER = {
    "phones": [("make_data.py", "make_data.py 500"), ("--participants 1000", "--participants 500")],
    "census-sf1": [("--participants 1000", "--participants 100")],
}
"""The READMEs' own words for a shorter round: a thousand participants compute for 40 s in all."""


def commands(example: str) -> list[list[str]]:
    """The README's long block."""
    text = (EXAMPLES / example / "README.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"<!-- run, long -->\n```sh\n(.*?)```", text, re.DOTALL)
    for said, shorter in SHORTER[example]:
        assert said in lines
        lines = lines.replace(said, shorter)
    return [shlex.split(line) for line in lines.splitlines()]


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    return Shell(tmp_path, monkeypatch, capsys)


def follow(shell: Shell, example: str) -> None:
    """Do as the README says, in a copy of the checkout's examples."""
    shutil.copytree(EXAMPLES / example, shell.folder / "examples" / example)
    for program, *arguments in commands(example):
        assert program in ("dhdmm", "python")
        if program == "python":
            subprocess.run([sys.executable, *arguments], cwd=shell.folder, check=True)
        else:
            said = shell(*arguments)
            assert (said.code, said.err) == (0, f"{UNNAMED}\n" if arguments[0] == "run" else "")
            assert max(map(len, said.out.splitlines())) <= 80


@pytest.mark.parametrize("example", ROUNDS)
def test_example_ends_in_a_release(shell: Shell, example: str) -> None:
    follow(shell, example)
    (directory,) = {path.parent for path in shell.folder.glob("*/release.json")}
    assert Release.load(directory).survivors == ROUNDS[example]
