"""All tables and figures: the paper's in its order, then those beyond it."""

from __future__ import annotations

from collections.abc import Sequence

from dhdmm.errors import DhdmmError, ExitCode
from dhdmm.study.names import nearest
from research.paper import (
    complexity,
    dropout,
    epsilon,
    kappa,
    table_2,
    theta,
    two_servers,
    validation,
    whole,
)
from research.paper.item import PaperItem
from research.paper.over_participants import (
    COMMUNICATION,
    COMPUTATION,
    NETWORK,
    TOTAL_MALICIOUS,
    TOTAL_SEMI_HONEST,
)

PAPER: tuple[PaperItem, ...] = (
    table_2.ITEM,
    COMPUTATION,
    TOTAL_SEMI_HONEST,
    TOTAL_MALICIOUS,
    COMMUNICATION,
    NETWORK,
    theta.ITEM,
    epsilon.ITEM,
    dropout.ITEM,
    complexity.ITEM,
    kappa.ITEM,
)
BEYOND: tuple[PaperItem, ...] = (
    whole.ITEM,
    dropout.READINESS,
    validation.COSTS,
    two_servers.ITEM,
    validation.POISONING,
)
"""What the paper leaves open."""
ITEMS = (*PAPER, *BEYOND)


class UnknownItem(DhdmmError):
    exit_code = ExitCode.USAGE


def chosen(names: Sequence[str]) -> tuple[PaperItem, ...]:
    """The items with these names, in their order; all if none is named."""
    known = [item.name for item in ITEMS]
    for name in names:
        if name not in known:
            raise UnknownItem(f"there is no item '{name}'", hint=nearest(name, known))
    return tuple(item for item in ITEMS if item.name in names) or ITEMS
