"""Release directories: whole or not there, read back bit for bit, refused when changed."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dhdmm.errors import DhdmmError, ReleaseError
from dhdmm.release import directory
from dhdmm.release.charts import page
from dhdmm.release.directory import LONGEST_NAME, NO_FILE_NAMES, file_stems
from dhdmm.release.release import Release
from tests.release.releases import release_of, study_of

SIMPLE = study_of("  - {name: sexes, by: [sex], with_totals: [sex]}")
OTHER = study_of("  - {name: sexes, by: [sex]}")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    directory = tmp_path_factory.mktemp("saved") / "release"
    release_of(SIMPLE).save(directory)
    return directory


@pytest.fixture
def copy(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "copy")


def rewrite(directory, name, content: bytes) -> None:
    """Change a file and its digest, as somebody would who knows the format."""
    (directory / name).write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    edit(directory, lambda manifest: manifest["files"].update({name: digest}))


def edit(directory, change) -> None:
    path = directory / "release.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    change(manifest)
    path.write_text(json.dumps(manifest), encoding="utf-8")


def npy(array, **options) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


KILLED = """
import os, signal, sys
from pathlib import Path
from dhdmm.release import directory
from dhdmm.release.release import Release
directory._flush = lambda _path: os.kill(os.getpid(), signal.SIGKILL)
Release.load(Path(sys.argv[1])).save(Path(sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.fault(46)
def test_what_killed_processes_left_is_removed_by_the_next_that_saves(saved, tmp_path):
    place = tmp_path / "release"
    for kills in (1, 2):
        killed = subprocess.run([sys.executable, "-c", KILLED, str(saved), str(place)])
        assert killed.returncode == -signal.SIGKILL
        assert len(list(tmp_path.glob(".release.*"))) == 1, f"after {kills} kills"
    Release.load(saved).save(place)
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.fault(46)
def test_only_what_nobody_writes_any_more_is_removed(saved, tmp_path):
    """Neither another process's draft, nor what only looks like one."""
    written, gone = (tmp_path / f".release.{digit * 16}" for digit in "ab")
    others = [tmp_path / name for name in (".release.old", ".release", ".other." + "a" * 16)]
    for folder in (written, gone, *others):
        folder.mkdir()
    with directory._held(written) as ours:
        assert ours
        Release.load(saved).save(tmp_path / "release")
    assert set(tmp_path.iterdir()) == {tmp_path / "release", written, *others}


def test_round_trip_is_bit_identical(tmp_path):
    release = release_of()
    release.save(tmp_path / "r")
    loaded = Release.load(tmp_path / "r")
    assert loaded.plan.to_bytes() == release.plan.to_bytes()
    assert loaded.measurement.dtype == np.int64
    assert np.array_equal(loaded.measurement, release.measurement)
    assert np.array_equal(loaded.answers, release.answers)
    assert np.array_equal(loaded.standard_errors, release.standard_errors)
    assert loaded.provenance() == release.provenance()


def test_a_release_read_back_writes_the_same_files(saved, tmp_path):
    Release.load(saved).save(tmp_path / "again")
    for name in ("plan.cbor", "measurement.npy", "tables/sexes.csv", "tables/sexes.parquet"):
        assert (saved / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_the_directory_holds_what_the_documentation_lists(saved):
    names = sorted(p.relative_to(saved).as_posix() for p in saved.rglob("*") if p.is_file())
    assert names == [
        "answers.svg",
        "measurement.npy",
        "plan.cbor",
        "release.json",
        "tables/sexes.csv",
        "tables/sexes.parquet",
    ]
    manifest = json.loads((saved / "release.json").read_text(encoding="utf-8"))
    assert sorted([*manifest["files"], "release.json"]) == names


@pytest.mark.parametrize(
    "name", ["plan.cbor", "measurement.npy", "tables/sexes.csv", "answers.svg"]
)
def test_any_changed_byte_is_detected(copy, name):
    content = (copy / name).read_bytes()
    for position in np.linspace(0, len(content) - 1, 9).astype(int):
        changed = bytearray(content)
        changed[position] ^= 1
        (copy / name).write_bytes(changed)
        with pytest.raises(ReleaseError, match=rf"{name}: the file was changed"):
            Release.load(copy)


def test_a_release_whose_picture_is_a_png_is_read_and_checked(copy):
    """As those of format 2 had it before 0.2.0 came out."""
    text = (copy / "release.json").read_text(encoding="utf-8")
    (copy / "release.json").write_text(text.replace("answers.svg", "answers.png"), encoding="utf-8")
    (copy / "answers.svg").rename(copy / "answers.png")
    assert len(Release.load(copy)) == 1
    (copy / "answers.png").write_bytes(b"another picture")
    with pytest.raises(ReleaseError, match=r"answers\.png: the file was changed"):
        Release.load(copy)


@pytest.mark.parametrize("name", ["plan.cbor", "measurement.npy", "tables/sexes.parquet"])
def test_a_missing_or_shortened_file_is_refused(copy, name):
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[:-1])
    with pytest.raises(ReleaseError, match="changed"):
        Release.load(copy)
    (copy / name).unlink()
    with pytest.raises(ReleaseError, match="missing"):
        Release.load(copy)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not an array"),
        (b"\x93NUMPY\x01\x00", "not an array"),
        (npy(np.array([object()]), allow_pickle=True), "not 64-bit integers"),
        (npy(np.zeros(3)), "not 64-bit integers"),
        (npy(np.zeros(7, np.int64)), "not 2 numbers"),
        (npy(np.zeros((1, 2), np.int64)), "not 2 numbers"),
        (npy(np.zeros(2, np.int64))[:-1], "not 2 numbers"),
        (npy(np.zeros(2, np.int64)).replace(b"(2,), }   ", b"(9999,), }"), "not 2 numbers"),
        (b"PK\x03\x04" + bytes(40), "not an array"),
    ],
)
def test_a_measurement_that_is_none_is_refused(copy, content, complaint):
    rewrite(copy, "measurement.npy", content)
    with pytest.raises(ReleaseError, match=complaint):
        Release.load(copy)


