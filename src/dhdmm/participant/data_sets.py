"""Data sets that a holder has named, each with one budget: `dhdmm data add visits --table …`.

A budget belongs to the data, whichever study asks. A table that was named here is found again by
its name, its path or its address, and every round that counts it debits the same ledger: from
`dhdmm run`, `dhdmm join` and `dhdmm.run`, in as many processes as there are (ADR 28).

    STATE/data/NAME/data.json      the table's place and the δ of the budget
    STATE/data/NAME/ledger         the budget; see `dhdmm.privacy.ledger`
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dhdmm import formats
from dhdmm.errors import DataError, DhdmmError, Refused
from dhdmm.participant.address import is_address
from dhdmm.privacy.budgets import Budget
from dhdmm.privacy.chain import Purpose
from dhdmm.privacy.ledger import Ledger
from dhdmm.privacy.protection import Protection
from dhdmm.study.names import nearest

if TYPE_CHECKING:
    from dhdmm.planning.plan import Plan

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
FILE, LEDGER = "data.json", "ledger"
SPENT = "inputs had been sent, so the ledger keeps the round's budget as spent"
UNNAMED = (
    "nothing is accounted for: no data set is named for these tables. Name it once, with the"
    ' budget of all rounds: dhdmm data add NAME --table TABLE --budget "epsilon=3,delta=1e-6"'
)


def state_folder() -> Path:
    """The holder's own folder: one a person, so that there is one ledger wherever one stands."""
    given = os.environ.get("DHDMM_STATE")
    if given:
        return Path(given)
    states = os.environ.get("XDG_STATE_HOME")
    return (Path(states) if states else Path.home() / ".local" / "state") / "dhdmm"


def now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class DataSet:
    """A table with a name and a budget.

    Attributes:
        name: As the holder calls it.
        table: The table's path or address, without a password.
        delta: The δ at which the budget's ε is stated.
        folder: Where its ledger is kept.
    """

    name: str
    table: str
    delta: float
    folder: Path

    def ledger(self) -> Ledger:
        """Open the budget.

        Returns:
            The ledger, its chain verified.

        Raises:
            Refused: The ledger was altered, turned back, or cannot be read.
        """
        return Ledger(self.folder / LEDGER, now)


