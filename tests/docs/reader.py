"""Somebody who follows a page from top to bottom, in a folder that has the examples.

`python -m tests.docs.reader docs/tutorial.md` rewrites the page's outputs as they are now.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

from tests.docs.pages import PROJECT, Block, blocks, lines, shape


class Reader:
    """Runs blocks one after the other; Python blocks share their names, as they would on a page."""

    def __init__(
        self, folder: Path, patient: bool = False, programs: Path = Path(sys.executable).parent
    ) -> None:
        """A patient reader also runs what takes long; `dhdmm` is the one in `programs`."""
        self.folder = folder
        self.run_marks = {"run", "run, long"} if patient else {"run"}
        self.names: dict[str, object] = {"__name__": "page"}
        self.printed = ""
        self.environment = os.environ | {
            "PATH": os.pathsep.join(
                [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
            ),
            "COLUMNS": "80",
            "DHDMM_STATE": str(folder / "state"),
        }
        shutil.copytree(
            PROJECT / "examples", folder / "examples", ignore=shutil.ignore_patterns("*.ledger*")
        )

    def follow(self, block: Block) -> None:
        if block.mark in self.run_marks:
            self.printed = self._python(block) if block.language == "python" else self._sh(block)
        elif block.mark == "output":
            assert lines(self.printed) == lines(block.text), block.place
        elif block.mark == "output, other numbers":
            assert shape(self.printed) == shape(block.text), block.place

    def _sh(self, block: Block) -> str:
        done = subprocess.run(
            ["sh", "-e", "-c", block.text],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{block.place}: {done.stderr}"
        return done.stdout

    def _python(self, block: Block) -> str:
        printed = io.StringIO()
        here = patch.dict(os.environ, {"DHDMM_STATE": self.environment["DHDMM_STATE"]})
        with here, contextlib.chdir(self.folder), contextlib.redirect_stdout(printed):
            exec(compile(block.text, block.place, "exec"), self.names)  # noqa: S102 - our own page
        return printed.getvalue()


def refresh(page: Path, folder: Path) -> None:
    """Write what is printed now under every block that has an output."""
    reader, text = Reader(folder), page.read_text(encoding="utf-8")
    written, end = "", 0
    for block in blocks(page):
        if block.mark == "run":
            reader.follow(block)
        elif block.mark.startswith("output") and reader.printed:
            printed = "\n".join(lines(reader.printed))
            written += f"{text[end : block.start]}```{block.language}\n{printed}\n```"
            end = block.end
    page.write_text(written + text[end:], encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as made:
            refresh(Path(name).resolve(), Path(made))
