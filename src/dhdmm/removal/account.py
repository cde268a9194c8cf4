"""What a transcript says of noise that was removed, and what anybody can check of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cbor2

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.wrapping import decode_account


@dataclass(frozen=True)
class Account:
    """Who removed noise; and what the way to add up below says of the inputs, if anything, with the
    seeds of what was removed, without which nobody could check that."""

    removed: Bitmap
    seeds: bytes = b""
    below: bytes | None = None

    def encode(self) -> bytes:
        fields: dict[str, Any] = {"size": self.removed.size, "removed": self.removed.data}
        if self.below is not None:
            fields |= {"seeds": self.seeds, "below": self.below}
        return bytes(cbor2.dumps(fields, canonical=True))

    @classmethod
    def decode(cls, encoded: bytes) -> Account:
        return decode_account(encoded, cls._read, "removed noise")

    @classmethod
    def _read(cls, fields: Any) -> Account:
        removed = Bitmap(fields["size"], bytes(fields["removed"]))
        return cls(removed, fields.get("seeds", b""), fields.get("below"))