def test_the_plan_of_another_release_is_refused(copy):
    rewrite(copy, "plan.cbor", release_of(OTHER).plan.to_bytes())
    with pytest.raises(DhdmmError):
        Release.load(copy)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda m: m.update(format=3), "made by dhdmm .*, release format 3; this is dhdmm"),
        (lambda m: m.update(format="2"), "not the number of a release format"),
        (lambda m: m.update(format=1), "contradicts the plan"),
        (lambda m: m["provenance"].update(dhdmm="0.2\n0.3"), "dhdmm: not the number"),
        (lambda m: m["provenance"].update(date="yesterday"), "date: not a date"),
        (lambda m: m["provenance"].pop("formats"), "formats"),
        (lambda m: m["provenance"]["formats"].update(plan=1), "formats: .* contradicts the plan"),
        (lambda m: m.update(more=1), "more"),
        (lambda m: m.pop("files"), "files"),
        (lambda m: m["files"].pop("plan.cbor"), "plan.cbor is not among its files"),
        (lambda m: m["files"].update({"../secret.txt": "0" * 64}), "files"),
        (lambda m: m["files"].update({"/etc/passwd": "0" * 64}), "files"),
        (lambda m: m["provenance"].update(survivors=60.5), "survivors"),
        (lambda m: m["provenance"].update(survivors=3), "survivors: the plan allows"),
        (lambda m: m["provenance"].update(survivors=61), "survivors: the plan allows"),
        (lambda m: m["provenance"].pop("round"), "round"),
        (lambda m: m["provenance"].update(round="xy"), "round"),
        (lambda m: m["provenance"].update(epsilon=0.1), "epsilon: 0.1 contradicts the plan"),
        (lambda m: m["provenance"].update(study="else"), "study: 'else' contradicts the plan"),
        (lambda m: m["provenance"].update(plan_digest="00" * 32), "plan_digest"),
        (lambda m: m["provenance"].update(approved="yes"), "approved"),
    ],
)
def test_a_release_file_that_contradicts_is_refused(copy, change, complaint):
    edit(copy, change)
    with pytest.raises(ReleaseError, match=complaint):
        Release.load(copy)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_a_release_file_that_is_none_is_refused(copy, content):
    (copy / "release.json").write_bytes(content)
    with pytest.raises(ReleaseError, match=re.escape("release.json")):
        Release.load(copy)


def test_what_is_no_release_is_refused(tmp_path):
    with pytest.raises(ReleaseError, match="not a release"):
        Release.load(tmp_path)
    with pytest.raises(ReleaseError, match="not a release"):
        Release.load(tmp_path / "nowhere")


def test_an_existing_release_is_replaced_only_on_request(copy):
    other = release_of(OTHER)
    with pytest.raises(ReleaseError, match="there is a release already"):
        other.save(copy)
    assert Release.load(copy).plan.digest != other.plan.digest
    other.save(copy, overwrite=True)
    assert Release.load(copy).plan.digest == other.plan.digest
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]


def test_other_peoples_files_are_never_replaced(tmp_path):
    (tmp_path / "thesis.txt").write_text("ten years of work")
    for target in (tmp_path, tmp_path / "thesis.txt"):
        with pytest.raises(ReleaseError, match=r"other files|in the way"):
            release_of(SIMPLE).save(target, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_empty_directory_and_missing_parents_are_fine(tmp_path):
    (tmp_path / "empty").mkdir()
    for target in (tmp_path / "empty", tmp_path / "a" / "b"):
        release_of(SIMPLE).save(target)
        assert Release.load(target).survivors == 57


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_failure_halfway_leaves_nothing_behind(copy, monkeypatch, failure):
    def fail(*_arguments):
        raise failure

    before = Release.load(copy).plan.digest
    monkeypatch.setattr(page, "plot", fail)
    for target in (copy.parent / "new", copy):
        with pytest.raises((KeyboardInterrupt, ReleaseError)):
            release_of(OTHER).save(target, overwrite=True)
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]
    assert Release.load(copy).plan.digest == before


def test_items_with_hostile_names_are_saved_inside_the_directory(tmp_path):
    names = ["../x", "a/b", "a\\b", "A-B", "CON", "..", "表", "=1+1", "<b>", "$x$ [red]", "n" * 100]
    items = "\n".join(
        f"  - {{name: {json.dumps(n, ensure_ascii=False)}, by: [sex]}}" for n in names
    )
    release = release_of(study_of(items))
    release.save(tmp_path / "r")
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
    assert len(list((tmp_path / "r" / "tables").iterdir())) == 2 * len(names)
    assert list(Release.load(tmp_path / "r")) == names


@given(st.lists(st.text(max_size=120), max_size=20))
@example(["a", "A", "a-2", "a", "A-2"])
@example(["nul", "NUL", "Nul"])
@example(["x" * 100, "x" * 101])
def test_file_names_are_plain_and_differ_even_without_case(names):
    stems = file_stems(names)
    assert len({stem.casefold() for stem in stems}) == len(names)
    for stem in stems:
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", stem)
        assert stem.casefold() not in NO_FILE_NAMES
        assert len(stem) <= LONGEST_NAME + 4
