"""What users see of the API: documented types, docstrings, errors, `repr` and notebooks."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
import typing
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import dhdmm
from dhdmm import errors
from dhdmm.errors import DhdmmError
from dhdmm.release.adjust import Adjusted
from tests.release.releases import plan_of, release_of, study_of

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
DOCUMENTED = re.findall(r"^::: (\S+)(?:\n    options:\n((?:      .*\n)*))?", PAGE, re.MULTILINE)
LISTED = re.compile(r"members: \[(.*)\]")
SHOWN = [release_of().plan.study, release_of().plan, release_of(), release_of()["crossed"]]
SHOWN += [
    release_of().plan.strategy,
    release_of().plan.study.workload,
    release_of().plan.study.schema,
]


def named(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def public_members(owner: type) -> list[str]:
    """Of a class that `dhdmm` exports all, of another class those that the page lists."""
    if owner.__name__ in dhdmm.__all__:
        return [name for name in vars(owner) if not name.startswith("_")]
    options = next((text for path, text in DOCUMENTED if named(path) is owner), "")
    listed = LISTED.search(options)
    return [name for name in listed[1].split(", ") if name] if listed else []


def plain(member: Any) -> Any:
    """The function behind a class method or a property."""
    for wrapper, inside in (
        (classmethod, "__func__"),
        (property, "fget"),
        (cached_property, "func"),
    ):
        if isinstance(member, wrapper):
            return getattr(member, inside)
    return member


def public_functions(*, properties: bool) -> Iterator[tuple[str, Any]]:
    """Every documented or exported function and method, and the properties if asked for."""
    objects = {path: named(path) for path, _ in DOCUMENTED}
    objects |= {f"dhdmm.{name}": getattr(dhdmm, name) for name in dhdmm.__all__}
    for path, found in objects.items():
        if inspect.isfunction(found):
            yield path, found
        elif inspect.isclass(found) and not issubclass(found, DhdmmError):
            for name in public_members(found):
                member = vars(found).get(name)
                if isinstance(member, property | cached_property) and not properties:
                    continue
                if inspect.isfunction(plain(member)):
                    yield f"{path}.{name}", plain(member)


# ---- types --------------------------------------------------------------------------------------


def for_checkers_only(module: Any) -> dict[str, Any]:
    """What a module imports for type checkers alone."""
    names: dict[str, Any] = {}
    for block in ast.parse(inspect.getsource(module)).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            exec(ast.unparse(block.body), names)  # noqa: S102 - our own imports
    return names


def types_in(hint: Any) -> Iterator[type]:
    """The classes that a type hint is made of."""
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        yield hint
    for argument in typing.get_args(hint):
        for part in argument if isinstance(argument, list) else [argument]:
            yield from types_in(part)


def of_dhdmm(owner: Any) -> set[str]:
    module = sys.modules[owner.__module__]
    hints = typing.get_type_hints(owner, localns=for_checkers_only(module))
    shown = {name: hint for name, hint in hints.items() if not name.startswith("_")}
    found = {one for hint in shown.values() for one in types_in(hint)}
    return {f"{t.__module__}.{t.__qualname__}" for t in found if t.__module__.startswith("dhdmm")}


@pytest.mark.slow
def test_every_type_in_a_public_signature_is_exported_or_documented():
    known = {named(path) for path, _ in DOCUMENTED}
    known |= {getattr(dhdmm, name) for name in dhdmm.__all__ if name != "errors"}
    used = {name: of_dhdmm(function) for name, function in public_functions(properties=True)}
    used |= {name: of_dhdmm(getattr(dhdmm, name)) for name in dhdmm.__all__ if name[0].isupper()}
    missing = {
        (where, path) for where, paths in used.items() for path in paths if named(path) not in known
    }
    assert not missing
    assert any(path == "dhdmm.planning.plan.Promise" for paths in used.values() for path in paths)


def test_no_keyword_argument_of_a_public_function_is_untyped():
    for name, function in public_functions(properties=False):
        for parameter in inspect.signature(function).parameters.values():
            free = "with_" in name or name.endswith(".select")  # keys of a study, columns of labels
            if parameter.kind is parameter.VAR_KEYWORD and not free:
                assert "Unpack" in str(parameter.annotation), name


# ---- docstrings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "function"), list(public_functions(properties=False)))
def test_help_describes_arguments_and_result(name: str, function: Any):
    text = inspect.getdoc(function) or ""
    assert text, name
    signature = inspect.signature(function)
    arguments = [p for p in signature.parameters if p not in ("self", "cls")]
    if arguments:
        described = text.partition("\nArgs:\n")[2].partition("\n\n")[0]
        assert re.findall(r"^    \**(\w+):", described, re.MULTILINE) == arguments, name
    if signature.return_annotation != "None":
        assert "\nReturns:\n" in text, name


@pytest.mark.parametrize("name", sorted({*dhdmm.__all__} - {"errors"}))
def test_every_exported_name_has_an_example(name: str):
    assert "\nExample:\n    >>> " in inspect.getdoc(getattr(dhdmm, name))


def test_every_public_property_and_class_has_a_docstring():
    for name, function in public_functions(properties=True):
        assert inspect.getdoc(function), name
    for path, _ in DOCUMENTED:
        text = named(path).__doc__
        assert text, path
        assert not text.startswith(f"{path.rpartition('.')[2]}("), path  # a dataclass's own


# ---- errors -------------------------------------------------------------------------------------


def subclasses(owner: type) -> Iterator[type]:
    for one in owner.__subclasses__():
        yield one
        yield from subclasses(one)


def test_every_error_of_the_library_is_in_dhdmm_errors():
    packages = ("study", "strategy", "privacy", "planning", "participant", "release")
    for package in packages:
        home = importlib.import_module(f"dhdmm.{package}")
        for module in pkgutil.walk_packages(home.__path__, f"{home.__name__}."):
            importlib.import_module(module.name)
    for error in subclasses(DhdmmError):  # other packages' too, if other tests imported them
        if error.__module__.startswith(tuple(f"dhdmm.{package}." for package in packages)):
            public = any(base.__module__ == "dhdmm.errors" for base in error.__bases__)
            assert public, error  # those of other modules only refine a public one


def test_the_tree_of_errors_is_the_one_documented():
    tree = PAGE.partition("```text\nDhdmmError")[2].partition("```")[0]
    documented = dict(re.findall(r"[├└]── (\w+) +(\d)", "├── DhdmmError" + tree))
    known = [one for one in vars(errors).values() if inspect.isclass(one)]
    expected = {e.__name__: str(int(e.exit_code)) for e in known if issubclass(e, DhdmmError)}
    assert documented == expected
    for child, parent in (("PlanError", "PrivacyError"), ("PolicyRefusal", "Refused")):
        assert re.search(rf"── {parent}.*\n│   └── {child}", tree)
        assert issubclass(getattr(errors, child), getattr(errors, parent))


def test_errors_are_reached_without_an_import_of_their_own():
    with pytest.raises(dhdmm.errors.StudyError) as refused:
        dhdmm.Study.from_text("study: x")
    assert refused.value.where
    assert refused.value.exit_code is dhdmm.errors.ExitCode.INPUT


# ---- repr and notebooks -------------------------------------------------------------------------


@pytest.mark.parametrize("value", SHOWN, ids=lambda value: type(value).__name__)
def test_a_value_shows_itself_in_one_informative_line(value: Any):
    line = repr(value)
    assert line.startswith(f"<{type(value).__name__} ")
    assert "\n" not in line
    assert 20 < len(line) < 200
    assert value._repr_html_().startswith(f"<strong>{type(value).__name__}</strong><table>")


def test_showing_a_value_computes_nothing():
    plan = plan_of()
    release = replace(release_of(), plan=replace(plan, strategy=replace(plan.strategy)))
    for value in (release, release.plan, release.plan.strategy):
        before = set(vars(value))
        assert repr(value) + value._repr_html_()
        assert set(vars(value)) - before <= {"rows"}  # the sum of the blocks' sizes


def test_lines_say_what_the_values_are():
    release = release_of()
    known = "study='small' tables=10 survivors=57 participants=60 round="
    assert repr(release).startswith(f"<Release {known}")
    assert repr(release["crossed"]) == "<Table name='crossed' rows=12 level=0.95>"
    assert "measurement=" not in repr(release)
    rows = "<tr><td>crossed</td><td>12</td></tr>"
    assert rows in release._repr_html_()
    assert "<th>standard_error</th>" in release["crossed"]._repr_html_()


def test_notebooks_show_names_of_a_study_as_text():
    text = study_of("  - {name: <script>1</script>, by: [sex]}", '["<b>", "&"]')
    study = dhdmm.Study.from_text(text.replace("study: named", "study: <i>named</i>"))
    release = release_of()
    table = replace(release["crossed"], schema=study.schema, item=study.workload.items[0])
    for shown in (study, table):
        page = shown._repr_html_()
        assert not re.search(r"<(?!/?(strong|table|tr|th|td)>)", page)
    assert "&lt;script&gt;1" in table._repr_html_()
    assert "<td>&lt;b&gt;</td>" in table._repr_html_()


def test_adjusted_answers_are_a_mapping_too():
    adjusted = release_of().adjusted(nonnegative=True, consistent=False, replicates=0)
    assert isinstance(adjusted, Adjusted)
    assert dict(adjusted.items()).keys() == set(release_of())
    assert "nothing" not in adjusted
    assert adjusted == adjusted
