"""Plans of a few kilobytes that describe arrays of gigabytes or searches without end.

Run as a program it reviews each of them under a limit of the operating system and prints why it was
refused: `python -m tests.participant.costly_plans NAME …`.
"""

from __future__ import annotations

import itertools
import json
import random
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cbor2
import numpy as np

from dhdmm.participant.policy import Policy, PolicyRefusal, review_preview
from dhdmm.planning.draft import parameters_for
from dhdmm.planning.plan import NO_ROSTER
from dhdmm.strategy.basis import Basis
from dhdmm.strategy.blocks import WHOLE, Block, MeasuredAxis, Residual, Side
from dhdmm.strategy.contrast import Nest, contrasts
from dhdmm.strategy.encoding import encode
from dhdmm.strategy.tree import Tree
from dhdmm.study.models import StudyModel
from dhdmm.study.spec import Study

POLICY = Policy(max_epsilon=1e6, min_participants=3, max_honest_floor=10**6)
PARTICIPANTS = 20
MEMORY = 1_500 * 2**20
"""Of the whole process, address space included: a gigabyte is gone before a plan is read."""
CPU_SECONDS = 240
"""For all plans together: ends a search that would not end."""

Parts = tuple[tuple[MeasuredAxis, ...], tuple[Block, ...]]


def integer(size: int) -> dict[str, Any]:
    return {"type": "integer", "range": [0, size - 1]}


def axis(size: int, orbits: int = 1, extra: Any = None) -> MeasuredAxis:
    """All values in one orbit, or each in its own."""
    orbit = np.arange(size) if orbits == size else np.zeros(size, np.int64)
    vectors = np.zeros((0, orbits), np.int64) if extra is None else np.array(extra, np.int64)
    return MeasuredAxis(np.arange(size), Tree.flat(orbit), vectors)


def side(axes: tuple[int, ...], ids: Any, diagonal: Any) -> Side:
    """Rows that are single products of vectors, each times a number."""
    rows = len(diagonal)
    basis = Basis(
        np.arange(rows + 1), np.ones(rows, np.int64), np.array(ids, np.int64).reshape(rows, -1)
    )
    return Side(axes, basis, np.diag(np.array(diagonal, np.int64)))


TOTAL = Block((), (side((), [[]], [100]),))


def encoded(
    schema: dict[str, Any], workload: list[Any], parts: Parts, relation: str = "zero-out"
) -> bytes:
    """A plan whose numbers nobody has computed."""
    privacy = {"unit": "record", "rho": 0.01, "corrupt_fraction": 0.05, "relation": relation}
    aggregation = {"participants": PARTICIPANTS, "max_records_per_participant": 1000}
    values = {"study": "costly", "schema": schema, "workload": workload}
    study = Study(
        StudyModel.model_validate(values | {"privacy": privacy, "aggregation": aggregation})
    )
    parameters = parameters_for(PARTICIPANTS, study.privacy, study.aggregation)
    fields = {
        "version": 1,
        "study": study.canonical_bytes(),
        "strategy": encode(*parts),
        "participants": PARTICIPANTS,
        "roster": NO_ROSTER,
        "rho": [1, 100],
        "variance": [10**9, 1],
        "modulus": 2**60,
        "degree": parameters.degree,
        "threshold": parameters.threshold,
        "minimum_survivors": parameters.minimum_survivors,
        "corrupt": parameters.corrupt,
        "margin": parameters.margin,
    }
    return bytes(cbor2.dumps(fields, canonical=True))


def contrast(size: int) -> bytes:
    """A contrast that would be written out as a matrix of size × size."""
    block = Block((Residual(0, WHOLE, contrasts(Nest(size))[0]),), TOTAL.sides)
    parts = (axis(size),), (TOTAL, block)
    return encoded({"a": integer(size)}, [{"name": "t", "by": ["a"]}], parts)


def ranges(items: int, size: int) -> bytes:
    """All ranges of many values, again and again."""
    asked = [{"name": f"t{i}", "ranges": {"of": "a", "kind": "all"}} for i in range(items)]
    return encoded({"a": integer(size)}, asked, ((axis(size),), (TOTAL,)))


def replaced(size: int) -> bytes:
    """Every value is of its own kind, so pairs of values are size² many."""
    parts = (axis(size, size, [range(1, size + 1)]),), (Block((), (side((0,), [1 + size], [1]),)),)
    return encoded({"a": integer(size)}, [{"name": "t", "by": ["a"]}], parts, "replace")


def coupled(attributes: int) -> bytes:
    """The largest column norm is the ground state of a spin glass."""
    chance = random.Random(1)
    units = list(itertools.product((1, 2), (1, 2)))
    blocks = tuple(
        Block((), (side(pair, units, [chance.randrange(1, 1000) for _ in units]),))
        for pair in itertools.combinations(range(attributes), 2)
    )
    schema = {f"a{i:02}": integer(2) for i in range(attributes)}
    axes = tuple(axis(2, 2) for _ in range(attributes))
    return encoded(schema, [{"name": "t", "marginals": {"ways": 2}}], (axes, blocks))


def repeated(items: int, attributes: int) -> bytes:
    """Each item stands for hundreds of tables."""
    schema = {f"a{i:02}": integer(2) for i in range(attributes)}
    asked = [{"name": f"t{i}", "marginals": {"ways": 2}} for i in range(items)]
    return encoded(schema, asked, (tuple(axis(2) for _ in schema), (TOTAL,)))


def conditions(items: int, size: int) -> bytes:
    """Conditions that couple two attributes of many values into several products each."""
    schema = {"a": integer(size), "b": integer(size)}
    asked = [
        {
            "name": f"t{i}",
            "by": ["a"],
            "where": " OR ".join(f"(a % {7 + i} = {j} AND b % 11 = {j})" for j in range(6)),
        }
        for i in range(items)
    ]
    return encoded(schema, asked, ((axis(size), axis(size)), (TOTAL,)))


def crossed(size: int) -> bytes:
    """One table of size² answers."""
    schema = {"a": integer(size), "b": integer(size)}
    asked = [{"name": "t", "by": ["a", "b"]}]
    return encoded(schema, asked, ((axis(size), axis(size)), (TOTAL,)))


PLANS: dict[str, Callable[[], bytes]] = {
    "contrast of 16,000 values": lambda: contrast(16_000),
    "contrast of 60,000 values": lambda: contrast(60_000),
    "30 times all ranges of 4,001 values": lambda: ranges(30, 4_001),
    "replacing among 5,700 values": lambda: replaced(5_700),
    "780 coupled pairs of 40 attributes": lambda: coupled(40),
    "1,000 items of 780 tables": lambda: repeated(1_000, 40),
    "40 conditions on a million values": lambda: conditions(40, 10**6),
    "a table of a million million answers": lambda: crossed(10**6),
}


def main(names: list[str]) -> None:
    plans = {name: PLANS[name]() for name in names}
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    for name, plan in plans.items():
        try:
            review_preview(plan, POLICY)
        except PolicyRefusal as refusal:
            said = [refusal.reason, refusal.what]
            print(json.dumps([name, len(plan), *said, peak_megabytes()]), flush=True)


def peak_megabytes() -> int:
    """Of this program alone: getrusage would tell the peak of the process that started it, too."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (peak,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) // 1024


if __name__ == "__main__":
    main(sys.argv[1:] or list(PLANS))
