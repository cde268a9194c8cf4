"""`dhdmm`: the commands by role, and the one place where errors become exit codes.

A command's module is imported when the command is used: `dhdmm --help` reads the table below.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
from typer.core import TyperGroup

import dhdmm
from dhdmm.cli import output
from dhdmm.cli.options import CONTEXT, for_typer
from dhdmm.errors import DhdmmError, ExitCode

ROLES = {
    "Ask a study": {
        "init": "Write a first study file.",
        "describe": "Say in words what a study asks.",
        "plan": "Show the expected errors, the privacy and the cost.",
    },
    "Run it here": {
        "demo": "Run a whole round with made-up people.",
        "run": "Run a whole round on your tables.",
        "dev-network": "Run a round among real processes over TLS.",
    },
    "Take part": {
        "identity": "Make your identity, or show it.",
        "data": "Name your data sets, each with one budget.",
        "check": "See what of your table a study would count.",
        "policy": "Write a policy file with safe limits.",
        "review": "See what a round would cost you, and consent.",
        "join": "Take part in a round.",
        "rounds": "List the rounds that you are in.",
        "ledger": "Show your privacy budget.",
    },
    "Coordinate": {
        "serve": "Coordinate rounds over HTTPS.",
        "helper": "Run the second server of studies with two.",
        "roster": "Put public identities on a roster and sign it.",
        "enroll": "Make enrolment tokens.",
        "invite": "Make links for people who take part with a browser.",
        "status": "Show what a coordinator's rounds are doing.",
        "coordinator": "Begin, close and abort rounds, see who is missing, purge.",
    },
    "Read a release": {
        "show": "Show a release's tables with their error bars.",
        "open": "Read a release in your browser.",
        "query": "Ask a release one more question, at no privacy cost.",
        "compare": "Compare two releases.",
        "adjust": "Make answers non-negative or whole.",
        "synthesize": "Make up records that resemble a release.",
        "verify": "Re-derive a release from its transcript.",
        "budget": "Add up what several releases cost.",
    },
    "Research": {
        "simulate": "Simulate a round under a virtual clock.",
    },
}
COMMANDS = {name: words for commands in ROLES.values() for name, words in commands.items()}
MODULES = {"init": "study", "describe": "study", "coordinator": "operate"}
"""Where a command is not in the module of its own name."""


class _Interrupted(Exception):
    """Ctrl-C, and what there is to say about it."""


class _Completion(NamedTuple):
    """What a shell is offered."""

    value: str
    help: str
    type: str = "plain"


class _Commands(TyperGroup):
    """Commands that are loaded when they are needed, and listed by role."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return load(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, COMMANDS))
        for role, commands in ROLES.items():
            with formatter.section(role):
                formatter.write_dl([(name.ljust(width), commands[name]) for name in commands])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The commands' names, without loading any of them."""
        offered = [_Completion(*entry) for entry in COMMANDS.items()]
        return [one for one in offered if one.value.startswith(incomplete)]

    def invoke(self, ctx: Any) -> Any:
        """Ctrl-C becomes ours before Typer turns it into an exit code without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise _Interrupted(*error.args) from None


@cache
def load(name: str) -> Any:
    """The command of this name, its module imported."""
    module = name.replace("-", "_")
    found = import_module(f"dhdmm.cli.{MODULES.get(name, module)}")
    if hasattr(found, "app"):
        return typer.main.get_command(found.app)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, context_settings=CONTEXT)(for_typer(getattr(found, module)))
    return typer.main.get_command(alone)


app = typer.Typer(
    name="dhdmm",
    cls=_Commands,
    help="Answer queries over data that many parties hold, without a trusted curator.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=CONTEXT,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"dhdmm {dhdmm.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Options that stand before a command."""


def main() -> None:
    """The command `dhdmm`."""
    # Products of matrices are small and many here: more threads than one would only wait.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    run_app(app)


def _end_with(error: DhdmmError) -> NoReturn:
    output.report(error, as_json="--json" in sys.argv)
    sys.exit(error.exit_code)


def run_app(commands: typer.Typer) -> None:
    """Run a command line; what a person can mend becomes a message and an exit code."""
    output.replace_unprintable()
    try:
        commands()
    except DhdmmError as error:
        _end_with(error)
    except OSError as error:
        if error.filename is None:
            raise
        what = f"this cannot be used: {error.strerror}"
        _end_with(DhdmmError(what, where=os.fsdecode(error.filename)))
    except _Interrupted as error:
        print(": ".join(["interrupted", *error.args]), file=sys.stderr)
        sys.exit(ExitCode.INTERRUPTED)
