"""Which studies and strategies were checked here, so that a restart does not check them again.

What a strategy measures, and how far one unit moves it, follows from the bytes of the study and the
strategy and from nothing else. A file is named after the digest of these bytes and of the dhdmm
that checked them, so another version, or a plan that differs in one bit, finds nothing. Files are
their owner's, as journals are; one that is not whole counts for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from dhdmm.errors import DhdmmError
from dhdmm.network.files import private_folder, replace_durably, require_private


@dataclass(frozen=True)
class KeptChecks:
    """In one folder, a file for each."""

    folder: Path

    def known(self, key: bytes) -> int | None:
        """Δ′² of what was checked under this key, if anything was."""
        place = self.folder / key.hex()
        try:
            content = place.read_bytes()
        except OSError:
            return None
        require_private(place)
        said, _, digest = content.rpartition(b"\n")
        if sha256(key + said).hexdigest().encode() != digest or not said.isdigit():
            return None
        return int(said)

    def keep(self, key: bytes, sensitivity_squared: int) -> None:
        """What cannot be kept is checked again another time."""
        said = str(sensitivity_squared).encode()
        digest = sha256(key + said).hexdigest().encode()
        try:
            folder = private_folder(private_folder(self.folder.parent) / self.folder.name)
            replace_durably(folder / key.hex(), said + b"\n" + digest)
        except (OSError, DhdmmError):
            return
