"""Small files that must be whole, durable, and nobody else's to read.

A write goes to a temporary name, is flushed to the disk, renamed, and the folder flushed too: what
is there afterwards is the old content or the new, never half of either.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dhdmm.errors import DhdmmError, Refused
from dhdmm.optional import optional_module

fcntl = optional_module("fcntl")

OTHERS = 0o077
OTHERS_BUT_READERS_OF_THE_GROUP = 0o037


def private_folder(path: Path) -> Path:
    """The folder, made if need be for its owner alone; one that others can enter is refused."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DhdmmError(f"no folder can be made: {error.strerror}", where=str(path)) from None
    require_private(path)
    return path


def require_private(path: Path, others: int = OTHERS) -> None:
    """Others may neither read nor change it."""
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & others:
        mode = "700" if path.is_dir() else "600"
        raise Refused("it is open to other users", where=str(path), hint=f"chmod {mode} and check")


def read_secret(path: Path) -> str:
    """The one line of a file that is its owner's alone."""
    try:
        with reading(path, "the token"):
            require_private(path)
            secret = path.read_text(encoding="ascii").strip()
    except UnicodeDecodeError:
        raise DhdmmError("a token is plain ASCII", where=str(path)) from None
    if not secret:
        raise DhdmmError("there is no token in the file", where=str(path))
    return secret


def keep_private(path: Path) -> None:
    """A file of ours that others could read or change is closed to them."""
    with suppress(FileNotFoundError):
        if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & OTHERS:
            path.chmod(0o600)


@contextmanager
def writing(path: Path, hint: str | None = None) -> Iterator[None]:
    """Errors of the block say that this file cannot be written; the hint is for one that exists."""
    try:
        yield
    except FileExistsError:
        raise DhdmmError("the file exists", where=str(path), hint=hint) from None
    except FileNotFoundError:
        folder = path.parent
        raise DhdmmError(
            f"cannot write the file: there is no folder '{folder}'",
            where=str(path),
            hint=f"make it first: mkdir -p '{folder}'",
        ) from None
    except OSError as error:
        raise DhdmmError(f"cannot write the file: {error.strerror}", where=str(path)) from None


@contextmanager
def reading(path: Path, what: str, hint: str | None = None) -> Iterator[None]:
    """Errors of the block say that the file with `what` cannot be read."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise DhdmmError(f"cannot read {what}: {why}", where=str(path), hint=hint) from None


def create_new(path: Path, content: bytes, *, private: bool) -> None:
    """A new file, for its owner alone or for everybody to read; an existing one stays as it is."""
    with writing(path, "choose another name, or move it away"):
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o644)
    _write_and_close(file, content)
    _flush_folder(path.parent)


def replace_durably(path: Path, content: bytes) -> None:
    """The file with this content, for its owner alone; raises `OSError` and changes nothing."""
    fresh = _fresh(path)
    _write_and_close(os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), content)
    fresh.replace(path)
    _flush_folder(path.parent)


def lock(file: int, *, wait: bool = False) -> bool:
    """Lock an open file or folder until it is closed; false if another process has locked it.

    With `wait` it returns when that process has ended. Raises `DhdmmError` where the system has no
    such locks.
    """
    if fcntl is None:
        raise DhdmmError(
            "a participant's files cannot be locked on this system",
            hint="take part on Linux or macOS; on Windows, in the Windows Subsystem for Linux",
        )
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def unlock(file: int) -> None:
    """Give a lock up and close the file.

    Closing alone keeps the lock while a process that was begun meanwhile still has the file.
    """
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_UN)
    finally:
        os.close(file)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time works in the folder; the others wait."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        lock(opened, wait=True)
        yield
    finally:
        unlock(opened)


def remove_durably(path: Path) -> None:
    """The name is gone, and what a crash left under its temporary name.

    What the disk keeps of the content is the file system's affair.
    """
    for name in (path, _fresh(path)):
        name.unlink(missing_ok=True)
    _flush_folder(path.parent)


def _fresh(path: Path) -> Path:
    """Where the next content is written."""
    return path.with_name(path.name + ".new")


def _write_and_close(file: int, content: bytes) -> None:
    with os.fdopen(file, "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())


def _flush_folder(path: Path) -> None:
    if os.name == "posix":
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
