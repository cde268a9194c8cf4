"""The faults and attacks that dhdmm is built for, and the tests that show each of them.

A test names its rows by `@pytest.mark.fault(row, …)`; `python -m tests.faults` writes the page.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs" / "faults.md"
WITHOUT_TEST: dict[int, str] = {}


class Row(NamedTuple):
    fault: str
    expected: str


ROWS = {
    1: Row("A participant drops out in any phase", "the sum over the survivors"),
    2: Row("More drop out than the threshold allows", "abort; nothing is unmasked"),
    3: Row("A participant drops out after its input, before unmasking", "still counted"),
    4: Row("The coordinator is killed at any commit point", "it resumes; the same result"),
    5: Row("It crashes between commit and reply", "a retry gets the stored reply"),
    6: Row("A participant restarts after revealing a share", "the journal forbids the other kind"),
    7: Row("Disk full, or a torn write", "fails closed"),
    8: Row("A duplicate of the same body, concurrently", "the same reply; counted once"),
    9: Row("A duplicate with another body", "409; the first is kept"),
    10: Row("Messages reordered or late", "refused by phase"),
    11: Row("A replay from another round", "refused: messages are bound to their session"),
    12: Row(
        "Different people are told of different survivors, or of different sharers",
        "the evidence does not fit; abort",
    ),
    13: Row("Both shares of one participant are asked for", "refused, with evidence"),
    14: Row(
        "Different keys or roots; keys that the pinned identity did not sign",
        "abort; who sees different roots shares no keys",
    ),
    15: Row("Different strategies or parameters", "digests differ: abort; masks do not cancel"),
    16: Row("False claims of dropout", "refused below the noise floor"),
    17: Row(
        "The number of participants inflated to shrink the noise",
        "the roster is pinned; the local policy caps the honest floor",
    ),
    18: Row("A biased graph of neighbours", "own randomness; a limit on in-degrees"),
    19: Row(
        "Sybils; a roster of the coordinator's making",
        "an unpinned roster is refused; one identity, one seat",
    ),
    20: Row(
        "Garbage in range as an input",
        "with `validation: bounded` not counted; otherwise not noticed, a documented limit",
    ),
    21: Row("An input of wrong length or out of range", "422 before it is added"),
    22: Row("An oversized or compressed body", "413 while it arrives; memory bounded"),
    23: Row("A flood of connections", "capped, 503"),
    24: Row("A slow header or body", "cut off within ten seconds"),
    25: Row("A tampered share", "does not open; its sender counts as not having shared"),
    26: Row("Inconsistent Shamir shares", "noticed; abort"),
    27: Row("Keys of low order, malleable signatures", "refused"),
    28: Row("A strategy bomb: huge rows, NaN, nothing to measure", "refused from the header"),
    29: Row("A sum that exceeds the modulus", "refused before the round"),
    30: Row("A participant's noise below σ = 3", "refused"),
    31: Row("Randomness fails, or the process forks", "abort; no mask is used twice"),
    32: Row("A biased sampler; leaks through floating point", "noticed by vectors and χ²"),
    33: Row("The budget is exhausted", "the ledger refuses"),
    34: Row("The ledger is rolled back", "refused"),
    35: Row("A crash between debit and sending", "stays debited"),
    36: Row("No, an expired or a wrong certificate; a token used twice", "refused, 401"),
    37: Row("Path traversal, SQL injection, hostile names", "4xx, escaped"),
    38: Row("Secrets in logs or traces", "canaries do not appear"),
    39: Row("More bodies than memory", "they wait; the process lives"),
    40: Row("A skewed clock", "deadlines are monotonic"),
    41: Row("Malformed frames", "a typed error"),
    42: Row(
        "A defect of the coordinator in the midst of a turn",
        "500 with an id that the log has with the traceback; the round goes on as it was",
    ),
    43: Row(
        "The store is away or full for longer than a phase",
        "the phase's clock stands still; nobody is left out, and no budget spent in vain",
    ),
    44: Row(
        "The store goes on failing",
        "tried less and less often, a line a minute in the log; not ready",
    ),
    45: Row(
        "A restart in the first phase after enrolment", "the time of a phase, not of an enrolment"
    ),
    46: Row(
        "A release cannot be saved, or the process is killed while it is",
        "saved later, once; nothing is left over",
    ),
    47: Row(
        "Participants fall silent, a round aborts, a defect is met, a certificate runs out",
        "an alert for each, and none where there is nothing",
    ),
    48: Row(
        "Secret files that others can read; the operator's token in a log",
        "refused; the store is its owner's alone; no token is logged",
    ),
    49: Row("A mistyped key; a round id that is none", "a clear error"),
    50: Row(
        "A crash, then an abort, then another round",
        "what was reserved comes back unless the input may have left; secrets are erased",
    ),
    51: Row("More rounds than one answer may hold", "listed in pages; every client copes"),
    52: Row(
        "A coordinator that is restarted again and again",
        "one round at a time; an occurrence has one round",
    ),
    53: Row("An older roster, with a key that was revoked", "refused by whoever saw a newer one"),
    54: Row(
        "Strangers announce bodies, keep questions waiting, do not read answers",
        "what members need is not theirs to hold",
    ),
    55: Row(
        "Made-up keys, wrong signatures and guessed tokens, from members' own address",
        "strangers are slowed down, members are not",
    ),
    56: Row(
        "Rounds, rosters and releases are asked for without credentials",
        "401, the same whether there is such a round or not",
    ),
    57: Row(
        "The store keeps the messages of rounds that are long over",
        "purged when the operator says so; transcripts and the fact of rounds stay",
    ),
    58: Row(
        "A study is repeated for as long as the coordinator lives",
        "one round a period; whoever has no budget left stays out, and the others go on",
    ),
    59: Row(
        "Somebody else begins, closes or aborts a round, or asks who is missing",
        "refused; the operator does",
    ),
}

HEAD = """# Faults and attacks

