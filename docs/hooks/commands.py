"""`python docs/hooks/commands.py`: write docs/cli.md, the reference of all commands.

What a command does, its arguments, its options and their defaults are read from the command itself;
only the examples are written here. A test compares the page with what would be written now.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dhdmm.cli.main import ROLES, load

PAGE = Path(__file__).parents[1] / "cli.md"
EXAMPLES = {
    "init": "dhdmm init study.yaml --from people.csv",
    "describe": "dhdmm describe study.yaml",
    "plan": "dhdmm plan study.yaml --participants 500 --compare",
    "demo": "dhdmm demo",
    "run": "dhdmm run study.yaml --data tables/ --out release",
    "dev-network": "dhdmm dev-network study.yaml --participants 5",
    "identity": 'dhdmm identity --name "St Mary" --public st-mary.json',
    "policy": "dhdmm policy policy.yaml",
    "check": "dhdmm check study.yaml --data visits.csv --propose visits.map.yaml",
    "review": "dhdmm review https://coordinator.example:8443",
    "join": "dhdmm join https://coordinator.example:8443 --data patients.csv --out release",
    "rounds": "dhdmm rounds",
    "ledger": "dhdmm ledger visits",
    "data add": 'dhdmm data add visits --table visits.csv --budget "epsilon=3,delta=1e-6"',
    "data list": "dhdmm data list",
    "serve": "dhdmm serve study.yaml --tls-cert chain.pem --tls-key key.pem --roster roster.json",
    "helper": "dhdmm helper --identity helper.json --leader office.pub --secrets secrets",
    "roster": "dhdmm roster st-mary.json st-john.json --registrar registrar.json --out roster.json",
    "invite": "dhdmm invite 1000 --address https://leader.example:8443 --helper helper-public.json"
    " --registrar registrar.json --out invitations",
    "enroll": "dhdmm enroll https://coordinator.example:8443 --count 30",
    "status": "dhdmm status https://coordinator.example:8443 --running",
    "coordinator begin": "dhdmm coordinator begin https://coordinator.example:8443",
    "coordinator close": "dhdmm coordinator close https://coordinator.example:8443",
    "coordinator abort": "dhdmm coordinator abort https://coordinator.example:8443",
    "coordinator missing": "dhdmm coordinator missing https://coordinator.example:8443",
    "coordinator purge": "dhdmm coordinator purge --older-than 90d",
    "show": 'dhdmm show release --item "age and sex"',
    "open": "dhdmm open release-2025 release-2026",
    "query": 'dhdmm query release "SELECT sex, COUNT(*) FROM data WHERE age >= 65 GROUP BY sex"',
    "compare": "dhdmm compare release-2025 release-2026",
    "adjust": "dhdmm adjust release --out adjusted --nonnegative --integers",
    "synthesize": "dhdmm synthesize release --out records.csv",
    "verify": "dhdmm verify release",
    "budget": "dhdmm budget release-2025 release-2026",
    "simulate": "dhdmm simulate study.yaml --participants 1000 --participant-mbps 1",
}
INTRODUCTION = """\
# Commands

Every command by role, with its arguments, options and defaults. `dhdmm COMMAND --help` says the
same on a terminal. With `--json` a command prints one JSON document on standard output, and an
error as JSON on standard error.

This page is written by `python docs/hooks/commands.py`.
"""


def reference() -> str:
    """The page, as the commands are now."""
    parts = [INTRODUCTION]
    for role, names in ROLES.items():
        parts.append(f"## {role}\n")
        for name in names:
            command = load(name)
            below = getattr(command, "commands", None)
            if below is None:
                parts += section(name, command)
            else:
                for sub, one in below.items():
                    parts += section(f"{name} {sub}", one)
    return "\n".join(parts)


def section(name: str, command: Any) -> Iterator[str]:
    yield f"### dhdmm {name}\n"
    yield f"{inspect.cleandoc(command.help)}\n"
    yield f"<!-- not run: an example of the command's form -->\n```sh\n{EXAMPLES[name]}\n```\n"
    yield "| | |\n|---|---|"
    context = command.make_context(name, [], resilient_parsing=True)
    for parameter in command.params:
        names, words = parameter.get_help_record(context)
        yield f"| `{_cell(names)}` | {_cell(words)} |"
    yield ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
