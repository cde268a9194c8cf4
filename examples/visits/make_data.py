"""Made-up emergency visits of twelve hospitals, as untidy as such tables are.

Run `python make_data.py FOLDER`.

Every hospital spells values its own way: upper and lower case, blanks, abbreviations, ages as text,
several marks for "not known". `truth.json` has what a tidy table would give.
"""

from __future__ import annotations

import csv
import json
import random
import sys
from collections import Counter
from pathlib import Path

HOSPITALS, VISITS = 12, 40_000
OUTCOMES = {"admitted": 0.28, "discharged": 0.6, "transferred": 0.12}
SPELLINGS = {
    "female": ("female", "Female", "FEMALE", " female ", "f", "F"),
    "male": ("male", "Male", "MALE", "male ", "m", "M"),
}
ABSENT = ("", "NA", "-1", "n/a")


def visits(seed: int = 7) -> list[dict[str, str]]:
    """The tidy truth: one row a visit."""
    draw = random.Random(seed)
    return [
        {
            "hospital": str(1 + i % HOSPITALS),
            "age": str(min(int(abs(draw.gauss(0, 1)) * 32), 104)),
            "sex": draw.choice(("female", "male")),
            "outcome": draw.choices(list(OUTCOMES), OUTCOMES.values())[0],
        }
        for i in range(VISITS)
    ]


def untidy(row: dict[str, str], draw: random.Random) -> dict[str, str]:
    """The same visit as a hospital's system exports it."""
    age, outcome = row["age"], row["outcome"]
    if draw.random() < 0.01:
        age = draw.choice(ABSENT)
    if draw.random() < 0.3:
        outcome = draw.choice((outcome.upper(), outcome.title(), f" {outcome.title()}"))
    return {"AGE_YEARS": age, "Sex": draw.choice(SPELLINGS[row["sex"]]), "Outcome": outcome}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tidy, draw = visits(), random.Random(8)
    for hospital in range(1, HOSPITALS + 1):
        rows = [untidy(row, draw) for row in tidy if row["hospital"] == str(hospital)]
        path = folder / f"hospital-{hospital:02}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    truth = Counter(row["outcome"] for row in tidy)
    (folder / "truth.json").write_text(json.dumps(truth, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
