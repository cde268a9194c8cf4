"""The coordinator's view of the graph: everybody's neighbours, in the order they were told.

An entry (i, j) says that j is a neighbour of i; entries are sorted by i, then j, and (j, i) is
always there too. n participants, E entries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dhdmm.secagg.messages import Direction

Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Neighbourhoods:
    """Arrays over entries: `positions`, the j; `directions`, as i sees j; `reverse`, of (j, i)."""

    def __init__(self, participants: int, choosers: Indices, chosen: Indices) -> None:
        """From pairs "i chose j", which are seen from both ends and may go both ways."""
        n = participants
        chosen_by, choosing = choosers * n + chosen, chosen * n + choosers
        entries = np.union1d(chosen_by, choosing)
        self.directions = np.where(np.isin(entries, chosen_by), int(Direction.OUT), 0) + np.where(
            np.isin(entries, choosing), int(Direction.IN), 0
        )
        self._owners, self.positions = entries // n, entries % n
        self.reverse = np.searchsorted(entries, self.positions * n + self._owners)
        self._starts = np.searchsorted(self._owners, np.arange(n + 1))

    def row(self, position: int) -> slice:
        """Where a participant's neighbourhood is in the arrays."""
        return slice(int(self._starts[position]), int(self._starts[position + 1]))

    def entries(self, position: int, where: Flags) -> Indices:
        """The indices of a participant's entries that are flagged."""
        row = self.row(position)
        indices: Indices = row.start + np.flatnonzero(where[row])
        return indices

    def pointing(self, direction: Direction) -> Flags:
        """The entries that point this way."""
        flags: Flags = (self.directions & direction) != 0
        return flags

    def ranks(self, flags: Flags) -> Indices:
        """For each entry, how many flagged ones come before it in the same neighbourhood."""
        before = np.concatenate([[0], np.cumsum(flags)])
        ranks: Indices = before[:-1] - before[self._starts[self._owners]]
        return ranks
