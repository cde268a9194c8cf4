"""Writes ten hospitals' tables: 40,000 made-up emergency visits, the same ones every time."""

import csv
import random
import sys
from datetime import date, timedelta
from pathlib import Path

HOSPITALS, VISITS = 10, 4_000
PLACES = Path(__file__).with_name("places.csv")


def visit(places: list[dict[str, str]], draw: random.Random) -> list[object]:
    day = date(2024, 1, 1) + timedelta(days=draw.randrange(91))
    if day.weekday() < 5 and draw.random() < 0.2:  # more come at weekends
        day += timedelta(days=5 - day.weekday())
    place = draw.choice(places)
    wait = min(int(draw.expovariate(1 / (45 if place["region"] == "coast" else 70))), 299)
    admitted = draw.random() < 0.28
    cost = "" if draw.random() < 0.03 else round(draw.lognormvariate(6 + admitted, 0.8))
    return [min(day, date(2024, 3, 31)), place["zip"], wait, cost, ["home", "admitted"][admitted]]


def main(folder: Path) -> None:
    with PLACES.open(newline="") as file:
        places = list(csv.DictReader(file))
    folder.mkdir(exist_ok=True)
    for hospital in range(HOSPITALS):
        draw = random.Random(hospital)
        with (folder / f"hospital-{hospital}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["day", "zip", "wait", "cost", "outcome"])
            table.writerows(visit(places, draw) for _ in range(VISITS))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
