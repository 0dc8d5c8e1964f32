"""Which functions can be run as jobs, and what to write instead of the others."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from headrace.core.wrong_use import shown
from headrace.errors import ConfigError

_DEF = "write a def at the top level of a module"


def checked_function(what: str, function: Any, *, named: bool = False) -> Any:
    """The function, if a worker can call it: that of a static method, too. `what` is the decorator
    that it is for; `named` says that it has been given a name."""
    if isinstance(function, staticmethod):
        function = function.__func__
    if hasattr(function, "enqueue"):
        raise ConfigError(
            f"{what} is on {function!r}, which is a task already: leave one of the two out, or put "
            "@app.cron(…) and @app.every(…) above @app.task"
        )
    if isinstance(function, classmethod) or _is_in_class(function):
        raise ConfigError(
            f"{what} is on the method {_name(function)}: a worker has no object to call it on; "
            f"{_DEF}, and give it what it needs as arguments"
        )
    if not inspect.isroutine(function):
        raise ConfigError(
            f"{what} goes on a function, not on {_shown(function)}; put it into a def"
        )
    if function.__name__ == "<lambda>" and not named:
        raise ConfigError(f"{what} is on a lambda, which has no name to find it by: {_DEF}")
    return function


def _is_in_class(function: Any) -> bool:
    """Whether it was written as a method: in the body of a class, with `self` or `cls` first."""
    within = getattr(function, "__qualname__", "").rpartition(".")[0]
    if not inspect.isfunction(function) or not within or within.endswith("<locals>"):
        return False
    return next(iter(inspect.signature(function).parameters), "") in ("self", "cls")


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", function))


def _shown(thing: Any) -> str:
    if isinstance(thing, functools.partial):
        return f"a functools.partial of {_name(thing.func)}"
    return shown(thing)
