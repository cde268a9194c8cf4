"""Who somebody is, and who vouches for a list of them."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.roster import KeyIndex
from dhdmm.errors import DhdmmError, Refused
from dhdmm.network import identity
from dhdmm.network import roster as roster_files
from dhdmm.network.identity import PublicIdentity
from dhdmm.network.roster import Pin, RosterFile, roster_of
from dhdmm.participant.policy import PolicyReason, PolicyRefusal
from tests.protocol.network import Stream

REGISTRAR, COORDINATOR = (Identity.generate(Stream(name)) for name in ("registrar", "coordinator"))


def member(name: str, seed: str | None = None) -> PublicIdentity:
    key = Identity.generate(Stream(seed or name)).public
    return PublicIdentity(name=name, key=key.hex())


MEMBERS = [member("north"), member("river"), member("south")]
ROSTER = roster_of(MEMBERS)
SIGNED = RosterFile.signed(ROSTER, REGISTRAR)


def test_an_identity_comes_back_from_its_file_and_only_its_owner_can_read_it(tmp_path: Path):
    path = tmp_path / "north.identity"
    made = identity.create(path, "north", Stream(1))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    loaded = identity.load(path)
    assert (loaded.name, loaded.identity.public) == ("north", made.identity.public)
    assert loaded.identity.seed.hex() not in repr(loaded) + repr(loaded.identity)


def test_an_identity_that_others_can_read_is_refused(tmp_path: Path):
    path = tmp_path / "north.identity"
    identity.create(path, "north", Stream(1))
    path.chmod(0o640)
    with pytest.raises(Refused, match="open to other users"):
        identity.load(path)


def test_an_existing_identity_is_never_overwritten(tmp_path: Path):
    path = tmp_path / "north.identity"
    identity.create(path, "north", Stream(1))
    before = path.read_bytes()
    with pytest.raises(DhdmmError, match="exists"):
        identity.create(path, "north", Stream(2))
    assert path.read_bytes() == before


def test_errors_about_an_identity_do_not_show_its_secret(tmp_path: Path):
    path = tmp_path / "north.identity"
    secret = identity.create(path, "north", Stream(1)).identity.seed.hex()
    document = json.loads(path.read_text())
    for change in ({"more": 1}, {"public": "00" * 32}, {"secret": secret + "0"}, {"name": "a\nb"}):
        path.write_text(json.dumps(document | change))
        with pytest.raises(DhdmmError) as refused:
            identity.load(path)
        assert secret not in str(refused.value)


@pytest.mark.parametrize("name", ["", " north", "a\x1b[2Jb", "a\nb", "x" * 101])
def test_a_name_that_cannot_be_shown_is_refused(tmp_path: Path, name: str):
    with pytest.raises(DhdmmError, match="the name"):
        identity.create(tmp_path / "file", name, Stream(1))
    assert not (tmp_path / "file").exists()


def test_the_public_half_has_no_secret(tmp_path: Path):
    made = identity.create(tmp_path / "a", "north", Stream(1))
    identity.export_public(made.public, tmp_path / "public")
    assert identity.load_public(tmp_path / "public") == made.public
    assert made.identity.seed.hex() not in (tmp_path / "public").read_text()


def test_a_roster_file_comes_back_with_its_signature():
    read = RosterFile.from_bytes(SIGNED.to_bytes())
    assert read == SIGNED
    assert read.is_signed_by(REGISTRAR.public)
    assert not read.is_signed_by(COORDINATOR.public)


@pytest.mark.fault(19)
@pytest.mark.parametrize(
    "more", [member("north", "somebody else"), member("another name", "north")]
)
def test_one_name_one_seat_and_one_identity_one_seat(more: PublicIdentity):
    with pytest.raises(Refused, match="on the roster already"):
        roster_of([*MEMBERS, more])


@pytest.mark.parametrize("change", ["swapped", "renamed", "longer", "half a signature"])
def test_a_changed_roster_file_is_refused(change: str):
    document = json.loads(SIGNED.to_bytes())
    if change == "swapped":
        document["members"].reverse()
    elif change == "renamed":
        document["members"][0]["name"] = "somebody else"
    elif change == "longer":
        document["members"].append(member("sybil").model_dump())
    else:
        document["signature"] = None
    with pytest.raises(DhdmmError, match="signature"):
        RosterFile.from_bytes(json.dumps(document).encode())


@pytest.mark.fault(19)
def test_a_roster_of_the_coordinators_making_is_refused():
    sybils = roster_of([MEMBERS[0], *(member(f"sybil {i}") for i in range(20))])
    for made in (RosterFile(sybils), RosterFile.signed(sybils, COORDINATOR)):
        for pin in (Pin(registrar=REGISTRAR.public), Pin(fingerprint=ROSTER.digest)):
            with pytest.raises(PolicyRefusal) as refused:
                pin.check(made)
            assert refused.value.reason is PolicyReason.UNPINNED_ROSTER


def test_a_pinned_roster_is_believed_and_an_unpinned_one_is_not():
    Pin(registrar=REGISTRAR.public).check(SIGNED)
    Pin(fingerprint=ROSTER.digest).check(RosterFile(ROSTER))
    Pin().check(SIGNED)
    assert not Pin().is_set


def many() -> tuple[list[PublicIdentity], bytes]:
    """More members than are read at a time, with names that look like the end of one."""
    odd = ['"', "\\", "}, {", "] }", '"members": [', "über", 'a\\"b']
    listed = [
        PublicIdentity(name=f"{odd[i % len(odd)]} {i}", key=f"{i:064x}") for i in range(2_503)
    ]
    return listed, RosterFile.signed(roster_of(listed), REGISTRAR).to_bytes()


def test_a_long_roster_is_read_in_parts_as_it_is_read_whole():
    listed, file = many()
    apart, whole = roster_files._read_in_parts(file, "roster"), roster_files._read(file, "roster")
    assert apart is not None
    assert apart[:2] == whole[:2]
    assert len(apart[2].members) < len(whole[2].members) == len(listed)
    assert RosterFile.from_bytes(file).roster == roster_of(listed)


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.replace(b"}\n ],", b"},\n ],"),  # a comma that nothing follows
        lambda file: file.replace(b'"key": "', b'"key": "x', 1),
        lambda file: file.replace(b'"key": "', b'"other": 1, "key": "', 1),
        lambda file: file.replace(b'"name": "', b'"name": {}, "name": "', 1),
        lambda file: file.replace(b'"members"', b'"members": [], "members"', 1),
        lambda file: file.replace(b"},\n", b"}\n", 1),
        lambda file: file[:-300],
        lambda file: file.replace(b"\xc3\xbc", b"\xff", 1),
    ],
)
def test_what_is_wrong_in_a_long_roster_is_refused_in_the_same_words(change, monkeypatch):
    _, file = many()
    changed = change(file)
    assert changed != file

    def outcome() -> str | RosterFile:
        try:
            return RosterFile.from_bytes(changed)
        except DhdmmError as error:
            return str(error)

    found = outcome()
    monkeypatch.setattr(roster_files, "_read_in_parts", lambda _content, _where: None)
    assert found == outcome()


def test_a_key_is_found_on_a_roster_by_all_of_its_bytes():
    keys = [
        bytes(32),
        bytes(31) + b"\1",
        b"\1" + bytes(31),
        *(bytes.fromhex(m.key) for m in MEMBERS),
    ]
    index = KeyIndex(keys)
    assert [index.find(key) for key in keys] == list(range(len(keys)))
    strangers = [b"", b"\1", b"\1" + bytes(32), bytes(30) + b"\1\1", b"\xff" * 32]
    assert {index.find(key) for key in strangers} == {None}
    assert KeyIndex([]).find(bytes(32)) is None
