"""Query workloads over data that many parties hold, without a trusted curator.

The public API, nothing else. Names load what they need when first used, so that `import dhdmm` and
`dhdmm --help` stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dhdmm import errors
    from dhdmm.participant.check import check
    from dhdmm.participant.tabulate import tabulate
    from dhdmm.planning.draft import plan
    from dhdmm.planning.plan import Plan
    from dhdmm.release.release import Release
    from dhdmm.release.tables import Table
    from dhdmm.runner import run
    from dhdmm.session.report import report
    from dhdmm.simulation.simulate import simulate
    from dhdmm.strategy.optimise import optimise
    from dhdmm.strategy.strategy import Strategy
    from dhdmm.study.schema import Schema
    from dhdmm.study.spec import Study
    from dhdmm.study.workload import Workload

__version__ = "0.2.0.dev0"
__all__ = [
    "Plan",
    "Release",
    "Schema",
    "Strategy",
    "Study",
    "Table",
    "Workload",
    "check",
    "errors",
    "optimise",
    "plan",
    "report",
    "run",
    "simulate",
    "tabulate",
]

_MODULES = {
    "Plan": "dhdmm.planning.plan",
    "Release": "dhdmm.release.release",
    "Schema": "dhdmm.study.schema",
    "Strategy": "dhdmm.strategy.strategy",
    "Study": "dhdmm.study.spec",
    "Table": "dhdmm.release.tables",
    "Workload": "dhdmm.study.workload",
    "check": "dhdmm.participant.check",
    "errors": "dhdmm",
    "optimise": "dhdmm.strategy.optimise",
    "plan": "dhdmm.planning.draft",
    "report": "dhdmm.session.report",
    "run": "dhdmm.runner",
    "simulate": "dhdmm.simulation.simulate",
    "tabulate": "dhdmm.participant.tabulate",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'dhdmm' has no attribute {name!r}")
    if name == "errors":
        return import_module("dhdmm.errors")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
