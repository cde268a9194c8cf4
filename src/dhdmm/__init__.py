"""Query workloads over data that many parties hold, without a trusted curator.

The public API, nothing else. Names load what they need when first used, so that `import dhdmm` and
`dhdmm --help` stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dhdmm import errors as errors
    from dhdmm.participant.check import check as check
    from dhdmm.participant.tabulate import tabulate as tabulate
    from dhdmm.planning.draft import plan as plan
    from dhdmm.planning.plan import Plan as Plan
    from dhdmm.release.release import Release as Release
    from dhdmm.release.tables import Table as Table
    from dhdmm.runner import run as run
    from dhdmm.session.report import report as report
    from dhdmm.simulation.simulate import simulate as simulate
    from dhdmm.strategy.optimise import optimise as optimise
    from dhdmm.strategy.strategy import Strategy as Strategy
    from dhdmm.study.schema import Schema as Schema
    from dhdmm.study.spec import Study as Study
    from dhdmm.study.workload import Workload as Workload

__version__ = "0.2.0.dev0"

_MODULES = {
    "Plan": "dhdmm.planning.plan",
    "Release": "dhdmm.release.release",
    "Schema": "dhdmm.study.schema",
    "Strategy": "dhdmm.strategy.strategy",
    "Study": "dhdmm.study.spec",
    "Table": "dhdmm.release.tables",
    "Workload": "dhdmm.study.workload",
    "check": "dhdmm.participant.check",
    "optimise": "dhdmm.strategy.optimise",
    "plan": "dhdmm.planning.draft",
    "report": "dhdmm.session.report",
    "run": "dhdmm.runner",
    "simulate": "dhdmm.simulation.simulate",
    "tabulate": "dhdmm.participant.tabulate",
}

__all__ = ["errors", *_MODULES]


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("dhdmm.errors")
    if name not in _MODULES:
        raise AttributeError(f"module 'dhdmm' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
