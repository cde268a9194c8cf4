"""The formats: which number this version writes of each kind of file, and which it reads.

A reader looks at the number first. What a newer dhdmm made is refused by its number and never
called damaged. A released format is read by all later versions: docs/adr/018.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

import dhdmm

_MAKER = re.compile(r"[0-9A-Za-z.+-]{1,40}")


@dataclass(frozen=True)
class Format:
    """A kind of file or message. Format i + 1 was first written by the dhdmm of `since[i]`."""

    kind: str
    since: tuple[str, ...]

    @property
    def writes(self) -> int:
        return len(self.since)

    @property
    def reads(self) -> str:
        """In words: every number up to the one that is written."""
        return "format 1" if self.writes == 1 else f"formats 1–{self.writes}"


STUDY = Format("study", ("0.1.0", "0.2.0"))
STRATEGY = Format("strategy", ("0.1.0", "0.2.0", "0.2.0", "0.2.0"))
PLAN = Format("plan", ("0.1.0", "0.2.0"))
TRANSCRIPT = Format("transcript", ("0.1.0", "0.2.0"))
RELEASE = Format("release", ("0.1.0", "0.2.0"))
ROSTER = Format("roster", ("0.1.0", "0.2.0"))
IDENTITY = Format("identity", ("0.1.0", "0.2.0"))
PUBLIC_IDENTITY = Format("public identity", ("0.1.0", "0.2.0"))
CONSENT = Format("consent", ("0.1.0", "0.2.0"))
POLICY = Format("policy", ("0.1.0", "0.2.0"))
LEDGER = Format("ledger", ("0.1.0", "0.2.0"))
JOURNAL = Format("journal", ("0.1.0",))
MEMORY = Format("memory", ("0.1.0",))  # of a participant in mid-round, inside its journal
JOINED = Format("joined round", ("0.2.0",))  # where a participant's round is, beside its journal
DATA_SET = Format("data set", ("0.2.0",))
ROSTER_SEEN = Format("roster seen", ("0.2.0",))
STORE = Format("store", ("0.1.0", "0.2.0"))
TRACE = Format("trace", ("0.1.0", "0.2.0"))

FORMATS = (
    *(STUDY, STRATEGY, PLAN, TRANSCRIPT, RELEASE, ROSTER, IDENTITY, PUBLIC_IDENTITY, CONSENT),
    *(POLICY, LEDGER, JOURNAL, MEMORY, JOINED, DATA_SET, ROSTER_SEEN, STORE, TRACE),
)
UPGRADE = "upgrade dhdmm to read it"

Refusal = Callable[..., Exception]
"""Makes the reader's own error of what is wrong; `hint` says what to do."""


def readable(format: Format, number: Any, refusal: Refusal, made_by: Any = None) -> int:
    """The number, if it is one that this version reads; otherwise the refusal is raised.

    `made_by` is what the file says of the dhdmm that made it, if it says anything.
    """
    if type(number) is not int or number < 1:
        raise refusal(f"{number!r:.20} is not the number of a {format.kind} format", hint=None)
    if number > format.writes:
        maker = f"made by dhdmm {made_by}, " if is_maker(made_by) else ""
        this = f"this is dhdmm {dhdmm.__version__}, which reads {format.reads}"
        raise refusal(f"{maker}{format.kind} format {number}; {this}", hint=UPGRADE)
    return number


def this_version() -> str:
    return dhdmm.__version__


def is_maker(value: Any) -> TypeGuard[str]:
    """Whether this can be a version of dhdmm: it is shown, and comes from an untrusted file."""
    return type(value) is str and _MAKER.fullmatch(value) is not None
