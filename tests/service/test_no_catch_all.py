"""No error is swallowed: what ruff's BLE looks for, and the ways around it that it does not see."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src" / "dhdmm"
JUSTIFIED = {
    ("server/defects.py", "__exit__"): "logs the error with its traceback and hands on its id",
    ("web/release_cache.py", "get"): "forgets a task that failed; whoever awaited it has its error",
}
ANY_ERROR = {"Exception", "BaseException"}


def swallowing(tree: ast.AST) -> Iterator[ast.AST]:
    """Handlers of any error that do not raise it again, and the same in other words."""
    for node in ast.walk(tree):
        match node:
            case ast.ExceptHandler(type=kind, body=[*_, last]):
                raised_again = isinstance(last, ast.Raise) and last.exc is None
                found = (kind is None or _names_any_error(kind)) and not raised_again
            case ast.Call():
                found = _asks_for_the_error(node) or _suppresses(node) or _returns_errors(node)
            case ast.FunctionDef(name="__exit__" | "__aexit__"):
                found = any(ast.unparse(part) == "return True" for part in ast.walk(node))
            case _:
                found = False
        if found:
            yield node


def _asks_for_the_error(call: ast.Call) -> bool:
    """`future.exception()`, where awaiting the future would raise it."""
    asked = isinstance(call.func, ast.Attribute) and call.func.attr == "exception"
    return asked and not (call.args or call.keywords)


def _suppresses(call: ast.Call) -> bool:
    suppress = ast.unparse(call.func).rpartition(".")[2] == "suppress"
    return suppress and any(map(_names_any_error, call.args))


def _returns_errors(call: ast.Call) -> bool:
    return any(word.arg == "return_exceptions" for word in call.keywords)


def _names_any_error(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Name) and part.id in ANY_ERROR for part in ast.walk(node))


def found_in(source: str) -> list[str]:
    """The names of the functions in which an error is swallowed."""
    tree = ast.parse(source)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [
        next((f.name for f in reversed(functions) if node in list(ast.walk(f))), "<module>")
        for node in swallowing(tree)
    ]


@pytest.mark.slow
def test_no_error_is_swallowed_outside_of_a_short_list() -> None:
    found = {
        (path.relative_to(SOURCES).as_posix(), name)
        for path in sorted(SOURCES.rglob("*.py"))
        for name in found_in(path.read_text(encoding="utf-8"))
    }
    assert found == JUSTIFIED.keys()


@pytest.mark.parametrize(
    "body",
    [
        "try:\n  work()\n except Exception:\n  pass",
        "try:\n  work()\n except (KeyError, BaseException) as error:\n  log(error)",
        "try:\n  work()\n except:\n  pass",
        "error = done.exception()",
        "gather(a, b, return_exceptions=True)",
        "with contextlib.suppress(Exception):\n  work()",
    ],
)
def test_every_way_of_swallowing_is_found(body: str) -> None:
    assert found_in(f"def f():\n {body}\n") == ["f"]


def test_what_raises_again_or_names_its_errors_is_allowed() -> None:
    assert not found_in("try:\n work()\nexcept BaseException:\n end()\n raise\n")
    assert not found_in("with suppress(KeyError):\n work()\nlog.exception('broken')\n")
