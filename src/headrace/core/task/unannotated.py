"""Parameters without an annotation, whose arguments arrive as plain data."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from headrace.core import codec
from headrace.core.task.further_arguments import VARIADIC

# What is the same on the other side. Tuples, which become lists, are of too little harm to warn of.
_PLAIN = frozenset((type(None), bool, int, float, str, bytes, list, dict, tuple, msgspec.Raw))


def unannotated_of(
    task: str,
    function: Callable[..., Any],
    parameters: Sequence[inspect.Parameter],
    hints: Mapping[str, Any],
) -> Unannotated | None:
    """None if all have annotations, or `hints` have their types."""
    names = {
        parameter.name: at
        for at, parameter in enumerate(parameters)
        if parameter.name not in hints and parameter.kind not in VARIADIC
    }
    return Unannotated(task, function, names) if names else None


class Unannotated:
    """Those of one function. Warns, once for each, of an argument that becomes something else on
    its way: nothing says there what it was."""

    def __init__(self, task: str, function: Callable[..., Any], names: dict[str, int]) -> None:
        self._task = task
        self._function = function
        self._names = names

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        for name, at in tuple(self._names.items()):
            value = args[at] if at < len(args) else kwargs.get(name)
            if type(value) not in _PLAIN and not codec.is_scalar(value):
                del self._names[name]
                self._warn(name, value)

    def _warn(self, name: str, value: Any) -> None:
        try:
            arrives = type(codec.decoder(Any)(codec.encode(value)))
        except Exception:
            # It cannot travel: that is said by name elsewhere.
            return
        if arrives is not type(value):
            code = getattr(inspect.unwrap(self._function), "__code__", None)
            kind = type(value).__name__
            warnings.warn_explicit(
                f"argument {name!r} of task {self._task!r} is of type {kind}, and arrives as "
                f"{arrives.__name__}: write {name}: {kind} in the function, and it arrives as it "
                "was",
                UserWarning,
                code.co_filename if code else "<unknown>",
                code.co_firstlineno if code else 1,
            )
