"""What a forge reads: addresses are set everywhere or nowhere, and its files can be read."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

PROJECT = Path(__file__).parents[2]
PLACEHOLDER = "SECURITY-CONTACT"
"""What SECURITY.md says until there is an address to report to."""


def addresses(project: Path) -> dict[str, bool]:
    """For every place that names an address of the project: whether it is set."""
    pyproject = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    site = (project / "mkdocs.yml").read_text(encoding="utf-8")
    citation = yaml.safe_load((project / "CITATION.cff").read_text(encoding="utf-8"))
    return {
        "pyproject.toml [project.urls]": bool(pyproject["project"].get("urls")),
        "mkdocs.yml site_url": re.search(r"^site_url: *\S", site, re.MULTILINE) is not None,
        "mkdocs.yml repo_url": re.search(r"^repo_url: *\S", site, re.MULTILINE) is not None,
        "CITATION.cff repository-code": bool(citation.get("repository-code")),
        "SECURITY.md contact": PLACEHOLDER
        not in (project / "SECURITY.md").read_text(encoding="utf-8"),
    }


def test_addresses_of_the_project_are_all_set_or_all_placeholders() -> None:
    found = addresses(PROJECT)
    assert len(set(found.values())) == 1, found


def test_an_address_that_is_set_in_one_place_only_is_noticed(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "mkdocs.yml", "CITATION.cff", "SECURITY.md"):
        (tmp_path / name).write_text((PROJECT / name).read_text(encoding="utf-8"), encoding="utf-8")
    before = addresses(tmp_path)
    with (tmp_path / "mkdocs.yml").open("a", encoding="utf-8") as file:
        file.write("site_url: https://docs.example/\n")
    assert addresses(tmp_path) == before | {"mkdocs.yml site_url": True}


def test_the_citation_names_the_paper_and_its_authors() -> None:
    citation = yaml.safe_load((PROJECT / "CITATION.cff").read_text(encoding="utf-8"))
    paper = citation["preferred-citation"]
    assert paper["title"] in " ".join((PROJECT / "docs" / "index.md").read_text().split())
    assert [author["family-names"] for author in paper["authors"]] == [
        "Sedimo",
        "Ngong",
        "Lashua",
        "Near",
    ]


def test_files_for_a_forge_can_be_read_and_call_what_exists() -> None:
    for file in [PROJECT / ".pre-commit-config.yaml", *(PROJECT / ".github").rglob("*.yml")]:
        assert yaml.safe_load(file.read_text(encoding="utf-8")), file
    workflow = PROJECT / ".github" / "workflows" / "ci.yml"
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    assert jobs.keys() == {"linux", "macos", "windows"}
    assert jobs["linux"]["steps"][-1] == {"run": ".ci/run"}
    assert (PROJECT / ".ci" / "run").is_file()
