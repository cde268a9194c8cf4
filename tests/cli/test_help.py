"""`--help` of every command at 80 columns: by role, and no option's name is cut."""

import pytest

from dhdmm.cli.main import COMMANDS, ROLES, load
from tests.cli.commands import Shell

PLACES = [
    (name, *below)
    for name in COMMANDS
    for below in ([(sub,) for sub in getattr(load(name), "commands", ())] or [()])
]


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys) -> Shell:
    return Shell(tmp_path, monkeypatch, capsys)


def test_commands_are_listed_by_role(shell: Shell) -> None:
    shown = shell("--help").out.splitlines()
    for role, names in ROLES.items():
        at = shown.index(f"{role}:")
        assert [line.split()[0] for line in shown[at + 1 : at + 1 + len(names)]] == list(names)


@pytest.mark.parametrize("place", PLACES, ids=" ".join)
def test_no_option_is_cut(shell: Shell, place: tuple[str, ...]) -> None:
    command = load(place[0])
    for below in place[1:]:
        command = command.commands[below]
    said = shell(*place, "--help")
    assert said.code == 0
    assert "…" not in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    words = said.out.replace(",", " ").split()
    for parameter in command.params:
        if parameter.param_type_name == "option":
            for name in (*parameter.opts, *parameter.secondary_opts):
                assert name in words, name
