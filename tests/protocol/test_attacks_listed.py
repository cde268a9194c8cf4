"""Every row of the table of faults and attacks that concerns the protocol itself has a test."""

from __future__ import annotations

from tests.protocol import (
    test_attacks_on_agreement,
    test_attacks_on_coordinator,
    test_attacks_on_keys,
    test_attacks_on_survivors,
)

ROWS = {1, 2, 3, 6, *range(8, 20), 21, 25, 26, 27}
MODULES = (
    test_attacks_on_agreement,
    test_attacks_on_coordinator,
    test_attacks_on_keys,
    test_attacks_on_survivors,
)


def rows_tested() -> dict[int, list[str]]:
    """The names of the tests that each row has."""
    by_row: dict[int, list[str]] = {}
    for module in MODULES:
        for name, test in vars(module).items():
            for row in getattr(test, "fault_rows", ()):
                by_row.setdefault(row, []).append(name)
    return by_row


def test_every_row_is_tested() -> None:
    assert rows_tested().keys() == ROWS
