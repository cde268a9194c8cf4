"""Compression of what is long and no secret: drafts. What comes out has a largest size."""

from __future__ import annotations

import zlib

from dhdmm.errors import Refused

NAME = "deflate"
"""In the headers Accept-Encoding and Content-Encoding."""


def compress(data: bytes) -> bytes:
    return zlib.compress(data, 9)


def decompress(data: bytes, limit: int) -> bytes:
    """The inverse; refused if it is none, or has more bytes than this."""
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(data, limit + 1)
    except zlib.error:
        raise Refused("the coordinator's answer is not compressed as it says") from None
    if len(found) > limit:
        raise Refused(f"the coordinator's answer has more than {limit:,} bytes")
    if not stream.eof or stream.unused_data:
        raise Refused("the coordinator's answer is not compressed as it says")
    return found
