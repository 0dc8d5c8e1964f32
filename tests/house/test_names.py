"""Names: of modules, of what is public, and of what has no place here."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import headrace

ROOT = Path(headrace.__file__).parent
SOURCES = sorted(ROOT.rglob("*.py"))
# Commands print: that is their work.
PRINTS = {"cli"}


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_a_module_is_named_for_what_it_is_about(path: Path) -> None:
    vague = {"utils", "util", "common", "helpers", "helper", "types", "constants", "misc", "base"}
    assert not vague & {part.removesuffix(".py") for part in path.relative_to(ROOT).parts}


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_a_module_says_what_it_is_about(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_nothing_is_pickled(path: Path) -> None:
    forbidden = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not forbidden & {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] not in forbidden


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_nothing_but_the_command_line_prints(path: Path) -> None:
    if path.relative_to(ROOT).parts[0] in PRINTS:
        return
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    assert not [call for call in calls if ast.unparse(call.func) == "print"]


def test_the_public_names_are_listed_once_and_in_order() -> None:
    assert len(set(headrace.__all__)) == len(headrace.__all__)
    assert list(headrace.__all__) == sorted(headrace.__all__)


@pytest.mark.parametrize("name", headrace.__all__)
def test_a_public_name_is_there_and_documented(name: str) -> None:
    thing = getattr(headrace, name)
    own = thing.__dict__.get("__doc__") if inspect.isclass(thing) else thing.__doc__
    assert own, f"headrace.{name} has no docstring of its own"
    # A dataclass without a docstring gets its signature for one.
    assert not own.startswith(f"{name}("), f"headrace.{name} has no docstring of its own"


@pytest.mark.parametrize("name", headrace.__all__)
def test_what_can_be_done_with_a_public_name_is_documented(name: str) -> None:
    thing = getattr(headrace, name)
    if not inspect.isclass(thing) or issubclass(thing, BaseException):
        return
    missing = [
        attribute
        for attribute, value in vars(thing).items()
        if not attribute.startswith("_") and inspect.isfunction(value) and not inspect.getdoc(value)
    ]
    assert not missing


def test_importing_the_package_gives_the_public_names_and_little_else() -> None:
    own = {
        name
        for name, thing in vars(headrace).items()
        if not name.startswith("_") and not inspect.ismodule(thing)
    }
    assert own == set(headrace.__all__)
