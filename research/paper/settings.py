"""How large a run is: the published sizes, or small ones that show the same shapes in minutes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SEED = 2026
DELTA = 1e-5
CORRUPT_FRACTION = 0.05
MAX_DROPOUT = 0.05
SEMI_HONEST, MALICIOUS = "semi-honest", "malicious"
MODELS = (SEMI_HONEST, MALICIOUS)


@dataclass(frozen=True)
class Settings:
    """Everything that an item may vary. The defaults are the full run."""

    label: str = "full"
    seed: int = SEED
    adult: Path | None = None
    """A table of the UCI Adult data; without it a made-up stand-in is used, and named so."""

    participants: tuple[int, ...] = (100, 1000, 3000)
    """As in the paper's table."""
    repetitions: int = 3
    records: tuple[int, ...] = (1, 100)
    more_participants: tuple[int, ...] = (10_000, 100_000)
    """Simulated once each, the coordinator alone."""
    counted_participants: tuple[int, ...] = (1_000_000,)
    """Not executed: messages and operations are counted, at fixed unit costs."""

    accuracy_participants: int = 1000
    accuracy_repetitions: int = 40
    epsilons: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0, 5.0)
    thetas: tuple[float, ...] = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
    rounds: int = 3
    """Of the whole protocol, beside the ideal sum."""

    dropouts: tuple[float, ...] = (0.0, 0.1, 0.3)
    dropout_participants: int = 1000
    dropout_repetitions: int = 1
    ready_thetas: tuple[float, ...] = (0.05, 0.2, 0.33, 0.49)
    """Whose cost is measured."""
    validated_participants: tuple[int, ...] = (100, 1000)
    two_server_participants: tuple[int, ...] = (3000, 100_000, 1_000_000)
    rows: tuple[int, ...] = (3112, 33_184, 100_000)
    """Measurements of a strategy: ours for SF1, the paper's for SF1, and more."""
    rows_participants: int = 100

    studies: tuple[str, ...] = ("adult-5", "census-sf1")
    """Whose accuracy is shown."""
    simulated: str = "census-sf1"
    """Whose rounds are timed."""


def quick(seed: int = SEED, adult: Path | None = None) -> Settings:
    """The same items in minutes: fewer participants, fewer repetitions."""
    return Settings(
        label="quick",
        seed=seed,
        adult=adult,
        participants=(100, 300, 1000),
        repetitions=2,
        more_participants=(),
        counted_participants=(100_000,),
        accuracy_repetitions=5,
        thetas=(0.0, 0.1, 0.2, 0.3),
        rounds=1,
        dropout_participants=100,
        validated_participants=(100,),
        two_server_participants=(300,),
        rows_participants=30,
    )
