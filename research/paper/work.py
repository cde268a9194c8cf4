"""Units of work: what takes time, done once and kept, so that a run can be interrupted.

A unit is named by its kind and everything that determines its result apart from the machine. Its
result is a JSON document in the folder of the store; whoever asks again is handed the document.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dhdmm

Result = dict[str, Any]
Results = Mapping[str, Result]
"""By the unit's name."""


@dataclass(frozen=True)
class Unit:
    """One piece of work; `run` is called at most once for the same parameters."""

    kind: str
    parameters: Mapping[str, Any] = field(compare=False)
    run: Callable[[], Result] = field(compare=False, repr=False)
    alone: bool = field(default=True, compare=False)
    """It measures time, or takes all cores: nothing else may run beside it."""
    name: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha256(_canonical(self.parameters).encode()).hexdigest()
        object.__setattr__(self, "name", f"{self.kind}-{digest[:16]}")


@dataclass(frozen=True)
class ResultStore:
    """Where results are kept."""

    folder: Path

    def results(
        self,
        units: Iterable[Unit],
        advance: Callable[[int, Unit], None] = lambda _done, _unit: None,
    ) -> Results:
        """All of them, found or made; `advance` is told how many are done and which comes next."""
        different = list(dict.fromkeys(units))
        found: dict[str, Result] = {}
        for unit in different:
            kept = self._kept(unit)
            if kept is not None:
                found[unit.name] = kept
        for unit in different:
            if unit.name not in found:
                advance(len(found), unit)
                found[unit.name] = self.make(unit)
        return found

    def missing(self, units: Sequence[Unit]) -> list[Unit]:
        return [unit for unit in dict.fromkeys(units) if self._kept(unit) is None]

    def make(self, unit: Unit) -> Result:
        result = unit.run()
        document = {
            "kind": unit.kind,
            "parameters": dict(unit.parameters),
            "dhdmm": dhdmm.__version__,
            "result": result,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = self._file(unit).with_suffix(".part")
        unfinished.write_text(json.dumps(document, indent=1), encoding="utf-8")
        unfinished.replace(self._file(unit))  # never half a result
        return result

    def _kept(self, unit: Unit) -> Result | None:
        """A result of this version; one that cannot be read is made again."""
        try:
            document = json.loads(self._file(unit).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        if document["dhdmm"] != dhdmm.__version__:
            return None
        result: Result = document["result"]
        return result

    def _file(self, unit: Unit) -> Path:
        return self.folder / f"{unit.name}.json"


def _canonical(parameters: Mapping[str, Any]) -> str:
    return json.dumps(dict(parameters), sort_keys=True)
