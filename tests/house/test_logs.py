"""Each line of the log has fields, for programs that read it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.house.package import modules

_LEVELS = frozenset(("debug", "info", "warning", "error", "exception", "log"))


def test_each_call_of_a_logger_gives_extra_fields() -> None:
    assert list(_without_fields()) == []


def _without_fields() -> Iterator[str]:
    for module in modules():
        for call in module.nodes(ast.Call):
            if _is_of_log(call) and "extra" not in {word.arg for word in call.keywords}:
                yield f"{module.name}:{call.lineno}"


def _is_of_log(call: ast.Call) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr in _LEVELS
        and isinstance(function.value, ast.Name)
        and function.value.id == "log"
    )
