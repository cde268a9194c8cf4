"""A release directory: everything about a release in files that anyone can open.

    release.json        provenance, the tables' files, a digest of every file
    plan.cbor           the plan, as it was agreed on
    measurement.npy     M̂, 64-bit little-endian integers in NumPy's format
    tables/NAME.csv     one table an item, and the same as NAME.parquet
    answers.svg         the picture of `release.plot()`
    transcript.cbor     the round's transcript, if the release has one

The plan and the measurement are the release; the rest follows from them and is there for people.
The digests tell a damaged directory from a whole one, not a forger from an honest coordinator: that
takes the round's transcript. docs/releases.md describes the format.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import secrets
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dhdmm import formats
from dhdmm.errors import ReleaseError
from dhdmm.optional import optional_module
from dhdmm.planning.plan import Plan
from dhdmm.release.intervals import DEFAULT_LEVEL
from dhdmm.release.made import FIRST, Made, are_formats, formats_of, is_date
from dhdmm.release.release import Release
from dhdmm.release.tables import Table
from dhdmm.release.transcript import Transcript

fcntl = optional_module("fcntl")

DRAFT_BYTES = 8
MANIFEST, PLAN, MEASUREMENT, PICTURE, TRANSCRIPT = (
    "release.json",
    "plan.cbor",
    "measurement.npy",
    "answers.svg",
    "transcript.cbor",
)
LONGEST_NAME = 60
NO_FILE_NAMES = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{i}" for port in ("com", "lpt") for i in range(10))]
)
"""What Windows keeps for devices."""

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
PlainPath = Annotated[str, Field(pattern=r"^(tables/)?[A-Za-z0-9][A-Za-z0-9_-]*\.[a-z]+$")]


class TableFiles(BaseModel):
    """Where one table of the release is."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    item: str
    queries: int
    csv: PlainPath
    parquet: PlainPath


