"""All mutants, read from the text files beside this one.

    # secagg/steps.py
    - the line as it is
    + the line weakened
    ? what it would break
    ! FILE::TEST that notices it; one or several
    = why it is left, if it changes nothing

A file's name holds for all that follows; mutants are separated by empty lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.mutants.mutant import Mutant, TableError

FILES = (
    "secagg.txt",
    "privacy.txt",
    "planning.txt",
    "strategy.txt",
    "validation.txt",
    "twoservers.txt",
    "removal.txt",
)


def read(text: str) -> Iterator[Mutant]:
    """The mutants of one text."""
    file = ""
    for paragraph in text.strip().split("\n\n"):
        marked: dict[str, list[str]] = {mark: [] for mark in "#-+?!="}
        for line in paragraph.splitlines():
            mark, _, content = line.partition(" ")
            if mark not in marked or not content:
                raise TableError(f"neither a mark nor its content: {line}")
            marked[mark].append(content)
        file = marked["#"][0] if marked["#"] else file
        if marked["-"]:
            yield _mutant(file, marked)


def _mutant(file: str, marked: dict[str, list[str]]) -> Mutant:
    if not file or any(len(marked[mark]) != 1 for mark in "-+?") or not marked["!"]:
        raise TableError(f"not a whole mutant: {file}: {marked['-']}")
    (line,), (weakened,), (breaks,) = marked["-"], marked["+"], marked["?"]
    return Mutant(file, line, weakened, breaks, tuple(marked["!"]), " ".join(marked["="]))


MUTANTS = tuple(
    mutant
    for name in FILES
    for mutant in read((Path(__file__).parent / name).read_text(encoding="utf-8"))
)
