"""A ledger is made whole or not at all, is durable when a call returns, and names its format."""

import contextlib
import errno
import fcntl
import multiprocessing
import os
import resource
import shutil
import signal
import sqlite3
import sys
from datetime import UTC, datetime
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import pytest

from dhdmm.errors import Refused
from dhdmm.privacy import ledger as ledger_module
from dhdmm.privacy import ledger_file
from dhdmm.privacy.chain import Checkpoint
from dhdmm.privacy.ledger import Ledger
from dhdmm.privacy.protection import NOT_RECORDED, Protection
from tests.privacy.test_ledger import fork, in_child

pytestmark = pytest.mark.slow

FIXTURE = (
    Path(__file__).parent / "fixtures" / "format-1.sqlite"
)  # as the code of that format wrote it
PLAN, BYTES = sha256(b"plan").digest(), sha256(b"masked input").digest()
TENTH = Fraction(1, 10)
PATIENT = Protection("person", "replace", "patient", 3, 2)
EXTRA = 3  # of PRAGMA synchronous


def clock():
    return datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.sqlite"


def beside(path, suffix):
    return path.with_name(path.name + suffix)


def create(path):
    return Ledger.create(path, Fraction(1), clock)


def assert_usable(ledger):
    assert ledger.remaining() == 1
    ledger.reserve(PLAN, b"r1", TENTH, PATIENT)
    ledger.debit(b"r1", BYTES)
    assert ledger.spent() == TENTH


def assert_whole_or_absent(path):
    """The next call opens a complete ledger, or makes one and clears away what was left."""
    if path.exists():
        assert_usable(Ledger(path, clock))
        return
    assert_usable(create(path))
    assert {file.name for file in path.parent.iterdir()} == {path.name, path.name + ".anchor"}


# Creation.


def killed_at(path, line):
    """Make a ledger and die before the so-manieth line of its code."""
    ours, left = {ledger_module.__file__, ledger_file.__file__}, line

    def trace(frame, event, _):
        nonlocal left
        if frame.f_code.co_filename not in ours:
            return None
        left -= event == "line"
        if left < 0:
            os._exit(9)
        return trace

    sys.settrace(trace)
    create(path)
    os._exit(0)


def die_at_every_line(folder):
    line = 0
    while in_child(killed_at, folder / str(line) / "budget.sqlite", line) == 9:
        line += 1
        (folder / str(line)).mkdir()


def test_killed_at_any_line_of_its_making_there_is_a_whole_ledger_or_none(tmp_path):
    (tmp_path / "0").mkdir()
    # Forked from a small process: a fork takes as long as its parent is large.
    dying = multiprocessing.get_context("spawn").Process(target=die_at_every_line, args=[tmp_path])
    dying.start()
    dying.join()
    existed, seen = set(), []
    *killed, last = sorted(tmp_path.iterdir(), key=lambda folder: int(folder.name))
    for folder in killed:
        path = folder / "budget.sqlite"
        existed.add(path.exists())
        left = {file.name: file.read_bytes() for file in folder.iterdir()}
        if left not in seen:  # most lines change nothing on the disk
            seen.append(left)
            assert_whole_or_absent(path)
    assert existed == {True, False}
    assert len(seen) >= 8  # it did die all along the way
    assert_usable(Ledger(last / "budget.sqlite", clock))


@pytest.mark.fault(7)
@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
@pytest.mark.parametrize("number", range(4))
def test_full_disk_at_any_step_leaves_no_half_ledger(path, monkeypatch, call, number):
    real, left = getattr(os, call), number

    def full(*arguments, **options):
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments, **options)

    monkeypatch.setattr(os, call, full)
    with contextlib.suppress(Refused):
        create(path)
    monkeypatch.undo()
    assert_whole_or_absent(path)


def create_on_a_full_disk(path, size):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        create(path)
    except Refused:
        os._exit(7)
    os._exit(0)


@pytest.mark.fault(7)
@pytest.mark.parametrize("size", [0, 50, 500, 4096, 8000])
def test_file_that_cannot_grow_leaves_no_half_ledger(path, size):
    assert in_child(create_on_a_full_disk, path, size) == 7
    assert not path.exists()
    assert_whole_or_absent(path)


