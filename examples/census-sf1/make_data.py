"""Writes persons.csv: made-up people with the five attributes of the SF1 person tables."""

import csv
import random
import sys
from pathlib import Path

RACES = [1, 2, 4, 8, 16, 32]


def main(people: int = 1000) -> None:
    draw = random.Random(2010)
    with (Path(__file__).parent / "persons.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["sex", "hispanic", "race", "relationship", "age"])
        for _ in range(people):
            race = draw.choices(RACES, [72, 13, 1, 5, 0.3, 6])[0]
            if draw.random() < 0.03:
                race |= draw.choice(RACES)
            sex, hispanic = (
                draw.choice(["male", "female"]),
                draw.choices(["yes", "no"], [16, 84])[0],
            )
            age = min(int(draw.triangular(0, 100, 30)), 114)
            table.writerow([sex, hispanic, race, draw.randrange(17), age])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
