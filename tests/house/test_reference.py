"""Every public name says what it does, and what each of its parameters means.

An editor shows a docstring, and the site has the same text. A parameter is documented in the
section `Args:` of its function, or of its class for a constructor; the field of a dataclass also by
the string below it.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import headrace

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools" / "site"))
public = importlib.import_module("public")
sys.path.pop(0)

NAMES: list[str] = [name for page in public.PAGES.values() for name in page.names]
# But for what tests of stores inherit: nobody calls its methods.
CHECKED = [name for name in NAMES if name != "headrace.testing.StoreConformance"]


PACKAGES = ("headrace", "headrace.admin", "headrace.outbox", "headrace.testing")
BY_NAME = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def found(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def documented(text: str | None) -> set[str]:
    """The names that the sections `Args:` and `Attributes:` of a docstring explain."""
    names: set[str] = set()
    section = False
    for line in inspect.cleandoc(text or "").splitlines():
        if line and not line.startswith(" "):
            section = line in ("Args:", "Attributes:")
        elif section and (entry := re.match(r" {4}\*{0,2}(\w+): \S", line)):
            names.add(entry[1])
    return names


def parameters(function: Callable[..., Any]) -> list[str]:
    """What a caller may give: the options of a TypedDict one by one, those of overloads too."""
    names: dict[str, None] = {}
    for each in (function, *typing.get_overloads(function)):
        for parameter in inspect.signature(each).parameters.values():
            options = _options(each, parameter)
            if each is function or options or parameter.kind in BY_NAME:
                names |= dict.fromkeys(options or [parameter.name])
            if options and parameter.name not in options:
                # Of an overload; the function itself takes them as `**options: Any`.
                names.pop(parameter.name, None)
    return [name for name in names if not name.startswith("_") and name not in ("self", "cls")]


def _options(function: Callable[..., Any], parameter: inspect.Parameter) -> list[str]:
    match = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
    if match is None:
        return []
    kind = function.__globals__.get(match[1]) or getattr(
        importlib.import_module(function.__module__), match[1]
    )
    return list(typing.get_type_hints(kind)) if kind else []


def members(public_name: str, kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods of a class, also those that it inherits from a class of ours."""
    hidden = {public.MAKES, *public.INSIDE.get(public_name, "").split()}
    seen: set[str] = set()
    for each in kind.__mro__:
        if not each.__module__.startswith("headrace"):
            continue
        for name, value in vars(each).items():
            function = getattr(value, "__func__", value)
            if name.startswith("_") or name in seen | hidden or not inspect.isfunction(function):
                continue
            seen.add(name)
            yield name, function


@cache
def classes_in(module: str) -> dict[str, ast.ClassDef]:
    """The classes of a module of ours, as its file has them."""
    source = Path(str(sys.modules[module].__file__)).read_text()
    return {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}


def class_nodes(kind: type) -> list[ast.ClassDef]:
    """A class, and those of ours that it inherits from."""
    ours = [each for each in kind.__mro__ if each.__module__.startswith("headrace.")]
    return [classes_in(each.__module__)[each.__name__] for each in ours]


def fields_explained(kind: type) -> set[str]:
    """The fields of a class, and of its bases, that have a docstring below them."""
    return {
        field.target.id
        for node in class_nodes(kind)
        for field, below in pairwise(node.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
    }


def set_in(node: ast.AST) -> set[str]:
    """The attributes that are set there."""
    found = (each for each in ast.walk(node) if isinstance(each, ast.Attribute))
    return {each.attr for each in found if isinstance(each.ctx, ast.Store)}


def fields(kind: type) -> set[str]:
    """The public fields of a dataclass, a struct or a named tuple; of an error what it is given."""
    names = {f.name for f in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    names |= {*getattr(kind, "__struct_fields__", ()), *getattr(kind, "_fields", ())}
    if issubclass(kind, BaseException) and "__init__" in vars(kind):
        names |= set_in(class_nodes(kind)[0]) - {"args", "retryable"}
    return {name for name in names if not name.startswith("_")}


def undocumented(name: str) -> list[str]:
    """The parameters that a function, or the methods and the constructor of a class, leave out."""
    thing = found(name)
    if not inspect.isclass(thing):
        return [f"({each})" for each in parameters(thing) if each not in documented(thing.__doc__)]
    explained = documented(thing.__doc__) | fields_explained(thing)
    missing = [f"({each})" for each in sorted(fields(thing) - explained)]
    if name in public.CONSTRUCTED and not missing and inspect.isfunction(thing.__init__):
        missing += [f"({each})" for each in parameters(thing.__init__) if each not in explained]
    for method, function in members(name, thing):
        said = documented(function.__doc__)
        missing += [f".{method}({each})" for each in parameters(function) if each not in said]
        missing += [] if function.__doc__ else [f".{method}"]
    return missing


@pytest.mark.parametrize("module", PACKAGES)
def test_the_reference_has_every_public_name_once(module: str) -> None:
    assert len(set(NAMES)) == len(NAMES)
    listed = {name.rpartition(".")[2] for name in NAMES if name.rpartition(".")[0] == module}
    assert listed == set(importlib.import_module(module).__all__), "see tools/site/public.py"


@pytest.mark.parametrize("name", CHECKED)
def test_every_parameter_of_a_public_name_is_documented(name: str) -> None:
    assert undocumented(name) == []


@pytest.mark.parametrize("name", CHECKED)
def test_no_docstring_explains_a_parameter_that_is_not_there(name: str) -> None:
    thing = found(name)
    if not inspect.isclass(thing):
        assert documented(thing.__doc__) <= set(parameters(thing))
        return
    for method, function in members(name, thing):
        assert documented(function.__doc__) <= set(parameters(function)), method
    if inspect.isfunction(thing.__init__):
        assert documented(thing.__doc__) <= {*parameters(thing.__init__), *fields(thing)}


def test_a_parameter_that_is_left_out_is_found() -> None:
    def said(given: int, left_out: int) -> None:
        """Does something.

        Args:
            given: A number.
        """

    assert set(parameters(said)) - documented(said.__doc__) == {"left_out"}
    assert {"delay", "unique", "queue"} <= set(parameters(headrace.Task.options))
    assert {"batch_key", "timeout"} <= set(parameters(headrace.Headrace.task))


@pytest.mark.parametrize("name", [*public.INSIDE, *sorted(public.CONSTRUCTED)])
def test_what_is_said_of_public_names_is_about_what_is_there(name: str) -> None:
    assert name in NAMES
    there = set(dir(found(name)))
    for node in class_nodes(found(name)):
        there |= set_in(node)
    assert set(public.INSIDE.get(name, "").split()) - there == set()
