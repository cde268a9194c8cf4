"""`python deploy/audit.py`: does any locked dependency have a known vulnerability?

Fails only if one has. Where the advisories cannot be reached, it says so and lets the build go on.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements" / "dev.lock"
PATIENCE = 120.0
EACH = "3"  # seconds for one request

Audit = dict[str, list[dict[str, object]]]


def audited(lock: Path) -> Audit | None:
    """pip-audit's verdicts; None if it came to none."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(lock), "--disable-pip"]
    command += ["--require-hashes", "--timeout", EACH, "--format", "json"]
    command += ["--progress-spinner", "off"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        verdicts: Audit = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, json.JSONDecodeError):
        return None
    return verdicts


def verdict(audit: Audit | None) -> tuple[str, bool]:
    """What to say, and whether that is good enough."""
    dependencies = [] if audit is None else audit["dependencies"]
    seen = [one for one in dependencies if "skip_reason" not in one]
    if not seen:
        return "dependencies not audited: the advisories cannot be reached from here", True
    found = [one for one in seen if one["vulns"]]
    if not found:
        return f"{len(seen)} of {len(dependencies)} dependencies audited: none is known bad", True
    return "\n".join(f"{one['name']} {one['version']}: {_names(one)}" for one in found), False


def _names(dependency: dict[str, object]) -> str:
    vulnerabilities = dependency["vulns"]
    assert isinstance(vulnerabilities, list)
    return ", ".join(one["id"] for one in vulnerabilities)


if __name__ == "__main__":
    said, good = verdict(audited(LOCK))
    print(said)
    sys.exit(not good)
