"""A participant's journal on the disk: `dhdmm.aggregation.journal`, kept across a crash.

One file per round and identity, readable by its owner only. Whoever opens a journal holds a lock on
it until the process ends, so two processes never take the same seat. A file that is not whole, or
cannot be written, ends the participant's part in the round: nothing leaves that is not kept.

Beside it is a note without secrets, written before anything of the round is at stake here, that
says where the round is.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from dhdmm import formats
from dhdmm.aggregation.journal import format_of
from dhdmm.errors import DhdmmError, Refused
from dhdmm.network import files
from dhdmm.network.identity import File

MAGIC = b"dhdmm journal %d\n"
_NUMBERED = re.compile(rb"dhdmm journal ([1-9]\d{0,8})\n")
JOURNAL, NOTE = ".journal", ".round"
_LENGTHS = struct.Struct(">QQ")
_DIGEST_BYTES = 32


class FileJournal:
    """The journal of one identity in one round. Use it in a `with` statement: it holds a lock."""

    def __init__(self, folder: Path, round_id: bytes, identity: bytes) -> None:
        name = f"{round_id.hex()}-{identity.hex()[:16]}"
        self._path = files.private_folder(folder) / f"{name}{JOURNAL}"
        self._note_path = folder / f"{name}{NOTE}"
        self._lock_path = folder / f"{name}.lock"
        self._lock: int | None = None

    def __enter__(self) -> FileJournal:
        file = os.open(self._lock_path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            if not files.lock(file):
                raise Refused(
                    "another process is in this round with the same identity", where=str(self._path)
                )
        except DhdmmError:
            os.close(file)
            raise
        self._lock = file
        return self

    def __exit__(self, *_error: object) -> None:
        if self._lock is not None:
            files.unlock(self._lock)  # the file stays, or two could lock two
            self._lock = None

    def remember(self, note: File) -> None:
        """Keep what says where this round is, until the journal is erased."""
        with self._locked("the round cannot be noted"):
            files.replace_durably(self._note_path, note.to_bytes())

    def write(self, state: bytes, outgoing: bytes) -> None:
        lengths = _LENGTHS.pack(len(state), len(outgoing))
        content = MAGIC % formats.JOURNAL.writes + lengths + state + outgoing
        with self._locked("the journal cannot be kept"):
            files.replace_durably(self._path, content + sha256(content).digest())

    def read(self) -> tuple[bytes, bytes] | None:
        with self._locked("the journal cannot be read"):
            if not self._path.exists():
                return None
            content = self._path.read_bytes()
        files.require_private(self._path)
        return self._parsed(content)

    def erase(self) -> None:
        """After the round. The disk may keep what the file held: see docs/limits.md."""
        with self._locked("the journal cannot be erased"):
            files.remove_durably(self._path)  # the secrets first
            files.remove_durably(self._note_path)

    def _parsed(self, content: bytes) -> tuple[bytes, bytes]:
        numbered = _NUMBERED.match(content)
        if numbered is None:
            raise self._refused("the journal is damaged")
        formats.readable(formats.JOURNAL, int(numbered[1]), self._refused)
        kept, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
        start = numbered.end() + _LENGTHS.size
        if len(kept) < start or sha256(kept).digest() != digest:
            raise self._refused("the journal is damaged")
        length, outgoing = _LENGTHS.unpack(kept[numbered.end() : start])
        if start + length + outgoing != len(kept):
            raise self._refused("the journal is damaged")
        state = kept[start : start + length]
        number = format_of(state)
        if number is not None:  # the round's own machine says whether it is its memory
            formats.readable(formats.MEMORY, number, self._refused)
        return state, kept[start + length :]

    @contextmanager
    def _locked(self, otherwise: str) -> Iterator[None]:
        """The block needs the lock; `otherwise` is what an error of its files means."""
        if self._lock is None:
            raise Refused("the journal is not open", where=str(self._path))
        try:
            yield
        except OSError as error:
            raise self._refused(f"{otherwise}: {error.strerror}") from None

    def _refused(self, why: str, hint: str | None = "stay out of this round") -> Refused:
        return Refused(why, where=str(self._path), hint=hint)
