"""A coordinator and participants on this machine, each a process of its own, speaking TLS.

Participants run the command `dhdmm join` as anybody would. They are forked from one process that
has imported everything already, since importing takes longer than taking part.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.roster import Roster
from dhdmm.client.home import Home
from dhdmm.client.http import CoordinatorClient
from dhdmm.cohort.workers import ONE_THREAD
from dhdmm.errors import RoundAborted
from dhdmm.network import identity as identities
from dhdmm.network.certificates import self_signed
from dhdmm.network.roster import RosterFile
from dhdmm.network.status import Status
from dhdmm.network.trust import Address, trusting
from dhdmm.participant.limits import Policy, written
from dhdmm.study.spec import Study

LOADED = [
    *("dhdmm.cli.main", "dhdmm.cli.join", "dhdmm.client.join", "dhdmm.participant.tabulate"),
    *("dhdmm.session.participant", "dhdmm.planning.draft", "dhdmm.release.verify"),
    *("httpcore", "h11", "scipy.sparse"),
]
START_SECONDS = SAVE_SECONDS = 120.0
END_SECONDS = 20.0
GENEROUS = Policy(
    threat_models=["malicious", "semi-honest", "two-servers"],
    helpers="any",
    max_epsilon=1e3,
    min_participants=3,
    max_honest_floor=10**9,
    min_corrupt_fraction=0.0,
    person_columns="any",
    total_rho=1e6,
)
"""The limits of participants in a rehearsal."""


class LocalNetwork:
    """One round of a study among `tables`, one per participant; everything is kept in `folder`.

    Use it in a `with` statement: whatever happens, no process is left when it ends.
    """

    def __init__(
        self, study: Path, folder: Path, tables: Sequence[Path], phase_seconds: float
    ) -> None:
        self.folder = folder
        self._study, self._tables, self._phase_seconds = study, list(tables), phase_seconds
        self._registrar = Identity.generate(os.urandom)
        self._processes: dict[int, ForkServerProcess] = {}
        self._server: subprocess.Popen[bytes] | None = None
        self._helper: subprocess.Popen[bytes] | None = None
        self._helped = Study.load(study).aggregation.threat_model == "two-servers"
        self.helper_port = 0
        os.environ.update(ONE_THREAD)  # many processes, a core each
        self._start = multiprocessing.get_context("forkserver")
        self._start.set_forkserver_preload(LOADED)

    def __enter__(self) -> LocalNetwork:
        try:
            self._certificate, self._key = self_signed(self.folder)
            self._write_homes()
            self._write_identities()
            self.start_helper()
            self.start_coordinator()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._end()

    # The coordinator

    def start_coordinator(self, port: int = 0) -> None:
        """Start the coordinator, or start it again where it was."""
        options = {
            "--store": f"sqlite:///{self.folder / 'coordinator.db'}",
            "--tls-cert": self._certificate,
            "--tls-key": self._key,
            "--roster": self.folder / "roster.json",
            "--out": self.folder / "releases",
            "--port": port,
            "--phase-seconds": self._phase_seconds,
            "--operator-token-file": self.folder / "operator.token",
            "--identity": self.folder / "coordinator.json",
        }
        if self._helped:
            options |= {
                "--helper": f"https://localhost:{self.helper_port}",
                "--helper-key": self.folder / "helper.pub",
                "--helper-ca": self._certificate,
            }
        self._server = self._begin("coordinator", ["serve", str(self._study)], options)
        self.port = self._listening("coordinator", self._server)

    def start_helper(self, port: int = 0) -> None:
        """Start the second server, where the study has one, or start it again where it was."""
        if not self._helped:
            return
        options = {
            "--identity": self.folder / "helper.json",
            "--leader": self.folder / "coordinator.pub",
            "--secrets": self.folder / "helper-secrets",
            "--store": f"sqlite:///{self.folder / 'helper.db'}",
            "--tls-cert": self._certificate,
            "--tls-key": self._key,
            "--port": port,
        }
        self._helper = self._begin("helper", ["helper"], options)
        self.helper_port = self._listening("helper", self._helper)

    def _begin(
        self, name: str, command: list[str], options: dict[str, Any]
    ) -> subprocess.Popen[bytes]:
        """Start a server process, whose output goes to a file of its name."""
        ours = [sys.executable, "-c", "from dhdmm.cli.main import main; main()", *command]
        given = [str(part) for option in options.items() for part in option]
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [*ours, *given],
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us to act upon
            )

    @property
    def address(self) -> str:
        return f"https://localhost:{self.port}"

    def client(self) -> CoordinatorClient:
        """The operator's."""
        token = (self.folder / "operator.token").read_text(encoding="ascii").strip()
        return CoordinatorClient(
            Address.parse(self.address), trusting(self._certificate), operator=token
        )

    def statuses(self) -> Iterator[Status]:
        """The round's status now and after every change, to its end."""
        with self.client() as client:
            (only,) = client.rounds()
            for status in client.statuses(bytes.fromhex(only.round)):
                yield status
                if status.over:
                    return

    def release(self) -> Path:
        """The directory of the release, once it is saved."""
        end = time.monotonic() + SAVE_SECONDS
        while time.monotonic() < end:
            # hidden while it is being written
            found = list((self.folder / "releases").glob("[!.]*/release.json"))
            if found:
                return found[0].parent
            time.sleep(0.05)
        raise RoundAborted("the coordinator saved no release")

    def _listening(self, name: str, process: subprocess.Popen[bytes]) -> int:
        said, end = self.folder / f"{name}.log", time.monotonic() + START_SECONDS
        while time.monotonic() < end and process.poll() is None:
            for line in said.read_bytes().splitlines():
                with contextlib.suppress(ValueError):
                    event = json.loads(line)
                    if isinstance(event, dict) and event.get("event") == "listening":
                        return int(event["port"])
            time.sleep(0.05)
        last = said.read_text(errors="replace").strip().splitlines()[-1:]
        raise RoundAborted(f"the {name} did not start", hint=" ".join(last) or None)

    # The participants

    def __len__(self) -> int:
        return len(self._tables)

    def home(self, number: int) -> Path:
        return self.folder / f"participant-{number + 1}"

    def join(self, number: int, run: Callable[[list[str], Path, Path], None] | None = None) -> None:
        """Start a participant, or start it again after it was killed.

        `run` is what its process does, given a command and where its output goes; `run_command`
        unless a test wants to interrupt it.
        """
        home = self.home(number)
        options = {
            "--data": self._tables[number],
            "--state": home,
            "--ca": self._certificate,
            "--registrar": self._registrar.public.hex(),
        }
        given = [str(part) for option in options.items() for part in option]
        process = self._start.Process(
            target=run or run_command,
            args=(["join", self.address, *given, "--yes", "--json"], home / "out", home / "err"),
        )
        try:
            process.start()
        except OSError as error:  # such as a socket's name that does not fit a long folder
            raise RoundAborted(
                f"no participant can be started: {error}", hint="set TMPDIR to a short path"
            ) from None
        self._processes[number] = process

    def kill(self, number: int) -> None:
        """As `kill -9` does."""
        process = self._processes[number]
        process.kill()
        process.join()

    def await_end(self) -> None:
        for process in self._processes.values():
            process.join()

    def printed(self, number: int) -> dict[str, Any]:
        """What the participant printed at its end; empty if it printed nothing."""
        try:
            document = json.loads((self.home(number) / "out").read_bytes())
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}

    def last_error(self, number: int) -> str:
        """The participant's exit code and its last line on standard error."""
        lines = (self.home(number) / "err").read_text(errors="replace").strip().splitlines()
        return f"exit code {self._processes[number].exitcode}: {lines[-1] if lines else ''}"

    def _write_homes(self) -> None:
        """An identity and a policy for everybody, and the registrar's roster."""
        policy = written(GENEROUS)
        names, keys = [], []
        for number in range(len(self)):
            home = Home(self.home(number))
            home.root.mkdir(mode=0o700)
            named = identities.create(home.identity, f"participant {number + 1}", os.urandom)
            (home.root / "policy.yaml").write_text(policy, encoding="utf-8")
            names.append(named.name)
            keys.append(named.identity.public)
        roster = RosterFile.signed(Roster(tuple(names), tuple(keys)), self._registrar)
        (self.folder / "roster.json").write_bytes(roster.to_bytes())

    def _write_identities(self) -> None:
        for name in ("coordinator", "helper"):
            named = identities.create(self.folder / f"{name}.json", name, os.urandom)
            identities.export_public(named.public, self.folder / f"{name}.pub")

    # The end

    def stop_coordinator(self, how: signal.Signals = signal.SIGTERM) -> None:
        _stop(self._server, how)

    def stop_helper(self, how: signal.Signals = signal.SIGTERM) -> None:
        _stop(self._helper, how)

    def _end(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.join()
        self.stop_coordinator()
        self.stop_helper()


def _stop(process: subprocess.Popen[bytes] | None, how: signal.Signals) -> None:
    if process is not None and process.poll() is None:
        process.send_signal(how)
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_command(arguments: list[str], out: Path, err: Path) -> None:
    """One command as in a shell of its own, its output in files."""
    from dhdmm.cli.main import main

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us ends us
    for number, path in ((1, out), (2, err)):
        file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        os.dup2(file, number)
        os.close(file)
    sys.argv = ["dhdmm", *arguments]
    main()
