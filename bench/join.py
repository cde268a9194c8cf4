"""What `dhdmm join` costs before its first request: processor time, and memory at its most.

A hospital that has consented to a study joins over TLS with its table in a CSV file. Whoever takes
the request ends the process there, so that nothing in the figures depends on a coordinator. All
are medians, with ratios to a Python that does nothing. Needs /proc.
"""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from dhdmm.client.home import Home
from dhdmm.cohort.usage import Usage, peak_bytes
from dhdmm.network.certificates import self_signed
from dhdmm.network.identity import create
from dhdmm.planning.draft import draft
from dhdmm.study.spec import Study

RUNS = 9
HOSPITALS = Path("examples/hospitals")
WAITING = "print(flush=True); input()"
"""How a program ends that is measured: it says that it is there, and waits."""
JOIN = "from dhdmm.cli.main import main; main()"

Process = subprocess.Popen[bytes]


def used(arguments: Sequence[str], reached: Callable[[Process], object]) -> Usage:
    """Of a Python with these arguments, up to where `reached` returns; it is killed there."""
    command = [sys.executable, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        reached(process)
        peak = peak_bytes(process.pid)
        process.kill()
        _, status, spent = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return Usage(spent.ru_utime + spent.ru_stime, peak)


def used_by(program: str) -> Usage:
    def said_so(process: Process) -> bytes:
        assert process.stdout is not None
        return process.stdout.readline()

    return used(["-c", f"{program}; {WAITING}"], said_so)


def used_to_join(folder: Path) -> Usage:
    """Until the first request has arrived whole."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "coordinator.pem", folder / "coordinator.key")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"https://localhost:{listening.getsockname()[1]}"

        def asked(_process: Process) -> None:
            connection, _ = listening.accept()
            with tls.wrap_socket(connection, server_side=True) as line:
                request = b""
                while b"\r\n\r\n" not in request:
                    request += line.recv(4096)

        given = {
            "--data": next((HOSPITALS / "data").glob("*.csv")),
            "--state": folder,
            "--ca": folder / "coordinator.pem",
        }
        options = [str(part) for pair in given.items() for part in pair]
        return used(["-c", JOIN, "join", url, "--yes", *options], asked)


def prepare(folder: Path) -> None:
    """A data holder's own folder: who it is, and what it has consented to."""
    self_signed(folder)
    home = Home(folder)
    create(home.identity, "hospital", os.urandom)
    home.consent_to(draft(Study.load(HOSPITALS / "study.yaml")))


def main() -> None:
    with TemporaryDirectory() as made:
        folder = Path(made)
        prepare(folder)
        measured: dict[str, Callable[[], Usage]] = {
            "python": lambda: used_by("pass"),
            "import dhdmm": lambda: used_by("import dhdmm"),
            "import dhdmm.client.join": lambda: used_by("import dhdmm.client.join"),
            "dhdmm join": lambda: used_to_join(folder),
        }
        print(f"{'':>26}{'seconds':>10}{'least':>8}{'ratio':>8}{'MB':>8}{'ratio':>8}")
        base: Usage | None = None
        for name, run in measured.items():
            usages = [run() for _ in range(RUNS)]
            seconds, peak = (median(column) for column in zip(*usages, strict=True))
            base = base or Usage(seconds, int(peak))
            print(
                f"{name:>26}{seconds:>10.3f}{min(usages).cpu_seconds:>8.3f}"
                f"{seconds / base.cpu_seconds:>8.1f}{peak / 1e6:>8.1f}"
                f"{peak / base.peak_bytes:>8.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
