"""Names: of modules, of what is public, and of what has no place here."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from tests.house.package import modules

REPOSITORY = Path(__file__).parents[2]

# Commands print: that is their work.
PRINTS = {"cli"}
VAGUE = {"utils", "util", "common", "helpers", "helper", "types", "constants", "misc", "base"}
PICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}


def test_modules_are_named_for_what_they_are_about() -> None:
    assert not [module.name for module in modules() if VAGUE & set(module.name.split("."))]


def test_modules_say_what_they_are_about() -> None:
    assert not [module.name for module in modules() if not ast.get_docstring(module.tree)]


def test_nothing_is_pickled() -> None:
    assert not [module.name for module in modules() if module.packages_imported & PICKLES]


def test_nothing_but_the_command_line_prints() -> None:
    silent = [module for module in modules() if module.name.split(".")[0] not in PRINTS]
    assert not [
        f"{module.name}:{call.lineno}"
        for module in silent
        for call in module.nodes(ast.Call)
        if isinstance(call.func, ast.Name) and call.func.id == "print"
    ]


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


def test_the_docstrings_of_functions_say_what_their_options_mean() -> None:
    """If not: python tools/option_docs.py."""
    command = [sys.executable, "tools/option_docs.py", "--check"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_gives_the_public_names_and_little_else() -> None:
    own = {
        name
        for name, thing in vars(headrace).items()
        if not name.startswith("_") and not inspect.ismodule(thing)
    }
    assert own == set(headrace.__all__)
