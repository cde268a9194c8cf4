"""Commands for tests that start many: forked from a process that has loaded everything.

Each is a process of its own, with the caller's folder, environment and terminal, but does not
spend its first second on imports. Signals reach it, and it does not outlive what was typed.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from ast import literal_eval
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROJECT = Path(__file__).parents[1]
TYPED = """#!{python} -SE
import os, signal, socket, sys

there = socket.socket(socket.AF_UNIX)
there.connect({address!r})
request = repr((sys.argv, os.getcwd(), dict(os.environ))).encode()
socket.send_fds(there, [len(request).to_bytes(8, "big")], [0, 1, 2])
there.sendall(request)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: there.send(bytes([number])))
code = there.recv(1)
sys.exit(code[0] if code else "it was killed")
"""
PROGRAMS = {"dhdmm": "dhdmm.cli.main", "planner": "dhdmm.web.drafting"}
"""What can be typed, and the module whose `main` it is."""


@contextmanager
def forking(folder: Path) -> Iterator[Path]:
    """A folder for the PATH, whose programs start at once."""
    address = str(folder / "socket")
    programs = folder / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        program = programs / name
        program.write_text(TYPED.format(python=sys.executable, address=address))
        program.chmod(0o755)
    command = [sys.executable, "-m", "tests.forked", address]
    with subprocess.Popen(
        command,
        cwd=PROJECT,
        stdin=subprocess.PIPE,  # closed at our end, whatever that is
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield programs
        finally:
            process.terminate()


def serve(address: str) -> None:
    """Fork a process for everybody who connects, until standard input is closed."""
    import dhdmm

    for module in pkgutil.walk_packages(dhdmm.__path__, "dhdmm."):
        if "migrations" not in module.name and not module.name.endswith("__main__"):
            with suppress(ImportError):
                importlib.import_module(module.name)
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        print("ready", flush=True)
        while select.select([listener, sys.stdin], [], [])[0] == [listener]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _exit(connection, _command(connection))
            connection.close()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def _command(connection: socket.socket) -> int:
    """Run what was typed; its exit code."""
    size, files, _, _ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb", buffering=0) as sent:
        request = b""
        while len(request) < int.from_bytes(size, "big"):
            request += sent.read(1 << 16)
    typed, folder, environment = literal_eval(request.decode())
    name = Path(typed[0]).name
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [name, *typed[1:]]
    sys.modules["__main__"].__package__ = None  # or usage lines name this module
    threading.Thread(target=_obey, args=[connection], daemon=True).start()
    try:
        importlib.import_module(PROGRAMS[name]).main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        return 1
    return 0


def _obey(connection: socket.socket) -> None:
    """Signals that the caller got; its end is ours."""
    while number := connection.recv(1):
        os.kill(os.getpid(), number[0])
    os.kill(os.getpid(), signal.SIGKILL)


def _exit(connection: socket.socket, code: int) -> None:
    """As the interpreter ends, and tell the caller."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    connection.sendall(bytes([code]))
    os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
