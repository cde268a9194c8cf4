"""What a transcript says of noise that was removed, and what anybody can check of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from dhdmm.aggregation import wrapping
from dhdmm.aggregation.bitmap import Bitmap


@dataclass(frozen=True)
class Account(wrapping.Account):
    """Who removed noise; and what the way to add up below says of the inputs, if anything, with the
    seeds of what was removed, without which nobody could check that."""

    about = "removed noise"

    removed: Bitmap
    seeds: bytes = b""
    below: bytes | None = None

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"size": self.removed.size, "removed": self.removed.data}
        if self.below is not None:
            fields |= {"seeds": self.seeds, "below": self.below}
        return fields

    @classmethod
    def _of(cls, fields: Any) -> Self:
        removed = Bitmap(fields["size"], bytes(fields["removed"]))
        return cls(removed, fields.get("seeds", b""), fields.get("below"))
