"""Options that several commands share, as dataclasses: declared once, handed over as one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer

from dhdmm.cli.places import UnknownValues

if TYPE_CHECKING:
    from dhdmm.participant.tabulate import TableOptions
    from dhdmm.study.spec import Study

Command = Callable[..., None]
CONTEXT = {"help_option_names": ["-h", "--help"]}

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="The study file.")]
ThreatModel = Annotated[
    str | None, "malicious, semi-honest or two-servers, instead of the study's."
]
Dropout = Annotated[
    float, typer.Option(min=0, max=0.99, help="The share of participants that falls silent.")
]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes for the participants.")]
ReleaseOut = Annotated[Path | None, "The folder to write the release to."]
ReleaseDirectory = Annotated[Path, typer.Argument(help="The release directory.")]
Item = Annotated[str | None, "Only this table."]
Rows = Annotated[int, typer.Option(min=0, help="Rows of each table; 0 for all of them.")]
Store = Annotated[
    str, typer.Option(envvar="DHDMM_STORE", help="SQLite file or PostgreSQL database.")
]
Roster = Annotated[Path | None, "Who takes part; without it people enrol with tokens."]
STORE = "sqlite:///coordinator.db"
Occurrence = Annotated[
    str | None,
    "Begin the round of this occurrence, such as 2026-W47; a study has one round of each.",
]
RosterStudy = Annotated[str | None, "The name of the study that the roster is for; else for any."]
RosterSerial = Annotated[
    int | None, typer.Option(min=1, help="Higher than that of every roster before it.")
]


@dataclass(frozen=True)
class Tables:
    """How data holders' tables are read, and how many of their rows may be left out."""

    columns: Annotated[
        list[str],
        "How your columns become the study's: a mapping file, or ATTRIBUTE=COLUMN; repeat it.",
    ] = ()  # type: ignore[assignment]
    ignore_case: Annotated[bool, "Upper and lower case are the same in all columns."] = False
    on_unknown: Annotated[UnknownValues, "What happens to values outside the domain."] = "error"
    accept_loss: Annotated[str, "The share of rows that may be left out, such as 5%."] = "1%"

    def reading(self, study: Study) -> TableOptions:
        """For `count_for` and `count_tables`."""
        from dhdmm.participant.mapping import given_on_command_line

        columns = given_on_command_line(self.columns, study.schema, self.ignore_case)
        return {"columns": columns, "on_unknown": self.on_unknown}

    @property
    def accepted(self) -> float:
        """The share as a number."""
        text = self.accept_loss.strip()
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            raise typer.BadParameter(
                f"{self.accept_loss!r} is no share of rows; write 5% or 0.05",
                param_hint="--accept-loss",
            )
        return share


ROWS = 12


def command_group(help: str) -> typer.Typer:
    """For commands below a command, such as `dhdmm data add`."""
    return typer.Typer(
        help=help,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        context_settings=CONTEXT,
    )


def for_typer(command: Command) -> Command:
    """The command as Typer reads it, with one option for each parameter that is not an argument.

    A parameter whose type is a dataclass becomes one option for each field, and the command
    receives the instance. A text beside a type, as in `Annotated[int, "How many."]`, is the help of
    its option. A bool that is False by default has no `--no-…`.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        if name in groups:
            parameters += _fields(groups[name], parameter.default)
        else:
            parameters.append(_option(name, hints[name], parameter.default))

    @wraps(command)
    def call(**given: Any) -> None:
        made = {
            name: kind(**{field.name: given.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        command(**made, **given)

    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _fields(group: Any, usual: Any) -> list[Parameter]:
    """One for each; its default is the one of the instance `usual`, if there is one."""
    hints = get_type_hints(group, include_extras=True)
    return [
        _option(field.name, hints[field.name], getattr(usual, field.name, _default(field)))
        for field in fields(group)
    ]


def _option(name: str, hint: Any, default: Any) -> Parameter:
    if get_origin(hint) is Annotated:
        kind, about, *_ = get_args(hint)
        if isinstance(about, str):
            named = ["--" + name.replace("_", "-")] if default is False else []
            hint = Annotated[kind, typer.Option(*named, help=about)]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _default(field: Field[Any]) -> Any:
    return Parameter.empty if field.default is MISSING else field.default
