"""A directory beside its transcript: every table holds the derived answers, or is named."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from dhdmm.errors import DhdmmError, ReleaseError, VerificationError
from dhdmm.release.published import Comparison, compare
from dhdmm.release.release import Release
from dhdmm.release.verify import verify
from tests.release.transcripts import released, transcript_of

CHANGES = 60
TABLE = "tables/both"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("saved") / "release"
    released("malicious").save(directory)
    return directory


@pytest.fixture(scope="module")
def derived() -> Release:
    return verify(transcript_of(released("malicious"))).release


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    return shutil.copytree(saved, tmp_path / "copy")


def accept_file(directory: Path, name: str) -> None:
    """Write the digest of a changed file, as somebody would who knows the format."""
    path = directory / "release.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["files"][name] = hashlib.sha256((directory / name).read_bytes()).hexdigest()
    path.write_text(json.dumps(manifest), encoding="utf-8")


def rewrite(directory: Path, table: pa.Table, suffix: str) -> None:
    name = f"{TABLE}.{suffix}"
    write = pa.csv.write_csv if suffix == "csv" else pa.parquet.write_table
    write(table, str(directory / name))
    accept_file(directory, name)


def with_column(table: pa.Table, name: str, values: object) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, pa.array(values))


def test_tables_are_the_derived_ones_to_the_byte(saved: Path, derived: Release) -> None:
    assert compare(derived, saved) == Comparison(files=4, identical=4)


def test_the_transcript_is_saved_with_the_release_and_read_back(
    saved: Path, tmp_path: Path
) -> None:
    transcript = transcript_of(released("malicious"))
    assert (saved / "transcript.cbor").read_bytes() == transcript.to_bytes()
    Release.load(saved).save(tmp_path / "again")
    assert (tmp_path / "again" / "transcript.cbor").read_bytes() == transcript.to_bytes()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_each_changed_byte_of_a_table_is_detected(
    copy: Path, derived: Release, suffix: str
) -> None:
    path, generator = copy / f"{TABLE}.{suffix}", random.Random(9)
    content = path.read_bytes()
    for _ in range(CHANGES):
        changed = bytearray(content)
        changed[generator.randrange(len(content))] ^= generator.randrange(1, 256)
        path.write_bytes(changed)
        with pytest.raises(ReleaseError, match="was changed"):
            compare(derived, copy)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("column", ["value", "standard_error", "low", "high"])
def test_numbers_changed_along_with_their_digest_are_detected(
    copy: Path, derived: Release, suffix: str, column: str
) -> None:
    table = derived["both"].to_arrow()
    values = table[column].to_numpy().copy()
    values[7] += table["standard_error"][7].as_py() / 1000
    rewrite(copy, with_column(table, column, values), suffix)
    with pytest.raises(VerificationError, match=f"row 8: {column} is"):
        compare(derived, copy)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda t: t.take([1, 0, *range(2, len(t))]), "labels under"),
        (lambda t: t.slice(1), "other columns or rows"),
        (lambda t: pa.concat_tables([t, t.slice(0, 1)]), "other columns or rows"),
        (lambda t: t.drop_columns(["high"]), "other columns or rows|cannot be read"),
        (lambda t: t.append_column("note", t["value"]), "other columns or rows"),
        (lambda t: t.rename_columns(["years", *t.column_names[1:]]), "other columns|cannot be"),
        (lambda t: with_column(t, "value", [float("nan")] * len(t)), "row 1: value"),
        (lambda t: with_column(t, "value", [float("inf")] * len(t)), "row 1: value"),
        (lambda t: with_column(t, "sex", ["F"] * len(t)), "labels under 'sex'"),
    ],
    ids=["swapped", "fewer", "more", "no-column", "new-column", "renamed", "nan", "inf", "label"],
)
def test_other_content_is_detected(
    copy: Path, derived: Release, suffix: str, change, complaint: str
) -> None:
    rewrite(copy, change(derived["both"].to_arrow()), suffix)
    with pytest.raises(VerificationError, match=complaint):
        compare(derived, copy)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_another_machines_rounding_is_accepted_and_told(
    copy: Path, derived: Release, suffix: str
) -> None:
    table = derived["both"].to_arrow()
    rewrite(copy, with_column(table, "value", np.nextafter(table["value"], np.inf)), suffix)
    assert compare(derived, copy) == Comparison(files=4, identical=3)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_garbage_in_place_of_a_table_is_refused(copy: Path, derived: Release, suffix: str) -> None:
    for garbage in (b"", b"\xff" * 100, b"PAR1PAR1"):
        (copy / f"{TABLE}.{suffix}").write_bytes(garbage)
        accept_file(copy, f"{TABLE}.{suffix}")
        with pytest.raises(VerificationError):
            compare(derived, copy)


def test_a_table_that_release_json_forgets_is_still_compared(copy: Path, derived: Release) -> None:
    path = copy / "release.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    del manifest["files"][f"{TABLE}.csv"]
    path.write_text(json.dumps(manifest), encoding="utf-8")
    (copy / f"{TABLE}.csv").write_text("age,sex\n")
    with pytest.raises(VerificationError):
        compare(derived, copy)
    (copy / f"{TABLE}.csv").unlink()
    with pytest.raises(VerificationError, match="cannot be read"):
        compare(derived, copy)


@pytest.mark.parametrize("change", [{"level": 0.9}, {"tables": []}])
def test_another_level_or_list_of_tables_is_refused(
    copy: Path, derived: Release, change: dict[str, object]
) -> None:
    path = copy / "release.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(manifest | change), encoding="utf-8")
    with pytest.raises(VerificationError, match="other tables or another level"):
        compare(derived, copy)


def test_the_release_of_another_round_is_refused(derived: Release, tmp_path: Path) -> None:
    released("semi-honest").save(tmp_path / "other")
    with pytest.raises(VerificationError, match="another plan or round"):
        compare(derived, tmp_path / "other")


@pytest.mark.parametrize(
    ("survivors", "shift", "complaint"), [(12, 0, "other survivors"), (11, 1, "other measurement")]
)
def test_a_release_that_says_otherwise_is_refused(
    derived: Release, tmp_path: Path, survivors: int, shift: int, complaint: str
) -> None:
    other = Release(derived.plan, derived.round_id, survivors, derived.measurement + shift)
    other.save(tmp_path / "other")
    with pytest.raises(VerificationError, match=complaint):
        compare(derived, tmp_path / "other")


def test_a_directory_that_is_no_release_is_refused(derived: Release, tmp_path: Path) -> None:
    with pytest.raises(DhdmmError, match="not a release"):
        compare(derived, tmp_path)
