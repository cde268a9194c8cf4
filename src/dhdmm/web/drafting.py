"""A process that plans studies for the builder: a line with a study in, lines with figures out.

Planning takes seconds of processor time and may be asked for anything, so it does not happen in the
coordinator: this process may be killed, has a limit on its memory, and ends with its caller. It
remembers the last strategy, so that a change of the budget alone is answered at once.
"""

from __future__ import annotations

import base64
import json
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from dhdmm.errors import DhdmmError, StudyError
from dhdmm.planning.draft import draft
from dhdmm.planning.figures import draft_figures, strategy_figures
from dhdmm.server.studies import stored
from dhdmm.strategy.objective import objective_of
from dhdmm.strategy.optimise import optimise
from dhdmm.strategy.strategy import Strategy
from dhdmm.study import canonical
from dhdmm.study.describe import describe
from dhdmm.study.models import PrivacyModel
from dhdmm.study.spec import Study

SOURCE = "study"
MOST_QUERIES = 50_000
"""Of a study that is planned while somebody waits."""
SEARCH_SECONDS = 5.0
"""For the optimum, before the best that was found is shown."""
LONGEST_SECONDS = 300
"""A process that nobody waits for any more ends by itself."""
MEMORY_BYTES = 4 * 2**30
LAST = frozenset({"figures", "draft", "error"})
"""The kinds of answer after which there is no other."""

Answer = dict[str, Any]


def answers(ask: str, text: str, tables: Mapping[str, str] | None = None) -> Iterator[Answer]:
    """What there is to say about a study: first that it can be read, then what it would give."""
    try:
        study = Study.from_text(text, SOURCE, tables=tables)
        yield {"kind": "checked", **_checked(study)}
        if study.workload.queries > MOST_QUERIES:
            raise StudyError(
                f"{study.workload.queries:,} answers are too many to plan while you wait",
                where="workload",
                hint=f"at most {MOST_QUERIES:,} here; export the study and use dhdmm plan",
            )
        if ask == "draft":
            made = asdict(stored(study))
            yield {"kind": "draft", **made, "preview": base64.b64encode(made["preview"]).decode()}
        else:
            yield {"kind": "figures", **_figures(study)}
    except DhdmmError as error:
        yield {"kind": "error", **_located(error)}
    except (MemoryError, RecursionError):
        yield {"kind": "error", "what": "planning this takes too much memory", **NOWHERE}


_WHERE = re.compile(rf"{SOURCE}(?::(\d+))?(?:: (.*?)(?:, SQL line \d+, column \d+)?)?", re.DOTALL)
NOWHERE: Answer = {"path": "", "line": None, "hint": None}


def _checked(study: Study) -> Answer:
    return {
        "yaml": study.to_yaml(),
        "form": canonical.form(study.model),
        "description": describe(study),
    }


def _figures(study: Study) -> Answer:
    strategy = _strategy(_questions(study))
    if study.only_asks:
        return strategy_figures(study, strategy)
    return draft_figures(draft(study, strategy.over(study.workload)))


def _questions(study: Study) -> bytes:
    """The study without its name, its budget and its participants; who is a person is asked."""
    privacy = study.model.privacy
    if privacy is not None:
        kept = privacy.unit if privacy.person else "record"
        privacy = PrivacyModel(unit=kept, rho=1.0, corrupt_fraction=0.0)
    asked = {"study": SOURCE, "privacy": privacy, "aggregation": None}
    return Study(study.model.model_copy(update=asked)).canonical_bytes()


@lru_cache(maxsize=4)
def _strategy(questions: bytes) -> Strategy:
    study = Study.from_canonical_bytes(questions)
    return optimise(study.workload, seconds=SEARCH_SECONDS, objective=objective_of(study))


def _located(error: DhdmmError) -> Answer:
    """`study:3: workload[0].sql, SQL line 1, column 7` is line 3 and the path `workload[0].sql`."""
    line, path = None, error.where or ""
    found = _WHERE.fullmatch(path)
    if found:
        line, path = found[1] and int(found[1]), found[2] or ""
    return {"what": error.what, "hint": error.hint, "path": path, "line": line}


def main() -> None:
    import resource  # not on Windows

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for line in sys.stdin.buffer:
        request = json.loads(line)
        signal.alarm(LONGEST_SECONDS)
        for answer in answers(request["ask"], request["text"], request["tables"]):
            print(json.dumps(answer), flush=True)
        signal.alarm(0)


if __name__ == "__main__":
    main()