def race(path, start):
    start.wait(60)
    try:
        create(path)
    except Refused as refusal:
        known = "there is one already", "another process is making"
        os._exit(7 if any(words in refusal.what for words in known) else 1)
    os._exit(0)


def test_of_processes_that_make_it_at_once_one_does_and_the_others_are_refused(tmp_path):
    for attempt in range(5):
        path, start = tmp_path / f"{attempt}.sqlite", fork.Barrier(4)
        rivals = [fork.Process(target=race, args=(path, start)) for _ in range(4)]
        for rival in rivals:
            rival.start()
        for rival in rivals:
            rival.join(60)
        assert sorted(rival.exitcode for rival in rivals) == [0, 7, 7, 7]
        assert_usable(Ledger(path, clock))


def test_whoever_comes_while_it_is_made_is_refused(path):
    with beside(path, ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Refused, match="another process is making this ledger"):
            create(path)
    assert_usable(create(path))


def test_a_lock_that_another_process_has_just_given_up_is_not_taken(path, monkeypatch):
    lock = fcntl.flock

    def too_late(file, operation):
        beside(path, ".lock").unlink()
        return lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", too_late)
    with pytest.raises(Refused, match="another process is making this ledger"):
        create(path)


def test_old_journals_are_not_rolled_back_into_a_new_ledger(path):
    for suffix in (".new", ".new-journal", "-journal"):
        beside(path, suffix).write_bytes(b"what somebody left")
    assert_whole_or_absent(path)


def test_an_existing_ledger_is_never_replaced(path):
    create(path)
    before = path.read_bytes()
    with pytest.raises(Refused, match="there is one already"):
        create(path)
    assert path.read_bytes() == before
    assert not beside(path, ".lock").exists()


def test_a_ledger_that_was_used_and_removed_is_missed(path):
    ledger = create(path)
    ledger.reserve(PLAN, b"r1", TENTH, PATIENT)
    path.unlink()
    with pytest.raises(Refused, match="was removed"):
        create(path)


@pytest.mark.parametrize("entries", [1, 3])
def test_ledger_without_its_anchor_is_refused_from_the_first_entry_on(path, entries):
    ledger = create(path)
    if entries > 1:
        assert_usable(ledger)
    beside(path, ".anchor").unlink()
    with pytest.raises(Refused, match="anchor is missing") as refused:
        Ledger(path, clock)
    assert refused.value.hint is not None
    with pytest.raises(Refused, match="anchor is missing"):
        ledger.reserve(PLAN, b"r2", TENTH, PATIENT)


@pytest.mark.parametrize("prepare", [Path.touch, lambda path: sqlite3.connect(path).close()])
def test_a_file_without_a_ledger_is_named_as_such(path, prepare):
    prepare(path)
    path.chmod(0o600)
    with pytest.raises(Refused, match="the file holds no ledger"):
        Ledger(path, clock)


# Durability.


@pytest.fixture
def happened(path, monkeypatch):
    """What is asked of the disk, in order."""
    log = []

    class Watched(sqlite3.Connection):
        def execute(self, statement, *values):
            if statement == "COMMIT":
                log.append(("commit", super().execute("PRAGMA synchronous").fetchone()[0]))
            return super().execute(statement, *values)

    connect, fsync, replace = sqlite3.connect, os.fsync, os.replace

    def synced(file):
        log.append(("fsync", Path(f"/proc/self/fd/{file}").readlink().name))
        fsync(file)

    def replaced(source, target):
        log.append(("rename", Path(target).name))
        replace(source, target)

    monkeypatch.setattr(sqlite3, "connect", lambda *a, **o: connect(*a, factory=Watched, **o))
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    return log


linux = pytest.mark.skipif(sys.platform != "linux", reason="reads names from /proc")


def anchored(path):
    """The anchor's content reaches the disk before its name, and its name before the call ends."""
    anchor, folder = path.name + ".anchor", path.parent.name
    return [("fsync", anchor + ".new"), ("rename", anchor), ("fsync", folder)]


@linux
def test_every_change_is_synchronised_and_then_anchored(path, happened):
    ledger = create(path)
    changes = (
        lambda: ledger.reserve(PLAN, b"r1", TENTH, PATIENT),
        lambda: ledger.debit(b"r1", BYTES),
        lambda: ledger.reserve(PLAN, b"r2", TENTH, PATIENT),
        lambda: ledger.cancel(b"r2"),
    )
    for change in changes:
        happened.clear()
        change()
        assert happened == [("commit", EXTRA), *anchored(path), ("commit", EXTRA)]


