"""The errors a user meets: what is wrong, where, and what to do about it. Never a traceback.

Exit codes are part of the command line's contract and do not change between versions.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process returns. 1 is left to Python itself: it means a defect in dhdmm."""

    OK = 0
    USAGE = 2  # the command line itself is wrong
    INPUT = 3  # a file the user gave is wrong: study, data, policy
    REFUSED = 4  # privacy or security forbids it: policy, ledger, parameters
    ABORTED = 5  # a round ended without a result
    INTERRUPTED = 130  # Ctrl-C


class DhdmmError(Exception):
    """Base of everything that dhdmm reports to a person.

    >>> print(DhdmmError("unknown attribute 'agee'", where="study.yaml:7", hint="try 'age'"))
    study.yaml:7: unknown attribute 'agee' (try 'age')
    """

    exit_code = ExitCode.INPUT

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what, self.where, self.hint = what, where, hint
        super().__init__(what)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f" ({self.hint})" if self.hint else ""
        return f"{place}{self.what}{advice}"


class StudyError(DhdmmError):
    """A study, schema, workload or SQL text that cannot be understood or answered."""


class DataError(DhdmmError):
    """A participant's table that does not fit the study."""


class StrategyError(DhdmmError):
    """A workload that cannot be measured, or an encoded strategy that is not one."""


class PrivacyError(DhdmmError):
    """Parameters that give no privacy, or that no plan can satisfy."""

    exit_code = ExitCode.REFUSED


class Refused(DhdmmError):
    """A participant's own decision not to take part: policy, ledger or a plan it cannot verify."""

    exit_code = ExitCode.REFUSED


class TooCostly(DhdmmError):
    """A description that would take more memory or computing than its reader allows."""

    exit_code = ExitCode.REFUSED


class RoundAborted(DhdmmError):
    """A round that ended without a result."""

    exit_code = ExitCode.ABORTED
