"""Writes the three hospitals' tables: made-up patients, the same ones every time."""

import csv
import random
from pathlib import Path

WARDS = ["surgery", "medicine", "paediatrics", "obstetrics", "psychiatry"]


def discharge(patient: str, draw: random.Random) -> list[object]:
    ward = draw.choices(WARDS, [30, 40, 12, 10, 8])[0]
    sex = "female" if ward == "obstetrics" else draw.choice(["female", "male"])
    middle = {"paediatrics": 7, "obstetrics": 30}.get(ward, 58)
    highest = {"paediatrics": 17, "obstetrics": 48}.get(ward, 104)
    age = min(max(round(draw.gauss(middle, 16)), 0), highest)
    admission = draw.choices(["planned", "emergency"], [55, 45])[0]
    days = min(int(draw.expovariate(1 / (9 if ward == "psychiatry" else 4.5))), 60)
    return [patient, age, ward, sex, admission, days]


def main() -> None:
    for name, patients, seed in (("north", 1400, 1), ("south", 900, 2), ("river", 1100, 3)):
        draw = random.Random(seed)
        with (Path(__file__).parent / "data" / f"{name}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["patient", "age", "ward", "sex", "admission", "days"])
            for number in range(patients):
                for _ in range(draw.choices([1, 2, 3], [80, 15, 5])[0]):
                    table.writerow(discharge(f"{name}-{number:05d}", draw))


if __name__ == "__main__":
    (Path(__file__).parent / "data").mkdir(exist_ok=True)
    main()
