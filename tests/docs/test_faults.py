"""Every fault and attack that dhdmm is built for has a test, and the page says which."""

from __future__ import annotations

import pytest

from tests.faults import PAGE, ROWS, WITHOUT_TEST, page, rows_tested


def test_every_row_has_a_test() -> None:
    assert ROWS.keys() - rows_tested().keys() == WITHOUT_TEST.keys()


@pytest.mark.slow
def test_markers_name_rows_that_exist() -> None:
    assert rows_tested().keys() <= ROWS.keys() - WITHOUT_TEST.keys()


@pytest.mark.slow
def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it anew: python -m tests.faults"
