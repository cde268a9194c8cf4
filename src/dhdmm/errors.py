"""The errors of dhdmm: each says what is wrong, where, and what to do about it.

All of them derive from `DhdmmError`, so `except dhdmm.errors.DhdmmError` catches every problem that
a user can cause; anything else that is raised is a defect in dhdmm or a mistake in the calling
program. The command line prints the message instead of a traceback and ends with the error's exit
code. Exit codes are part of the command line's contract and do not change between versions.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class ExitCode(IntEnum):
    """The exit code of a command. 1 is Python's own and means a defect in dhdmm."""

    OK = 0
    USAGE = 2
    """The command line itself is wrong."""
    INPUT = 3
    """A file that the user gave is wrong: study, data, policy."""
    REFUSED = 4
    """Privacy or security forbids it: policy, ledger, parameters."""
    ABORTED = 5
    """A round ended without a result."""
    INTERRUPTED = 130
    """Ctrl-C."""


class DhdmmError(Exception):
    """Base class of all errors that dhdmm reports to a person.

    Attributes:
        what: What is wrong, in one sentence.
        where: The file and line, the table or the key that it is about; None if there is no place.
        hint: What to do about it; None if nothing can be advised.
        exit_code: What a command that ends with this error returns.

    Example:
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


# ---- a study and its plan -----------------------------------------------------------------------


class StudyError(DhdmmError):
    """A study, schema, workload or SQL text that cannot be understood or answered.

    Raised by `Study.load`, `Study.from_text`, `Workload.from_kronecker` and `Release.query`.

    Attributes:
        more: The file's further mistakes, up to 20 in all; the error itself is the first.
    """

    more: tuple[StudyError, ...] = ()


class StrategyError(DhdmmError):
    """A workload that cannot be measured, or bytes that are not an encoded strategy.

    Raised by `dhdmm.optimise` and the methods of `Strategy`.
    """


class PrivacyError(DhdmmError):
    """Parameters that give no privacy, or that no plan can satisfy.

    Raised by `dhdmm.plan`.
    """

    exit_code = ExitCode.REFUSED


class PlanFault(StrEnum):
    """Why a byte string is not a plan."""

    SIZE = "size"
    NOT_CBOR = "not-cbor"
    FIELD = "field"
    VERSION = "version"
    NOT_CANONICAL = "not-canonical"


class PlanError(PrivacyError):
    """A byte string that is not a plan.

    Raised by `Plan.from_bytes`.

    Attributes:
        fault: Which rule the bytes break, a `PlanFault`.
    """

    def __init__(self, fault: PlanFault, what: str, hint: str | None = None) -> None:
        self.fault = fault
        super().__init__(what, where="plan", hint=hint)


# ---- taking part --------------------------------------------------------------------------------


class DataError(DhdmmError):
    """A participant's table that does not fit the study; never repeats a value of the table.

    Raised by `dhdmm.run`, `tabulate` and `Schema.encode`.
    """


class Refused(DhdmmError):
    """A participant's own decision not to take part: its policy, its ledger, or its bounds.

    Raised by `dhdmm.run` and `tabulate` for a table with more records than the study allows.
    """

    exit_code = ExitCode.REFUSED


class PolicyReason(StrEnum):
    """Why a participant stays out. The values are stable: scripts and transcripts rely on them."""

    UNREADABLE = "unreadable-plan"
    NOT_CANONICAL = "plan-not-canonical"
    UNUSABLE_STUDY = "unusable-study"
    UNUSABLE_STRATEGY = "unusable-strategy"
    TOO_LARGE = "plan-too-large"
    WRONG_DIGEST = "wrong-plan-digest"
    WRONG_STUDY = "study-not-agreed-to"
    ROSTER_MISMATCH = "roster-mismatch"
    UNPINNED_ROSTER = "unpinned-roster"
    THREAT_MODEL = "threat-model"
    UNKNOWN_HELPER = "unknown-helper"
    GRAPH = "graph-parameters"
    TOO_FEW_PARTICIPANTS = "too-few-participants"
    WRONG_COUNT = "participants-outside-study"
    HONEST_FLOOR = "honest-floor"
    CORRUPT_FRACTION = "corrupt-fraction"
    UNIT = "unit"
    STRATEGY = "strategy-not-for-study"
    NOISE_TOO_SMALL = "noise-too-small"
    NOISE_TOO_LARGE = "noise-too-large"
    MODULUS = "modulus"
    BUDGET = "budget-per-round"
    OVERCHARGED = "overcharged"
    PROMISE = "promise-not-kept"


class PolicyRefusal(Refused):
    """A plan that this participant's policy does not accept.

    Raised when a participant reviews a plan.

    Attributes:
        reason: Which check failed, a `PolicyReason`.
    """

    def __init__(self, reason: PolicyReason, what: str, hint: str | None = None) -> None:
        self.reason = reason
        super().__init__(what, where=f"policy: {reason}", hint=hint)


class TooCostly(DhdmmError):
    """A description that would take more memory or computing than its reader allows.

    Raised while a participant reviews a plan, before the memory is allocated.
    """

    exit_code = ExitCode.REFUSED


class RoundAborted(DhdmmError):
    """A round that ended without a result, because too few participants stayed to the end.

    Raised by `dhdmm.run` and `dhdmm.simulate`.
    """

    exit_code = ExitCode.ABORTED


# ---- a release ----------------------------------------------------------------------------------


class NotMeasured(DhdmmError):
    """A query that does not follow from what the round measured.

    Raised by `Release.query`.

    Attributes:
        nearest: Similar queries in SQL that the release can answer; may be empty.
    """

    def __init__(self, what: str, nearest: tuple[str, ...], hint: str) -> None:
        self.nearest = nearest
        super().__init__(what, hint=hint)


class UnknownTable(DhdmmError, KeyError):
    """A name that no table of the release has; also a `KeyError`, since a release is a mapping.

    Raised by `release[name]` and `Release.table`.
    """


class ReleaseError(DhdmmError):
    """A directory that is not a complete release, was changed, or cannot be written.

    Raised by `Release.load` and `Release.save`.
    """


class TranscriptError(DhdmmError):
    """A file that is not a transcript.

    Raised by `Transcript.from_bytes` and `Release.load`.
    """


class VerificationError(DhdmmError):
    """A transcript that contradicts itself, its release or the key that should have signed it.

    Raised by `verify`, and by `Transcript.from_bytes` for a broken chain or signature.
    """

    exit_code = ExitCode.REFUSED
