"""A data holder's table, counted for every study that was consented to before anybody is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dhdmm.errors import DhdmmError
from dhdmm.study.histogram import Histogram
from dhdmm.study.spec import Study


class CountedTables:
    """One table's histograms, each counted once; errors are raised when it is asked for."""

    def __init__(self, tabulate: Callable[[Study], Histogram]) -> None:
        self._tabulate = tabulate
        self._found: dict[bytes, Histogram | DhdmmError] = {}

    def prepare(self, studies: Iterable[Study]) -> None:
        for study in studies:
            if study.digest not in self._found:
                try:
                    self._found[study.digest] = self._tabulate(study)
                except DhdmmError as error:  # perhaps the table is for another of these studies
                    self._found[study.digest] = error

    def __call__(self, study: Study) -> Histogram:
        self.prepare([study])
        found = self._found[study.digest]
        if isinstance(found, DhdmmError):
            raise found
        return found
