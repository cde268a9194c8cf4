"""The page docs/mutants.md, from the table."""

from __future__ import annotations

from collections.abc import Sequence

from tests.mutants.mutant import PROJECT, Mutant

PAGE = PROJECT / "docs" / "mutants.md"

HEAD = """# Guards and their tests

Every line below is a guard, a term of a proved formula or a rounding to the safe side.
`make mutants` weakens one at a time in a copy of the package and runs the tests named here, of
which one must fail. A mutant that no test can notice, because it changes nothing, says why. The
table is in `tests/mutants/`, and `make mutants` writes this page when all is as the table says;
`make test` checks that each line is still there as it is written.

"""


def page(mutants: Sequence[Mutant]) -> str:
    packages = sorted({mutant.package for mutant in mutants})
    of = {name: [each for each in mutants if each.package == name] for name in packages}
    counts = [_count(f"`{name}`", of[name]) for name in packages]
    total = _count("together", mutants)
    summary = "| Package | Made | Killed | Left |\n|---|---|---|---|\n"
    tables = [_table(name, of[name]) for name in packages]
    return HEAD + summary + "".join([*counts, total]) + "".join(tables)


def _count(name: str, mutants: Sequence[Mutant]) -> str:
    left = sum(bool(mutant.left) for mutant in mutants)
    return f"| {name} | {len(mutants)} | {len(mutants) - left} | {left} |\n"


def _table(package: str, mutants: Sequence[Mutant]) -> str:
    columns = "| File | The line, and weakened | What it would break | Noticed by |\n"
    return f"\n## `{package}`\n\n{columns}|---|---|---|---|\n" + "".join(map(_row, mutants))


def _row(mutant: Mutant) -> str:
    file = mutant.file.partition("/")[2]
    noticed = f"*left:* {mutant.left}" if mutant.left else "<br>".join(map(_code, mutant.tests))
    change = f"{_code(mutant.line)}<br>{_code(mutant.weakened)}"
    return f"| {_code(file)} | {change} | {mutant.breaks} | {noticed} |\n"


def _code(text: str) -> str:
    return "`{}`".format(text.replace("|", "\\|"))