class Manifest(BaseModel):
    """What release.json says."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    format: int
    provenance: dict[str, str | int | float | dict[str, int] | None]
    level: float
    tables: list[TableFiles]
    files: dict[PlainPath, Digest]


# ---- writing ------------------------------------------------------------------------------------


def save(release: Release, directory: Path, overwrite: bool = False) -> None:
    """Write the directory as a whole or not at all: beside its place first, then renamed."""
    directory = Path(directory).resolve()
    with _os_errors(directory):
        _check_free(directory, overwrite)
        directory.parent.mkdir(parents=True, exist_ok=True)
        remove_left_overs(directory)
        draft = directory.with_name(f".{directory.name}.{secrets.token_hex(DRAFT_BYTES)}")
        draft.mkdir()
        try:
            with _held(draft):
                _write_files(release, draft)
                _put_in_place(draft, directory)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def remove_left_overs(directory: Path) -> None:
    """What processes that were killed while they saved this release have left beside its place."""
    name = re.compile(rf"\.{re.escape(directory.name)}\.[0-9a-f]{{{2 * DRAFT_BYTES}}}")
    if directory.parent.is_dir():
        for draft in directory.parent.iterdir():
            if name.fullmatch(draft.name):
                with suppress(FileNotFoundError), _held(draft) as ours:
                    if ours:
                        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """A lock, which ends with its process. Whether we have it: folders may be another's, or on a
    system that has no locks for them.
    """
    if fcntl is None:
        yield False
        return
    opened, ours = os.open(folder, os.O_RDONLY), False
    try:
        with suppress(OSError):
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours = True
        yield ours
    finally:
        os.close(opened)


def _check_free(directory: Path, overwrite: bool) -> None:
    """What is not a release is never replaced, whoever asks."""
    if not directory.exists():
        return
    if not directory.is_dir():
        raise ReleaseError("a file is in the way", where=str(directory))
    if any(directory.iterdir()):
        if not (directory / MANIFEST).is_file():
            raise ReleaseError("the directory has other files in it", where=str(directory))
        if not overwrite:
            raise ReleaseError(
                "there is a release already", where=str(directory), hint="choose another directory"
            )


def _write_files(release: Release, root: Path) -> None:
    (root / "tables").mkdir()
    (root / PLAN).write_bytes(release.plan.to_bytes())
    (root / MEASUREMENT).write_bytes(_encode_measurement(release.measurement))
    if release.transcript is not None:
        (root / TRANSCRIPT).write_bytes(release.transcript.to_bytes())
    tables = list(release.values())
    entries = table_files(tables)
    for table, entry in zip(tables, entries, strict=True):
        table.to_csv(root / entry.csv)
        table.to_parquet(root / entry.parquet)
    release.plot(path=root / PICTURE)
    written = sorted(path for path in root.rglob("*") if path.is_file())
    manifest = Manifest(
        format=formats.RELEASE.writes,
        provenance=release.provenance(),
        level=DEFAULT_LEVEL,
        tables=entries,
        files={path.relative_to(root).as_posix(): _file_digest(path) for path in written},
    )
    text = json.dumps(manifest.model_dump(), indent=2, ensure_ascii=False)
    (root / MANIFEST).write_text(text + "\n", encoding="utf-8")
    for path in (*written, root / MANIFEST):
        _flush(path)


def table_files(tables: Sequence[Table]) -> list[TableFiles]:
    """Where each table of a release is."""
    return [
        TableFiles(
            item=table.name,
            queries=len(table),
            csv=f"tables/{stem}.csv",
            parquet=f"tables/{stem}.parquet",
        )
        for table, stem in zip(tables, file_stems(table.name for table in tables), strict=True)
    ]


def _put_in_place(draft: Path, directory: Path) -> None:
    """A rename, which either happens or does not; a release in its place makes room first."""
    if directory.exists() and any(directory.iterdir()):
        old = draft.with_name(draft.name + ".old")
        directory.rename(old)
        draft.rename(directory)
        shutil.rmtree(old)
    else:
        draft.rename(directory)


def file_stems(names: Iterable[str]) -> list[str]:
    """A file name for every item: plain ASCII, and different even where case is not seen.

    >>> file_stems(["pairs", "../Pairs", "Männer & Frauen", "表"])
    ['pairs', 'Pairs-2', 'Manner-Frauen', 'table']
    """
    taken, stems = set(NO_FILE_NAMES), []
    for name in names:
        letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", letters).strip("-_")[:LONGEST_NAME] or "table"
        free = stem
        for i in range(2, len(taken) + 2):
            if free.casefold() not in taken:
                break
            free = f"{stem}-{i}"
        taken.add(free.casefold())
        stems.append(free)
    return stems


def _encode_measurement(measurement: NDArray[np.int64]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, measurement.astype("<i8"), allow_pickle=False)
    return buffer.getvalue()


def _flush(path: Path) -> None:
    """Down to the disk: a round cannot be repeated if the power fails."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


# ---- reading ------------------------------------------------------------------------------------


def load(directory: Path) -> Release:
    """The release in a directory; refuses one with a missing, changed or contradictory file."""
    root = Path(directory)
    with _os_errors(root):
        manifest = read_manifest(root)
        contents: dict[str, bytes] = {}
        for name, digest in manifest.files.items():
            content = _intact(root / name, digest)
            if name in (PLAN, MEASUREMENT, TRANSCRIPT):
                contents[name] = content
    for name in (PLAN, MEASUREMENT):
        if name not in contents:
            raise ReleaseError(f"{name} is not among its files", where=str(root / MANIFEST))
    plan = Plan.from_bytes(contents[PLAN])
    if not plan.strategy.contains(plan.study.workload):
        raise ReleaseError("the plan's strategy does not answer its study", where=str(root / PLAN))
    measurement = _decode_measurement(contents[MEASUREMENT], plan.strategy.rows, root)
    release = _release(manifest, plan, measurement, str(root / MANIFEST))
    if TRANSCRIPT not in contents:
        return release
    return replace(release, transcript=Transcript.from_bytes(contents[TRANSCRIPT]))


def read_manifest(root: Path) -> Manifest:
    """What release.json says, if it is of a format that this version reads."""
    path = root / MANIFEST
    if not path.is_file():
        raise ReleaseError(f"this is not a release: it has no {MANIFEST}", where=str(root))
    content = path.read_bytes()
    _check_format(content, path)
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ReleaseError(
            f"{key}: {first['msg']}" if key else first["msg"], where=str(path)
        ) from None


