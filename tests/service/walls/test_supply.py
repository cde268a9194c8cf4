"""What dhdmm is made of, and whether any of it is known to be bad."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.slow

DEPLOY = Path(__file__).parents[3] / "deploy"


@pytest.fixture(scope="module")
def sbom() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(DEPLOY / "sbom.py")))


@pytest.fixture(scope="module")
def audit() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(DEPLOY / "audit.py")))


def test_the_bill_lists_what_is_needed_with_version_licence_and_hashes(sbom) -> None:
    bill = sbom.bill()
    components = {one["name"]: one for one in bill["components"]}
    assert {"cryptography", "uvicorn", "psycopg-binary", "numpy", "starlette"} <= components.keys()
    assert {"pytest", "ruff", "dhdmm"}.isdisjoint(components)
    for name, one in components.items():
        assert one["licenses"], name
        assert one["properties"], name
        assert one["purl"] == f"pkg:pypi/{name}@{one['version']}"


def test_the_bill_is_the_same_every_time(sbom) -> None:
    assert json.dumps(sbom.bill()) == json.dumps(sbom.bill())


def test_a_known_vulnerability_fails_the_audit(audit) -> None:
    good = {"name": "good", "version": "1", "vulns": []}
    bad = {"name": "bad", "version": "2", "vulns": [{"id": "CVE-1"}]}
    assert audit.verdict({"dependencies": [good]})[1]
    said, passes = audit.verdict({"dependencies": [good, bad]})
    assert not passes
    assert said == "bad 2: CVE-1"


@pytest.mark.parametrize(
    "found", [None, {"dependencies": [{"name": "good", "skip_reason": "not found"}]}]
)
def test_an_audit_without_advisories_says_so_and_passes(audit, found) -> None:
    said, passes = audit.verdict(found)
    assert passes
    assert "not audited" in said


@pytest.mark.skipif(sys.platform != "linux", reason="other systems need other packages")
def test_the_lock_file_of_a_deployment_is_current(sbom) -> None:
    kept = (DEPLOY / "service.lock").read_text(encoding="utf-8")
    assert kept == sbom.excerpt(), "write it anew: python deploy/sbom.py deploy/service.lock"
