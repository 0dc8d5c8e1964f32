"""`AdminApp`: what the admin needs of its app; arguments by the names of its tasks' parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from headrace.client.declarations import DeclaredApp

if TYPE_CHECKING:
    from headrace.client.task import Task


class AdminApp(DeclaredApp, Protocol):
    """An app as the admin sees it. `Headrace` is one."""

    @property
    def redact(self) -> Callable[[str, Any], Any] | str | None: ...

    @property
    def actions_kept(self) -> float: ...


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def parameters_of(app: AdminApp, task: str | None) -> dict[str, inspect.Parameter] | None:
    """The parameters that callers of a task give, by name; None if the app has no such task."""
    found = app.tasks.get(task or "")
    if found is None:
        return None
    return caller_parameters(found)


def caller_parameters(task: Task[..., Any]) -> dict[str, inspect.Parameter]:
    """As `parameters_of`, of a task."""
    parameters = inspect.signature(task.function).parameters
    return {name: p for name, p in parameters.items() if name != task.signature.injected_as}


def named(
    app: AdminApp, task: str | None, arguments: Any, *, lacks_first_argument: bool = False
) -> Any:
    """Plain arguments by name; unchanged if the app has no such task or they do not fit it. With
    `lacks_first_argument`, the first comes from other jobs and is not among them."""
    parameters = parameters_of(app, task)
    if parameters is None or not isinstance(arguments, list):
        return arguments
    python = inspect.Signature(list(parameters.values())[1 if lacks_first_argument else 0 :])
    if any(each.kind in _VARIADIC for each in python.parameters.values()):
        return _bound(python, arguments)
    if len(arguments) > len(python.parameters):
        return arguments
    return dict(zip(python.parameters, arguments, strict=False))


def _bound(python: inspect.Signature, arguments: list[Any]) -> Any:
    """By name, for a function with `*args` or `**kwargs`: they travel as a list and a mapping."""
    if len(arguments) != 2 or not isinstance(arguments[0], list):
        return arguments
    args, kwargs = arguments
    if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
        return arguments
    try:
        return dict(python.bind_partial(*args, **kwargs).arguments)
    except TypeError:
        return arguments