def _check_format(content: bytes, path: Path) -> None:
    """The number first; whatever else is wrong is for the model to say."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return
    if isinstance(document, dict) and "format" in document:
        stated = document.get("provenance")
        maker = stated.get("dhdmm") if isinstance(stated, dict) else None
        refusal = partial(ReleaseError, where=str(path))
        formats.readable(formats.RELEASE, document["format"], refusal, maker)


def _intact(path: Path, digest: str) -> bytes:
    """The very bytes that the digest is of."""
    if not path.is_file():
        raise ReleaseError("the file is missing", where=str(path))
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise ReleaseError(
            "the file was changed after the release was written",
            where=str(path),
            hint="get the directory again from where it was published",
        )
    return content


def _decode_measurement(encoded: bytes, rows: int, root: Path) -> NDArray[np.int64]:
    """The header is read first: what it promises is not allocated before it is what is needed."""
    where, file = str(root / MEASUREMENT), io.BytesIO(encoded)
    try:
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    except ValueError:
        raise ReleaseError("not an array in NumPy's format", where=where) from None
    if dtype != np.dtype("<i8"):
        raise ReleaseError("not 64-bit integers", where=where)
    content = file.read()
    if shape != (rows,) or len(content) != 8 * rows:
        raise ReleaseError(f"not {rows:,} numbers, the rows of the plan", where=where)
    return np.frombuffer(content, "<i8").astype(np.int64)


def _release(manifest: Manifest, plan: Plan, measurement: NDArray[np.int64], where: str) -> Release:
    """The release, if release.json says of it what its plan says."""
    stated = manifest.provenance
    survivors, round_id = stated.get("survivors"), stated.get("round")
    fewest, most = plan.parameters.minimum_survivors, plan.participants
    if not (isinstance(survivors, int) and fewest <= survivors <= most):
        raise ReleaseError(f"survivors: the plan allows {fewest} to {most}", where=where)
    if not (isinstance(round_id, str) and re.fullmatch("([0-9a-f]{2})*", round_id)):
        raise ReleaseError("round: not a hexadecimal number", where=where)
    unremoved = stated.get("unremoved", 0)
    if not (isinstance(unremoved, int) and 0 <= unremoved <= survivors):
        raise ReleaseError("unremoved: not a number of survivors", where=where)
    made = _made(manifest, plan, where)
    release = Release(plan, bytes.fromhex(round_id), survivors, measurement, None, made, unremoved)
    unsaid = ("date", "formats") if manifest.format == 1 else ()
    derived = {key: fact for key, fact in release.provenance().items() if key not in unsaid}
    for key in derived.keys() | stated.keys():
        if not _same(derived.get(key), stated.get(key)):
            raise ReleaseError(f"{key}: {stated.get(key)!r} contradicts the plan", where=where)
    return release


def _made(manifest: Manifest, plan: Plan, where: str) -> Made:
    """What made the release, as it was stored; format 1 has neither date nor formats."""
    unsaid = {"date": None, "formats": FIRST} if manifest.format == 1 else {}
    stated = {**manifest.provenance, **unsaid}
    maker, date, numbers = (stated.get(key) for key in ("dhdmm", "date", "formats"))
    if not formats.is_maker(maker):
        raise ReleaseError("dhdmm: not the number of a version", where=where)
    if not is_date(date):
        raise ReleaseError("date: not a date and time in UTC", where=where)
    if not are_formats(numbers) or not formats_of(plan).items() <= numbers.items():
        raise ReleaseError(f"formats: {numbers!r} contradicts the plan", where=where)
    return Made(maker, date, numbers)


def _same(derived: Any, stated: Any) -> bool:
    """Equal; an ε may differ in its last digits between versions of a library."""
    if isinstance(derived, float) and isinstance(stated, (int, float)):
        return math.isclose(derived, stated, rel_tol=1e-9)
    return bool(derived == stated)


# ---- both ---------------------------------------------------------------------------------------


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _os_errors(directory: Path) -> Iterator[None]:
    """No traceback for a full disk or a directory that is not ours."""
    try:
        yield
    except OSError as error:
        where = str(error.filename or directory)
        raise ReleaseError(error.strerror or str(error), where=where) from None
