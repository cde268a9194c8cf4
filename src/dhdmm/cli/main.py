"""`dhdmm`: the commands, and the one place where errors become exit codes."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import dhdmm
from dhdmm.cli import (
    adjust,
    budget,
    compare,
    demo,
    dev_network,
    enroll,
    identity,
    join,
    ledger,
    operate,
    output,
    paper,
    plan,
    policy,
    query,
    review,
    roster,
    rounds,
    run,
    serve,
    show,
    simulate,
    status,
    study,
    verify,
)
from dhdmm.errors import DhdmmError, ExitCode


class _Interrupted(Exception):
    """Ctrl-C, and what there is to say about it."""


class _Commands(TyperGroup):
    """Ctrl-C becomes ours before Typer turns it into an exit code without a word."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise _Interrupted(*error.args) from None


app = typer.Typer(
    name="dhdmm",
    cls=_Commands,
    help="Answer counting queries over data that many parties hold, without a trusted curator.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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


app.command("demo")(demo.demo)
app.command("init")(study.init)
app.command("describe")(study.describe)
app.command("plan")(plan.plan)
app.command("run")(run.run)
app.command("simulate")(simulate.simulate)
app.command("show")(show.show)
app.command("query")(query.query)
app.command("compare")(compare.compare)
app.command("adjust")(adjust.adjust)
app.command("verify")(verify.verify)
app.command("policy")(policy.policy)
app.command("paper")(paper.paper)
app.command("ledger")(ledger.ledger)
app.command("identity")(identity.identity)
app.command("roster")(roster.roster)
app.command("review")(review.review)
app.command("join")(join.join)
app.command("rounds")(rounds.rounds)
app.command("dev-network")(dev_network.dev_network)
app.command("serve")(serve.serve)
app.command("enroll")(enroll.enroll)
app.command("status")(status.status)
app.command("budget")(budget.budget)
app.add_typer(operate.app, name="coordinator")


def main() -> None:
    """Run the command line; a `DhdmmError` becomes one message and its exit code."""
    try:
        app()
    except DhdmmError as error:
        output.report(error, as_json="--json" in sys.argv)
        sys.exit(error.exit_code)
    except _Interrupted as error:
        print(": ".join(["interrupted", *error.args]), file=sys.stderr)
        sys.exit(ExitCode.INTERRUPTED)
