"""The wings as the tests find them: where they are, what their index says, copies to work on."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.museum.cast import HERE, Recorded


@dataclass(frozen=True)
class Wing:
    """What one version of dhdmm left."""

    version: str

    def __str__(self) -> str:
        return self.version

    @property
    def folder(self) -> Path:
        return HERE / self.version

    @cached_property
    def index(self) -> dict[str, Any]:
        return json.loads((self.folder / "index.json").read_text("utf-8"))

    @property
    def exhibits(self) -> dict[str, dict[str, Any]]:
        return self.index["exhibits"]

    @property
    def facts(self) -> dict[str, Any]:
        return self.index["facts"]

    @property
    def studies(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self.facts["studies"])

    @property
    def recorded(self) -> Recorded:
        strategies = {name: self.bytes(f"strategies/{name}.cbor") for name in self.studies}
        rhos = {name: Fraction(facts["rho"]) for name, facts in self.facts["studies"].items()}
        return Recorded(strategies, rhos)

    def bytes(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def of_kind(self, kind: str) -> list[str]:
        return [name for name, exhibit in self.exhibits.items() if exhibit["kind"] == kind]

    def copy(self, name: str, to: Path) -> Path:
        """A file or folder of the wing that only its owner can read, as it was when it was made."""
        source = self.folder / name
        shutil.copytree(source, to) if source.is_dir() else shutil.copy(source, to)
        for path in (to, *to.rglob("*")):
            path.chmod(0o700 if path.is_dir() else 0o600)
        return to


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


VERSIONS = sorted((path.name for path in HERE.glob("[0-9]*.*")), key=_numbers)
WINGS = [Wing(version) for version in VERSIONS]
NEWEST = WINGS[-1]
