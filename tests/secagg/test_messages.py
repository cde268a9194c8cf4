"""The wire format: one encoding a value, and nothing but that encoding is read."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhdmm.aggregation import wire
from dhdmm.aggregation.errors import MalformedMessage, RemoteProtocolError
from dhdmm.aggregation.messages import VERSION
from dhdmm.secagg import messages as m
from tests.vectors.make_secagg_round import HERE, SESSION, files, sample_messages

DOCS = Path(__file__).parents[2] / "docs"
RECORDS = {
    m.PublicKeys: (st.binary(min_size=32, max_size=32),) * 2,
    m.SignedPublicKeys: (
        st.integers(1, 3),
        st.binary(min_size=32, max_size=32),
        st.binary(min_size=32, max_size=32),
        st.binary(min_size=64, max_size=64),
    ),
    m.Reveal: (st.integers(0, 1), st.binary(min_size=36, max_size=36)),
}


def exactly(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size)


def values(codec: wire.Codec) -> st.SearchStrategy[Any]:
    """Values that a field with this codec can have."""
    positions = st.sets(st.integers(0, 2**32 - 1), max_size=4).map(sorted)
    match codec:
        case wire.Fixed(size):
            return exactly(size)
        case wire.Blob():
            return st.binary(max_size=40)
        case wire.Bits():
            flags = st.lists(st.booleans(), max_size=20)
            return flags.map(
                lambda bits: wire.Bitmap.of(len(bits), [i for i, bit in enumerate(bits) if bit])
            )
        case wire.Items(size):
            return st.lists(exactly(size), max_size=3).map(tuple)
        case wire.Positions():
            return positions.map(tuple)
        case wire.Word(choices=choices):
            return st.sampled_from(list(choices))
        case wire.Records(make=make):
            rest = st.tuples(*RECORDS[make])
            fields = st.lists(rest, min_size=4, max_size=4)
            return st.builds(
                lambda chosen, others: tuple(
                    make(position, *other) for position, other in zip(chosen, others, strict=False)
                ),
                positions,
                fields,
            )
    raise AssertionError(codec)


def messages() -> st.SearchStrategy[m.Message]:
    def of(kind: type[m.Message]) -> st.SearchStrategy[m.Message]:
        fields = [values(codec) for _, codec in wire.layout(kind)]
        return st.builds(kind, exactly(32), st.integers(0, 2**32 - 1), *fields)

    return st.one_of([of(kind) for kind in m.MESSAGES])


@pytest.mark.slow
@given(messages())
@settings(max_examples=300, deadline=None)
def test_every_message_comes_back_as_it_was(message: m.Message) -> None:
    assert m.decode(message.encode()) == message


@pytest.mark.fault(41)
@pytest.mark.parametrize("message", sample_messages(), ids=lambda message: type(message).__name__)
def test_every_truncation_and_every_extension_is_refused(message: m.Message) -> None:
    data = message.encode()
    for size in range(len(data)):
        with pytest.raises(MalformedMessage):
            m.decode(data[:size])
    with pytest.raises(MalformedMessage, match="left over"):
        m.decode(data + b"\0")


@pytest.mark.fault(41)
@pytest.mark.parametrize("message", sample_messages(), ids=lambda message: type(message).__name__)
def test_every_bit_flip_is_refused_or_gives_another_message(message: m.Message) -> None:
    data = message.encode()
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            other = m.decode(bytes(flipped))
        except MalformedMessage:
            continue
        assert other != message
        assert other.encode() == flipped  # what is read has no second spelling


@pytest.mark.fault(41)
@given(st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_arbitrary_bytes_are_a_typed_error_or_a_canonical_message(data: bytes) -> None:
    for candidate in (data, bytes((VERSION, data[0] % 17 if data else 1)) + SESSION + data):
        try:
            message = m.decode(candidate)
        except RemoteProtocolError:
            continue
        assert message.encode() == candidate


def test_unknown_version_and_unknown_type_are_refused() -> None:
    data = sample_messages()[0].encode()
    with pytest.raises(MalformedMessage, match="version 2"):
        m.decode(b"\x02" + data[1:])
    for code in {*range(256)} - {kind.TYPE for kind in m.MESSAGES}:
        with pytest.raises(MalformedMessage, match="type"):
            m.decode(data[:1] + bytes((code,)) + data[2:])


def test_one_participant_cannot_be_revealed_twice() -> None:
    share = bytes(36)
    both = m.Unmask(SESSION, 0, (m.Reveal(5, 0, share), m.Reveal(5, 1, share)))
    with pytest.raises(MalformedMessage, match="ascending"):
        both.encode()
    once = m.Unmask(SESSION, 0, (m.Reveal(5, 0, share),)).encode()
    record = once[-41:]
    twice = once[:38] + (2).to_bytes(4, "big") + record + record[:4] + b"\x01" + record[5:]
    with pytest.raises(MalformedMessage, match="ascending"):
        m.decode(twice)


@pytest.mark.parametrize(
    ("damaged", "why"),
    [
        (lambda: m.Choice(SESSION, 0, (3, 1)).encode(), "ascending"),
        (lambda: m.Unmask(SESSION, 0, (m.Reveal(1, 2, bytes(36)),)), "neither kind"),
        (
            lambda: m.ProvenNeighbours(
                SESSION,
                0,
                (m.SignedPublicKeys(1, 0, bytes(32), bytes(32), bytes(64)),),
                b"",
            ),
            "direction",
        ),
        (lambda: m.Root(SESSION, 0, bytes(31)).encode(), "32 bytes"),
        (lambda: m.Acks(SESSION, 0, (bytes(16), bytes(64))).encode(), "16 bytes"),
        (lambda: m.Acks(SESSION, 0, (bytes(20),)).encode(), "16 bytes"),
        (lambda: wire.Bitmap(9, b"\x00\x02"), "padding"),
        (lambda: wire.Bitmap(9, b"\x00"), "length"),
    ],
)
def test_values_without_an_encoding_are_refused(damaged, why: str) -> None:
    with pytest.raises(MalformedMessage, match=why):
        damaged()


def test_types_are_distinct_and_repr_shows_no_content() -> None:
    assert len({kind.TYPE for kind in m.MESSAGES}) == len(m.MESSAGES)
    keys = replace(sample_messages()[0], mask_key=b"\xaa" * 32)
    assert repr(keys) == "<Keys of participant 2>"


@pytest.mark.parametrize("name", ["messages", "round-semi-honest", "round-malicious"])
def test_vectors_are_current(name: str) -> None:
    file = f"secagg-{name}.json"
    assert json.loads((HERE / file).read_text()) == json.loads(json.dumps(files()[file]))


def test_protocol_document_lists_every_message_and_field() -> None:
    text = (DOCS / "protocol.md").read_text()
    for kind in m.MESSAGES:
        fields = [(name, codec.words) for name, codec in wire.layout(kind)]
        section = re.search(
            rf"^### 0x{kind.TYPE:02X} {kind.__name__}\n(.*?)(?=^##|\Z)", text, re.M | re.S
        )
        assert section, f"{kind.__name__} is not described"
        rows = [row.split("|")[1:3] for row in section[1].splitlines() if row.startswith("| `")]
        described = [(name.strip().strip("`"), layout.strip()) for name, layout in rows]
        assert described == fields
