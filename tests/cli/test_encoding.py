"""A standard output that is not UTF-8: other letters, but no traceback, and JSON loses nothing."""

import io
import json
import subprocess
from pathlib import Path

import pytest

from dhdmm.cli import output
from tests.cli.test_main import dhdmm

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMITED = [
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "cp1252"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]


def _ran(done: subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An example whose words need more than ASCII."""
    path = tmp_path_factory.mktemp("study") / "study.yaml"
    text = (EXAMPLES / "adult-5" / "study.yaml").read_text(encoding="utf-8")
    name = next(line for line in text.splitlines() if line.startswith("study:"))
    path.write_text(text.replace(name, "study: Γλώσσα ε ± ρ"), encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("limited", LIMITED, ids=["ascii", "cp1252", "C"])
def test_words_are_replaced_where_letters_are_missing(limited: dict[str, str], study: Path) -> None:
    assert "?" in _ran(dhdmm("describe", str(study), **limited))
    assert "?" in _ran(dhdmm("plan", str(study), **limited))
    _ran(dhdmm("--help", **limited))
    _ran(dhdmm("serve", "--help", **limited))


@pytest.mark.parametrize(
    ("words", "plain"), [("−54 ± 21", b"-54 +/- 21"), ("0–7 …", b"0-7 ..."), ("Γ = ρ", b"? = rho")]
)
def test_signs_keep_their_meaning(
    words: str, plain: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A count below zero stays below zero where there is no minus sign."""
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="ascii"))
    output.replace_unprintable()
    print(words, end="", flush=True)
    assert written.getvalue() == plain


@pytest.mark.slow
@pytest.mark.parametrize("limited", LIMITED, ids=["ascii", "cp1252", "C"])
def test_json_keeps_every_letter(limited: dict[str, str], study: Path) -> None:
    shown = _ran(dhdmm("describe", "--json", str(study), **limited))
    assert json.loads(shown)["study"] == "Γλώσσα ε ± ρ"


@pytest.mark.slow
def test_an_error_keeps_its_exit_code() -> None:
    missing = dhdmm("describe", "Γλώσσα.yaml", PYTHONIOENCODING="ascii")
    assert missing.returncode == 3
    assert "Traceback" not in missing.stderr
