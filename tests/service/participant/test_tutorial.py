"""docs/how-to/network.md, followed word by word: a shell for every terminal, all at once."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.docs.pages import PROJECT, Block, blocks, shape

pytestmark = pytest.mark.slow

PAGE = PROJECT / "docs" / "how-to" / "network.md"
TERMINAL = re.compile(r"[Ii]n the terminal of (?:the )?(\w+):\s*<!--[^>]*-->\s*\Z")
LASTING = ("dhdmm serve", "dhdmm join")
PATIENCE = 240.0


class Terminal:
    """A shell that is typed into; everything it shows is in a file."""

    def __init__(self, name: str, folder: Path, environment: dict[str, str]) -> None:
        self._screen = folder / f"{name}.screen"
        with self._screen.open("wb") as screen:
            self._shell = subprocess.Popen(
                ["sh"], stdin=subprocess.PIPE, stdout=screen, stderr=subprocess.DEVNULL,
                cwd=folder, env=environment, start_new_session=True,
            )  # fmt: skip
        self._typed, self.shown_before = 0, 0

    def type(self, text: str) -> None:
        self.shown_before = len(self.screen)
        self._shell.stdin.write(text.encode())
        self._shell.stdin.flush()

    @property
    def screen(self) -> str:
        return self._screen.read_text(errors="replace")

    def await_text(self, wanted: str) -> None:
        end = time.monotonic() + PATIENCE
        while wanted not in self.screen[self.shown_before :]:
            assert time.monotonic() < end, self.screen
            assert self._shell.poll() is None, self.screen
            time.sleep(0.02)

    def finish(self) -> str:
        """Wait for what was typed to end well; what it showed."""
        self._typed += 1
        mark = f"[{self._typed}]"
        before = self.shown_before
        self.type(f"echo '{mark}' $?\n")
        self.shown_before = before
        self.await_text(f"{mark} ")
        shown, _, code = self.screen[before:].rpartition(f"{mark} ")
        assert code.strip() == "0", shown
        return shown

    def close(self) -> None:
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.wait()


def terminal_of(block: Block, text: str) -> str | None:
    found = TERMINAL.search(text, 0, block.start)
    return found[1] if found else None


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def test_the_network_tutorial_is_followed_word_by_word(tmp_path: Path, forked_dhdmm: Path):
    shutil.copytree(
        PROJECT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("*.ledger*")
    )
    environment = os.environ | {
        "PATH": f"{forked_dhdmm}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "80",
    }
    page, port = PAGE.read_text(encoding="utf-8"), free_port()
    terminals: dict[str, Terminal] = {}
    shown, lasting = "", list[Terminal]()
    try:
        for block in blocks(PAGE):
            if block.language == "text":
                if lasting and "release" in block.text:
                    (shown, *_) = [terminal.finish() for terminal in lasting]
                    lasting.clear()
                assert shape(block.text) in shape(shown), block.place
                continue
            name = terminal_of(block, page)
            assert name, f"{block.place}: in whose terminal?"
            if name not in terminals:
                terminals[name] = Terminal(name, tmp_path, environment)
            here = terminals[name]
            here.type(block.text.replace("8443", port))
            if "dhdmm review" in block.text and "--yes" not in block.text:
                here.await_text("[y/N]")
                here.type("y\n")
                here.await_text("You have consented")  # or it would read what is typed next
                here.shown_before = 0
            if "dhdmm join" in block.text:
                lasting.append(here)
            if not any(command in block.text for command in LASTING):
                shown = here.finish()
        assert set(terminals) == {"North", "River", "South", "Registrar", "Coordinator"}
    finally:
        for terminal in terminals.values():
            terminal.close()
    saved = {tmp_path / hospital / "release" for hospital in ("north", "river", "south")}
    assert all((folder / "release.json").exists() for folder in saved)
    assert len({(folder / "release.json").read_bytes() for folder in saved}) == 1
