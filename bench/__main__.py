"""`python -m bench [NAME …]`: every benchmark, or those named, one after the other.

All figures are processor time or ratios within one run: the machine may be shared and noisy.
"""

import importlib
import sys

NAMES = (
    "strategy",
    "checks",
    "noise",
    "primitives",
    "secagg",
    "validation",
    "excess",
    "round",
    "simulation",
    "coordinator",
    "tabulate",
    "warehouse",
    "adjust",
    "join",
)


def main(names: list[str]) -> None:
    flags = [name for name in names if name.startswith("--")]
    names = [name for name in names if name not in flags]
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(NAMES)}")
    for name in names or NAMES:
        print(f"── {name} ".ljust(80, "─"), flush=True)
        sys.argv = [name, *flags]  # a benchmark may read its own options
        importlib.import_module(f"bench.{name}").main()
        print(flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