@linux
def test_a_new_ledger_gets_its_name_last(path, happened):
    create(path)
    made = [("commit", EXTRA), *anchored(path), ("rename", path.name), ("fsync", path.parent.name)]
    assert happened[: len(made)] == made


# Formats.


@pytest.fixture
def old(path):
    shutil.copy(FIXTURE, path)
    shutil.copy(beside(FIXTURE, ".anchor"), beside(path, ".anchor"))
    path.chmod(0o600)
    return path


def header(path):
    """The format and the application, where the SQLite file format has them."""
    start = path.read_bytes()[:100]
    return int.from_bytes(start[60:64]), start[68:72]


def test_a_new_ledger_says_its_format_in_its_header(path):
    create(path)
    assert header(path) == (2, b"dhdm")


def test_ledger_of_format_1_is_read_and_stays_as_it_is(old):
    before = old.read_bytes()
    ledger = Ledger(old, clock)
    amounts = ledger.budget(), ledger.spent(), ledger.reserved(), ledger.remaining()
    assert amounts == (1, TENTH, Fraction(1, 4), Fraction(13, 20))
    assert {(entry.format, entry.protection) for entry in ledger.entries()} == {(1, NOT_RECORDED)}
    assert ledger.paid_for(b"r1") == BYTES
    assert old.read_bytes() == before
    assert header(old) == (0, bytes(4))


def test_ledger_of_format_1_is_continued_in_format_2(old):
    ledger = Ledger(old, clock)
    earlier, seen = ledger.entries(), ledger.checkpoint()
    ledger.reserve(PLAN, b"r3", Fraction(1, 4), PATIENT)  # reserved already: a repetition
    ledger.debit(b"r3", BYTES)
    ledger.reserve(PLAN, b"r4", TENTH, PATIENT)
    ledger.debit(b"r4", BYTES)
    again = Ledger(old, clock, shown=seen)
    assert again.entries()[: len(earlier)] == earlier
    added = again.entries()[len(earlier) :]
    assert [(entry.kind, entry.format, entry.protection) for entry in added] == [
        ("debit", 2, NOT_RECORDED),
        ("reserve", 2, PATIENT),
        ("debit", 2, PATIENT),
    ]
    assert again.spent() == Fraction(9, 20)
    assert header(old) == (2, b"dhdm")


def test_a_change_that_fails_leaves_format_1(old, monkeypatch):
    ledger = Ledger(old, clock)
    before = ledger.entries()

    def interrupted(connection, *_):
        ledger_file._upgrade(connection)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ledger_file, "append", interrupted)
    with pytest.raises(Refused, match="cannot be used"):
        ledger.debit(b"r3", BYTES)
    monkeypatch.undo()
    assert header(old) == (0, bytes(4))
    assert ledger.entries() == before


def set_header(path, statement):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def test_format_of_a_newer_version_is_refused_by_name(path):
    create(path)
    set_header(path, "PRAGMA user_version = 3")
    words = "ledger format 3; this is dhdmm .*, which reads formats 1–2"
    with pytest.raises(Refused, match=words):
        Ledger(path, clock)


@pytest.mark.parametrize(
    "statement",
    ["PRAGMA user_version = 1", "PRAGMA user_version = 0", "PRAGMA application_id = 7"],
)
def test_other_headers_are_refused(path, statement):
    create(path)
    set_header(path, statement)
    with pytest.raises(Refused, match="holds no ledger"):
        Ledger(path, clock)


def test_a_header_set_back_to_format_1_does_not_hide_what_came_later(old):
    ledger = Ledger(old, clock)
    ledger.debit(b"r3", BYTES)
    set_header(old, "PRAGMA user_version = 0")
    set_header(old, "PRAGMA application_id = 0")
    with pytest.raises(Refused, match="chain is broken at entry 7"):
        Ledger(old, clock)


def test_anchor_of_the_fixture_is_of_its_newest_entry(old):
    assert ledger_file.read_anchor(old) == Checkpoint(6, Ledger(old, clock).entries()[-1].digest)
