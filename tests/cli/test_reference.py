"""docs/cli.md is what the commands say now."""

from dhdmm.cli.main import COMMANDS
from docs.hooks.commands import EXAMPLES, PAGE, reference


def test_reference_is_current() -> None:
    """If not: python docs/hooks/commands.py"""
    assert PAGE.read_text(encoding="utf-8") == reference()


def test_reference_has_every_command_with_an_example() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"### dhdmm {name}" in page
    for name, example in EXAMPLES.items():
        assert f"```sh\n{example}\n```" in page
        assert example.startswith(f"dhdmm {name}")
