"""Who takes part in a round."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

from dhdmm.aggregation.errors import LocalProtocolError


@dataclass(frozen=True)
class Roster:
    """The participants in order: names and Ed25519 identity keys. One identity, one seat."""

    names: tuple[str, ...]
    identities: tuple[bytes, ...] = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.names) != len(self.identities) or any(len(k) != 32 for k in self.identities):
            raise LocalProtocolError("a roster pairs every name with a 32-byte identity key")
        if len(set(self.names)) < len(self) or len(set(self.identities)) < len(self):
            raise LocalProtocolError("a name or an identity key appears twice in the roster")

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def digest(self) -> bytes:
        """What people compare, or a registrar signs."""
        hasher = hashlib.sha256(b"dhdmm roster 1" + len(self).to_bytes(4, "little"))
        for name, identity in zip(self.names, self.identities, strict=True):
            encoded = name.encode()
            hasher.update(len(encoded).to_bytes(4, "little") + encoded + identity)
        return hasher.digest()
