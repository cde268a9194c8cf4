"""Benchmarks: `python -m bench`. Ratios within one run, never a timed assertion."""
