"""`python deploy/sbom.py FILE.json`: the software bill of materials, CycloneDX 1.6.

What a coordinator or participant is installed with: dhdmm and every locked dependency of its
`service` extra, with version, hashes and licence. The same lock file gives the same bytes.
`python deploy/sbom.py FILE.lock` writes these dependencies as a lock file for pip.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import distribution
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[1]
LOCK = PROJECT / "requirements" / "dev.lock"
ENTRY = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE)
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")

Component = dict[str, object]


def locked(lock: Path = LOCK) -> dict[tuple[str, str], str]:
    """The lock file's lines, for each name and version."""
    text = lock.read_text(encoding="utf-8")
    found = list(ENTRY.finditer(text))
    ends = [*(match.start() for match in found[1:]), len(text)]
    return {
        (canonicalize_name(match[1]), match[2]): text[match.start() : end]
        for match, end in zip(found, ends, strict=True)
    }


def excerpt() -> str:
    """The lines of what is needed, for every platform that they speak of."""
    names = needed()
    return "".join(lines for (name, _), lines in locked().items() if name in names)


def needed(root: str = "dhdmm[service]") -> set[str]:
    """Names of what the root needs on this platform, and what those need."""
    seen: set[tuple[str, str]] = set()
    waiting = [Requirement(root)]
    while waiting:
        wanted = waiting.pop()
        for extra in ("", *wanted.extras):
            if (wanted.name, extra) not in seen:
                seen.add((wanted.name, extra))
                waiting += _requirements(wanted.name, extra)
    return {str(canonicalize_name(name)) for name, _ in seen} - {"dhdmm"}


def _requirements(name: str, extra: str) -> list[Requirement]:
    stated = [Requirement(line) for line in distribution(name).requires or []]
    return [one for one in stated if one.marker is None or one.marker.evaluate({"extra": extra})]


def component(name: str, version: str, lines: str) -> Component:
    made: Component = {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        "bom-ref": f"pkg:pypi/{name}@{version}",
        "properties": [{"name": "dhdmm:sha256", "value": value} for value in HASH.findall(lines)],
    }
    licence = _licence(name)
    return made | ({"licenses": [{"license": {"name": licence}}]} if licence else {})


def _licence(name: str) -> str | None:
    metadata = distribution(name).metadata
    classified = [
        line.rpartition(" :: ")[2]
        for line in metadata.get_all("Classifier", [])
        if line.startswith("License ::")
    ]
    expressed, free = (metadata.get_all(key, []) for key in ("License-Expression", "License"))
    stated = [*expressed, *classified, *free]
    return stated[0].splitlines()[0] if stated else None


def bill() -> dict[str, object]:
    lines = locked()
    installed = {name: distribution(name).version for name in sorted(needed())}
    components = [component(*one, lines[one]) for one in installed.items()]
    version = distribution("dhdmm").version
    document: dict[str, object] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": "dhdmm", "version": version},
        },
        "components": components,
    }
    serial = uuid5(NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return document | {"serialNumber": f"urn:uuid:{serial}"}


def main(place: Path) -> None:
    made = excerpt() if place.suffix == ".lock" else json.dumps(bill(), indent=1, sort_keys=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(made.rstrip("\n") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