What goes wrong in networks and what people do to each other on them, what dhdmm does then, and the
tests that show it. The tests name their row by a marker and this page is made from the markers by
`python -m tests.faults`; a row without a test fails the test suite. Where it makes sense, a test
comes with a weakened variant in which the same attack succeeds.

| | Fault or attack | Expected | Tests |
|---|---|---|---|
"""


def rows_tested() -> dict[int, list[str]]:
    """`FILE::TEST` for each row, in the order of the files."""
    found: dict[int, list[str]] = {}
    for file in sorted((PROJECT / "tests").rglob("test_*.py")):
        name, text = file.relative_to(PROJECT).as_posix(), file.read_text(encoding="utf-8")
        for test in ast.parse(text).body if "pytest.mark.fault" in text else ():
            if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef):
                for row in sorted(set(_rows(test))):
                    found.setdefault(row, []).append(f"{name}::{test.name}")
    return found


def _rows(test: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[int]:
    """The arguments of `pytest.mark.fault` wherever it stands in the decorators."""
    for decorator in test.decorator_list:
        for node in ast.walk(decorator):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.fault":
                yield from (ast.literal_eval(argument) for argument in node.args)


def page() -> str:
    tests = rows_tested()
    return HEAD + "".join(
        f"| {number} | {row.fault} | {row.expected} | {_shown(number, tests.get(number, []))} |\n"
        for number, row in ROWS.items()
    )


def _shown(number: int, tests: list[str]) -> str:
    """Names by file: the file once, then its tests."""
    files: dict[str, list[str]] = {}
    for test in tests:
        file, name = test.split("::")
        files.setdefault(file.removeprefix("tests/"), []).append(f"`{name}`")
    shown = [f"{file}: {', '.join(names)}" for file, names in files.items()]
    return "<br>".join(shown) or WITHOUT_TEST.get(number, "")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
