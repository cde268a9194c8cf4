"""All tables and figures, in the paper's order."""

from __future__ import annotations

from collections.abc import Sequence

from dhdmm.errors import DhdmmError, ExitCode
from dhdmm.paper import communication, complexity, dropout, epsilon, kappa, network, table_2, theta
from dhdmm.paper.growth import COMPUTATION, TOTAL_MALICIOUS, TOTAL_SEMI_HONEST
from dhdmm.paper.item import PaperItem
from dhdmm.study.names import nearest

ITEMS: tuple[PaperItem, ...] = (
    table_2.ITEM,
    COMPUTATION,
    TOTAL_SEMI_HONEST,
    TOTAL_MALICIOUS,
    communication.ITEM,
    network.ITEM,
    theta.ITEM,
    epsilon.ITEM,
    dropout.ITEM,
    complexity.ITEM,
    kappa.ITEM,
)


class UnknownItem(DhdmmError):
    exit_code = ExitCode.USAGE


def chosen(names: Sequence[str]) -> tuple[PaperItem, ...]:
    """The items with these names, in the paper's order; all if none is named."""
    known = [item.name for item in ITEMS]
    for name in names:
        if name not in known:
            raise UnknownItem(f"there is no item '{name}'", hint=nearest(name, known))
    return tuple(item for item in ITEMS if not names or item.name in names)
