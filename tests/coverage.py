"""What a run under coverage.py reached, in per cent by package: `make coverage`."""

from __future__ import annotations

from collections import Counter

from coverage import Coverage

PACKAGE = "dhdmm"


def main() -> None:
    reached, all_of_them = Counter[str](), Counter[str]()
    data = Coverage()
    data.load()
    for file in sorted(data.get_data().measured_files()):
        *_, after = file.rpartition(f"/src/{PACKAGE}/")
        if not after or after == file:  # a copy that a test weakened
            continue
        package = after.partition("/")[0] if "/" in after else "root"
        found = data._analyze(file).numbers
        done, possible = found.ratio_covered
        for name in (package, "in all"):
            reached[name] += done
            all_of_them[name] += possible
    for name, possible in all_of_them.items():
        print(f"{name:14} {100 * reached[name] / possible:5.1f} %")


if __name__ == "__main__":
    main()
