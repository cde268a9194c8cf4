"""Synthetic people, made up: no record is a real person's, only the rough shapes are familiar.

A NumPy generator is fine here: these numbers are public, and the same seed gives the same people.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

RACES = ("White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other")
RACE_SHARES = (0.855, 0.096, 0.031, 0.01, 0.008)
EDUCATION_SHARES = (2, 5, 10, 20, 15, 28, 36, 13, 323, 223, 42, 33, 164, 54, 17, 15)


def offices(count: int, seed: int) -> Iterator[pa.Table]:
    """One table a participant, of 10 to 50 records."""
    generator = np.random.default_rng(seed)
    for size in generator.integers(10, 51, count):
        yield _people(int(size), generator)


def _people(size: int, generator: np.random.Generator) -> pa.Table:
    """Older people are fewer, men work longer, education has two humps."""
    male = generator.random(size) < 0.67
    age = np.clip(17 + generator.gamma(2.6, 8.3, size), 17, 90).astype(np.int64)
    shares = np.array(EDUCATION_SHARES, float) / sum(EDUCATION_SHARES)
    education = generator.choice(np.arange(1, 17), size, p=shares)
    usual = np.where(generator.random(size) < 0.47, 40.0, generator.normal(38, 13, size))
    hours = np.clip(usual + 2.5 * male, 1, 99)
    return pa.table(
        {
            "age": age,
            "education": education,
            "race": generator.choice(RACES, size, p=RACE_SHARES),
            "sex": np.where(male, "Male", "Female"),
            "hours": hours,
        }
    )