class DataSets:
    """Those that are named in one holder's folder."""

    def __init__(self, state: Path | None = None) -> None:
        """`state` is the holder's folder; by default that of whoever calls."""
        self._root = (state or state_folder()) / "data"

    def add(self, name: str, table: str, budget: Budget) -> DataSet:
        """Name a table and fix the budget of all its rounds.

        Args:
            name: Letters, digits, `-` and `_`.
            table: The path of a file or folder, or the address of a table in a warehouse.
            budget: What all rounds together may cost.

        Returns:
            The data set.

        Raises:
            Refused: The name or the table has a budget already, which stays.
            DataError: The name or the table is none.
        """
        if not NAME.fullmatch(name):
            raise DataError(
                f"{name!r} cannot be a data set's name", hint="use letters, digits, - and _"
            )
        if not is_address(table) and not Path(table).exists():
            raise DataError("there is no such file", where=table)
        place = place_of(table)
        inside = (one for one in self.all() if _within(one.table, place))
        holding = self.holding(table) or next(inside, None)
        if holding is not None:
            raise Refused(
                f"the table, or a part of it, is the data set '{holding.name}', which has a budget",
                hint="a second name would be a second budget for the same data",
            )
        made = DataSet(name, place, budget.delta, self._root / name)
        stated = {"dhdmm": "data set", "format": formats.DATA_SET.writes, "name": name}
        stated |= {"table": made.table, "delta": made.delta}
        with _os_errors(made.folder):
            for folder in (self._root.parent, self._root):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                made.folder.mkdir(mode=0o700)
            except FileExistsError:
                raise Refused(
                    f"there is a data set '{name}' already", hint="see dhdmm data list"
                ) from None
            Ledger.create(made.folder / LEDGER, budget.rho, now)
            file = os.open(made.folder / FILE, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(file, "w", encoding="utf-8") as opened:
                opened.write(json.dumps(stated, indent=2, ensure_ascii=False) + "\n")
        return made

    def all(self) -> list[DataSet]:
        """Every data set, by name.

        Returns:
            The list; empty if none was named.
        """
        return [self._read(path.parent) for path in sorted(self._root.glob(f"*/{FILE}"))]

    def named(self, name: str) -> DataSet:
        """The data set of this name.

        Args:
            name: As it was given.

        Returns:
            The data set.

        Raises:
            DataError: There is none.
        """
        for one in self.all():
            if one.name == name:
                return one
        raise DataError(
            f"there is no data set '{name}'", hint=nearest(name, [one.name for one in self.all()])
        )

    def holding(self, table: str | os.PathLike[str]) -> DataSet | None:
        """The data set of this name, or that this table is, or is part of.

        Args:
            table: A name, a path or an address.

        Returns:
            The data set; None if the table has no name.
        """
        text, known = os.fspath(table), self.all()
        place = place_of(text)
        for one in known:
            if one.name == text and not Path(text).exists():
                return one
            if place == one.table or _within(place, one.table):
                return one
        return None

    def _read(self, folder: Path) -> DataSet:
        path = folder / FILE
        try:
            stated = json.loads(path.read_text(encoding="utf-8"))
            formats.readable(formats.DATA_SET, stated["format"], DataError)
            return DataSet(folder.name, str(stated["table"]), float(stated["delta"]), folder)
        except (OSError, ValueError, KeyError, TypeError):
            raise DataError("this is not the file of a data set", where=str(path)) from None


def place_of(table: str) -> str:
    """A table's path or address in one spelling; a password is no part of it."""
    if not is_address(table):
        return os.path.realpath(table)
    parts = urlsplit(table)
    host = parts.netloc.rpartition("@")[2]
    user = (parts.username or "") + "@" if parts.username else ""
    return parts._replace(netloc=user + host).geturl()


def _within(place: str, folder: str) -> bool:
    """Files of a folder that was named as a whole."""
    return not (is_address(folder) or is_address(place)) and Path(folder) in Path(place).parents


@contextmanager
def _os_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DhdmmError(f"it cannot be kept: {error.strerror}", where=str(folder)) from None


# ---- rounds -------------------------------------------------------------------------------------


def ledgers_for(
    tables: Iterable[Any], given: str | os.PathLike[str] | None, state: Path | None = None
) -> list[Ledger]:
    """The budgets that a round over these tables debits; empty if there is none.

    `given` is a ledger file, or a data set's name. A table that has a name debits its own
    budget, and a ledger beside it is refused.
    """
    sets = DataSets(state)
    places = [table for table in tables if isinstance(table, str | os.PathLike)]
    found = {one.name: one for table in places if (one := sets.holding(table)) is not None}
    if given is None:
        return [one.ledger() for one in found.values()]
    ledger = _ledger(given, sets)
    for one in found.values():
        if one.ledger().path.resolve() != ledger.path.resolve():
            raise Refused(
                f"the table belongs to the data set '{one.name}', whose budget counts",
                hint=f"leave the ledger out: dhdmm ledger {one.name} shows it",
            )
    return [ledger]


def _ledger(given: str | os.PathLike[str], sets: DataSets) -> Ledger:
    if Path(given).is_file():
        return Ledger(Path(given), now)
    return sets.named(os.fspath(given)).ledger()


@contextmanager
def accounted(ledgers: Sequence[Ledger], plan: Plan, round_id: bytes) -> Iterator[Any]:
    """Reserved before the round, debited before inputs are asked for, given back if they never are.

    Gives what to call at that moment. One person runs all participants here, so one entry in each
    ledger stands for all that its data hold.
    """

    def debit() -> None:
        for ledger in ledgers:
            ledger.debit(round_id, plan.digest)

    def settle() -> bool:
        paid = [ledger.settle(round_id) is not None for ledger in ledgers]
        return any(paid)

    try:
        for ledger in ledgers:
            purpose = Purpose(plan.study.name, plan.participants)
            protection = Protection.of(plan.study)
            ledger.reserve(plan.digest, round_id, plan.rho, protection, purpose)
        yield debit
    except DhdmmError as error:
        error.hint = SPENT if settle() else error.hint
        raise
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*([SPENT] if settle() else [])) from None
    finally:
        settle()
