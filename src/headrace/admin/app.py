"""`AdminApp`: what the admin needs of its app; arguments by the names of its tasks' parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from headrace.client.declarations import DeclaredApp
from headrace.core.misfit import Misfit
from headrace.core.task.argument_names import with_new_names
from headrace.core.task.further_arguments import BY_PLACE, FURTHER, VARIADIC, by_parameter

if TYPE_CHECKING:
    from headrace.client.task import Task


class AdminApp(DeclaredApp, Protocol):
    """An app as the admin sees it. `Headrace` is one."""

    @property
    def redact(self) -> Callable[[str, Any], Any] | str | None: ...

    @property
    def actions_kept(self) -> float: ...


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


def names_of(app: AdminApp | None, task: str | None) -> tuple[str, ...]:
    """All names of a task, by one of them: of a task that was renamed, also the earlier ones."""
    if not task:
        return ()
    found = None if app is None else app.tasks.get(task)
    return (task,) if found is None else found.declared.names


def named(
    app: AdminApp, task: str | None, arguments: Any, *, lacks_first_argument: bool = False
) -> Any:
    """Plain arguments by the names that the task has here, and what it does not take by the names
    that they came with, or under `*`; unchanged if the app has no such task. With
    `lacks_first_argument`, the first comes from other jobs and is not among them."""
    parameters = parameters_of(app, task)
    if parameters is None or not isinstance(arguments, (dict, list)):
        return arguments
    python = _of_caller(list(parameters.values()), lacks_first_argument)
    if isinstance(arguments, list):
        arguments = in_order(python, arguments)
    found = app.tasks.get(task or "")
    renamed = {} if found is None else found.declared.renamed_arguments
    try:
        # As the task calls them now, so that a hook that hides one finds it in older jobs too.
        taken, unknown = by_parameter(python, with_new_names(arguments, renamed))
    except Misfit:
        return arguments
    return {**unknown, **taken}


def _of_caller(
    parameters: list[inspect.Parameter], lacks_first_argument: bool
) -> inspect.Signature:
    first = parameters[:1] if lacks_first_argument else []
    if first and first[0].kind not in VARIADIC:
        parameters = parameters[1:]
    return inspect.Signature(parameters)


def in_order(python: inspect.Signature, values: list[Any]) -> dict[str, Any]:
    """An array as a map: further ones, which may have no parameter, under `*`."""
    names = [p.name for p in python.parameters.values() if p.kind not in VARIADIC]
    if any(p.kind is p.VAR_POSITIONAL for p in python.parameters.values()):
        names = [p.name for p in python.parameters.values() if p.kind in BY_PLACE]
    further = values[len(names) :]
    return {**dict(zip(names, values, strict=False)), **({FURTHER: further} if further else {})}
