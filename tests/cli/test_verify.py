"""`dhdmm verify`: what it prints, and how it fails."""

import json
import shutil
from pathlib import Path

import pytest

from dhdmm.release.transcript import Transcript
from tests.cli.commands import Shell
from tests.release.transcripts import released, transcript_of
from tests.round.small import small_text


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("saved") / "release"
    released("malicious").save(directory)
    return directory


@pytest.fixture
def shell(
    saved: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    shutil.copytree(saved, tmp_path / "release")
    return Shell(tmp_path, monkeypatch, capsys)


FILE = "release/transcript.cbor"
KEY = transcript_of(released("malicious")).key.hex()


def test_says_what_was_checked_and_who_signed(shell: Shell) -> None:
    said = shell("verify", FILE, "--release", "release")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0] == "✓ 12 entries linked by hash and signed"
    assert "✓ the sum recomputed from 69 messages" in lines
    assert "✓ 4 table files hold these answers, 4 to the byte" in lines
    assert lines[-2] == f"signed with {KEY}"
    assert "nobody vouched for this key" in lines[-1]


def test_a_directory_means_its_transcript_and_its_tables(shell: Shell) -> None:
    said = shell("verify", "release", "--json")
    document = json.loads(said.out)
    assert (document["transcript"], document["release"]) == (FILE, "release")
    assert document["verified"] is document["full"] is True
    assert document["key"] == KEY
    assert document["key_pinned"] is False
    assert document["provenance"] == released("malicious").provenance()


def test_the_right_key_is_told_as_given(shell: Shell) -> None:
    said = shell("verify", FILE, "--key", KEY)
    assert said.code == 0
    assert said.out.endswith("as given\n")


def test_another_key_is_refused(shell: Shell) -> None:
    said = shell("verify", FILE, "--key", "00" * 32)
    assert (said.code, said.out) == (4, "")
    assert said.err.startswith(f"error: signed with the key {KEY}, not with the one given\n")


@pytest.mark.parametrize("key", ["xy", "00", "0" * 63])
def test_what_is_no_key_is_a_wrong_command(shell: Shell, key: str) -> None:
    said = shell("verify", FILE, "--key", key)
    assert said.code == 2
    assert "64 hexadecimal digits" in said.err


def test_a_changed_byte_of_the_transcript_has_a_reason_and_code_4(shell: Shell) -> None:
    path = shell.folder / FILE
    content = bytearray(path.read_bytes())
    place = content.index(transcript_of(released("malicious")).account.plan[-40:])
    content[place] ^= 1
    path.write_bytes(content)
    said = shell("verify", FILE)
    assert (said.code, said.out) == (4, "")
    assert said.err == (
        "error: transcript (plan): an entry commits to something else than what is there: one of"
        " the two was changed\n"
    )


def test_a_changed_byte_of_a_table_names_the_file(shell: Shell) -> None:
    path = shell.folder / "release/tables/young.csv"
    path.write_bytes(path.read_bytes().replace(b"1", b"7", 1))
    said = shell("verify", FILE, "--release", "release")
    assert (said.code, said.out) == (3, "")
    assert "release/tables/young.csv: the file was changed" in said.err
    assert shell("verify", FILE).code == 0


def test_a_file_that_is_no_transcript_has_code_3(shell: Shell) -> None:
    said = shell("verify", "release/release.json")
    words = (
        "error: release/release.json: transcript: not a CBOR value\n"
        "  hint: give a release directory, or the transcript.cbor in it\n"
    )
    assert (said.code, said.err) == (3, words)
    said = shell("verify", "nowhere.cbor")
    assert (said.code, said.err) == (
        3,
        "error: nowhere.cbor: cannot read the transcript: No such file or directory\n",
    )


@pytest.mark.slow
def test_a_round_run_here_verifies_with_the_key_it_printed(shell: Shell) -> None:
    (shell.folder / "study.yaml").write_text(small_text())
    table = "age,sex\n" + "".join(f"{i % 10},{'FM'[i % 2]}\n" for i in range(300))
    (shell.folder / "table.csv").write_text(table)
    ran = ["run", "study.yaml", "--data", "table.csv", "--participants", "12", "--json"]
    for more, full in (([], False), (["--full-transcript"], True)):
        directory = f"ran-{full}"
        document = json.loads(shell(*ran, "--out", directory, *more).out)
        assert (
            Transcript.from_bytes((shell.folder / directory / "transcript.cbor").read_bytes()).full
            is full
        )
        assert shell("verify", directory, "--key", document["transcript_key"]).code == 0
