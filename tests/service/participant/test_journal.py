"""What a participant remembers survives a crash, and nothing leaves that it could not keep."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.journal import Journal
from dhdmm.aggregation.method import ThreatModel
from dhdmm.client.joined import Note
from dhdmm.client.journal import FileJournal
from dhdmm.errors import ExitCode, Refused
from dhdmm.secagg import messages
from dhdmm.secagg.states import CoordinatorState, ParticipantState
from tests.protocol.network import MALICIOUS, Network, Stream, setting

ROUND, KEY = b"a round of tests", bytes(32)


@contextmanager
def journal(folder: Path) -> Iterator[FileJournal]:
    with FileJournal(folder / "journals", ROUND, KEY) as opened:
        yield opened


def test_what_was_written_is_read_again_by_the_next_process(tmp_path: Path):
    with journal(tmp_path) as first:
        assert first.read() is None
        first.write(b"state", b"message")
        first.write(b"later state", b"")
    with journal(tmp_path) as second:
        assert second.read() == (b"later state", b"")


def test_the_journal_is_its_owners_alone(tmp_path: Path):
    with journal(tmp_path) as opened:
        opened.write(b"state", b"message")
    folder = tmp_path / "journals"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    folder.chmod(0o755)
    with pytest.raises(Refused, match="open to other users"):
        FileJournal(folder, ROUND, KEY)


def test_an_erased_journal_is_gone(tmp_path: Path):
    with journal(tmp_path) as opened:
        opened.write(b"a secret of the round", b"message")
        opened.erase()
        assert opened.read() is None
    kept = b"".join(file.read_bytes() for file in (tmp_path / "journals").iterdir())
    assert b"secret" not in kept


def test_what_a_crash_left_of_a_journal_is_erased_with_it(tmp_path: Path):
    """Killed before the rename, a write leaves its content under another name."""
    with journal(tmp_path) as opened:
        opened.write(b"a secret of the round", b"message")
        (kept,) = (tmp_path / "journals").glob("*.journal")
        kept.with_name(kept.name + ".new").write_bytes(kept.read_bytes())
        opened.erase()
    left = b"".join(file.read_bytes() for file in (tmp_path / "journals").iterdir())
    assert b"secret" not in left


def _hold(folder: Path, held: object, ending: object) -> None:
    with journal(folder):
        held.set()
        ending.wait(30)


@pytest.mark.slow
def test_two_processes_cannot_take_the_same_seat_and_a_killed_one_leaves_it(tmp_path: Path):
    processes = multiprocessing.get_context("fork")
    held, ending = processes.Event(), processes.Event()
    other = processes.Process(target=_hold, args=(tmp_path, held, ending))
    other.start()
    try:
        assert held.wait(30)
        with pytest.raises(Refused, match="another process"), journal(tmp_path):
            pass
    finally:
        os.kill(other.pid, signal.SIGKILL)
        other.join()
    with journal(tmp_path) as opened:
        opened.write(b"state", b"message")


def test_a_process_that_was_begun_meanwhile_does_not_keep_the_seat(tmp_path: Path):
    """It has all our files open until it runs its own program."""
    with journal(tmp_path) as opened:
        elsewhere = os.dup(opened._lock)
    try:
        with journal(tmp_path) as again:
            assert again.read() is None
    finally:
        os.close(elsewhere)


@pytest.mark.fault(7)
@pytest.mark.parametrize("kept", [0, 1, 40, -1])
def test_a_torn_journal_is_refused(tmp_path: Path, kept: int):
    with journal(tmp_path) as opened:
        opened.write(b"state" * 10, b"message" * 10)
        (file,) = (tmp_path / "journals").glob("*.journal")
        file.write_bytes(file.read_bytes()[:kept])
        with pytest.raises(Refused, match="damaged"):
            opened.read()


@pytest.mark.fault(7)
def test_every_changed_byte_of_a_journal_is_noticed(tmp_path: Path):
    with journal(tmp_path) as opened:
        opened.write(b"state", b"message")
        (file,) = (tmp_path / "journals").glob("*.journal")
        content = file.read_bytes()
        for place in range(len(content)):
            changed = bytearray(content)
            changed[place] ^= 1
            file.write_bytes(changed)
            with pytest.raises(Refused, match="damaged"):
                opened.read()


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow beyond some bytes: the kernel refuses, as it does on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


@pytest.mark.fault(7)
def test_on_a_full_disk_nothing_leaves_and_the_participant_resumes_from_what_was_kept(
    tmp_path: Path,
):
    here = setting(4)
    with journal(tmp_path) as opened:
        participant = here.participant(0, Stream(0), opened)
        keys = participant.begin()
        kept = opened.read()
        root = messages.Root(here.parameters.session, 0, bytes(32)).encode()
        with full_disk(), pytest.raises(Refused, match="cannot be kept"):
            participant.receive(root)
        assert participant.receive(root) == keys  # what left before, and nothing else
        with pytest.raises(LocalProtocolError, match="the journal failed"):
            participant.abort(AbortReason.MALFORMED)
        assert opened.read() == kept
        resumed = here.resumed(0, Stream("later"), opened)
    assert resumed.outgoing == keys
    assert resumed.state is ParticipantState.AWAITING_ROOT


@pytest.mark.fault(7)
def test_a_round_that_cannot_be_noted_is_refused(tmp_path: Path):
    note = Note(round=ROUND.hex(), coordinator="https://localhost", study="s" * 64, begun="today")
    with journal(tmp_path) as opened:
        with full_disk(), pytest.raises(Refused, match="cannot be noted: File too large") as error:
            opened.remember(note)
        assert error.value.exit_code == ExitCode.REFUSED
        assert error.value.hint == "stay out of this round"
        assert not list((tmp_path / "journals").glob("*.round"))


class ForgetsTheLast(FileJournal):
    """Restored from a copy made before the last write."""

    def read(self) -> tuple[bytes, bytes] | None:
        older = self._path.with_suffix(".older")
        return self._parsed(older.read_bytes()) if older.exists() else None

    def write(self, state: bytes, outgoing: bytes) -> None:
        if self._path.exists():
            self._path.with_suffix(".older").write_bytes(self._path.read_bytes())
        super().write(state, outgoing)


def _kinds_revealed_over_a_restart(folder: Path, kind: type[FileJournal]) -> list[set[int]]:
    """Participant 0 reveals, is restarted, and is told of survivors that lack participant 1."""
    here = setting(6, ThreatModel.SEMI_HONEST)

    def journals() -> Journal:
        return kind(folder / "journals", ROUND, KEY).__enter__()

    network = Network.of(here)
    kept = journals()
    network.participants[0] = here.participant(0, Stream(0, 0), kept)
    answers = {i: participant.begin() for i, participant in network.participants.items()}
    while network.coordinator.state is not CoordinatorState.COLLECTING_REVEALS:
        answers = network.phase(answers)
    kept.__exit__(None, None, None)
    restarted = here.resumed(0, Stream("restarted"), journals())
    others = Bitmap.of(6, [0, 2, 3, 4, 5])
    lie = messages.Survivors(here.parameters.session, 0, others).encode()
    said = [answers[0]]
    with suppress(RemoteProtocolError):
        said.append(restarted.receive(lie) or b"")
    revealed = [messages.decode(one).reveals for one in said if one]
    return [{share.kind for share in shares if share.position == 1} for shares in revealed]


@pytest.mark.fault(6)
def test_a_restarted_participant_never_reveals_the_other_kind_of_share(tmp_path: Path):
    seed = {messages.ShareKind.SEED}
    assert _kinds_revealed_over_a_restart(tmp_path / "real", FileJournal) == [seed]
    assert _kinds_revealed_over_a_restart(tmp_path / "older", ForgetsTheLast) == [
        seed,
        {messages.ShareKind.MASK_KEY},
    ]


def test_a_round_can_be_journalled_on_the_disk_from_beginning_to_end(tmp_path: Path):
    network = Network.of(setting(5, MALICIOUS))
    with journal(tmp_path) as opened:
        network.participants[0] = network.setting.participant(0, Stream(0, 0), opened)
        network.run()
        assert network.participants[0].state is ParticipantState.DONE
        assert network.coordinator.state is CoordinatorState.FINISHED
