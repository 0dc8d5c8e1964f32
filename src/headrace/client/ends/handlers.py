"""`on_success` and `on_dead` of a task: what runs, as a job of its own, when one of its jobs is
done or dead."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import msgspec

from headrace.client.context import Context
from headrace.client.include.routed_task import RoutedTask
from headrace.client.job import Job
from headrace.client.task import Task
from headrace.core.job import ids
from headrace.core.payload.kinds import without_none
from headrace.core.task.options import TaskOptions, with_defaults
from headrace.errors import ConfigError, JobFailed

Ending = Literal["on_success", "on_dead"]
ENDINGS: tuple[Ending, ...] = get_args(Ending)

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_EMPTY = inspect.Parameter.empty
_SECOND = {"on_success": "result", "on_dead": "failure"}


class DeathReport(msgspec.Struct, frozen=True):
    """Why a job is dead, as it travels to a handler: there it is a `JobFailed`."""

    reason: str
    error_type: str
    error_text: str
    traceback: str
    task: str

    def failure(self, id: str) -> JobFailed:
        """The error that waiting for the job raises."""
        return JobFailed(
            id, self.reason, self.error_type, self.error_text, self.traceback, self.task
        )


def end_handler(
    task: Task[..., Any], ending: Ending, options: Mapping[str, Any], defaults: Mapping[str, Any]
) -> Task[..., Any] | None:
    """The task that the options name as a handler. A function becomes one, in the queue of `task`;
    `ConfigError` if it cannot."""
    given = options.get(ending)
    if given is None:
        return None
    where = f"task {task.name!r}: {ending} "
    if isinstance(given, Task):
        _check_task(task, given, where)
        _own_parameters(given.function, where, ending)
        return given
    if not inspect.isroutine(given):
        raise ConfigError(f"{where}must be a function or a task, not {given!r}")
    if inspect.isgeneratorfunction(given) or inspect.isasyncgenfunction(given):
        raise ConfigError(f"{where}cannot be a generator: its body would never run")
    own = {
        "name": f"{task.name}.{ending}",
        "aliases": [f"{alias}.{ending}" for alias in task.declared.aliases],
        "queue": task.declared.queue,
    }
    function = _with_handles(given, _Handles(task, given, where, ending))
    return Task(task.app, function, TaskOptions.of_function(function, with_defaults(own, defaults)))


def _check_task(task: Task[..., Any], given: Task[..., Any], where: str) -> None:
    if given.app is not task.app:
        if isinstance(given, RoutedTask):
            given.check_included()
        raise ConfigError(f"{where}is a task of another app")
    if given.declared.batch is not None:
        raise ConfigError(f"{where}cannot be a batch task")


def _own_parameters(function: Callable[..., Any], where: str, ending: Ending) -> list[str]:
    """Names of the parameters for the job and for what came of it; without the latter, one."""
    hints = _hints(function, where)
    parameters = inspect.signature(function).parameters.values()
    own = [each for each in parameters if without_none(hints.get(each.name)) is not Context]
    odd = [each.name for each in own if each.kind not in _POSITIONAL]
    if odd or not 1 <= len(own) <= 2:
        raise ConfigError(
            f"{where}must take the job, or the job and its {_SECOND[ending]}, beside a Context; it "
            f"is {getattr(function, '__name__', '')}{inspect.signature(function)}"
        )
    return [each.name for each in own]


def _hints(function: Callable[..., Any], where: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except NameError as error:
        raise ConfigError(
            f"{where}has an annotation that cannot be resolved ({error}); its types must be "
            "importable where the function is defined, not only under TYPE_CHECKING"
        ) from None


class _Handles:
    """Turns what travels into what a handler takes: an id into a `Job`, a `DeathReport` into a
    `JobFailed`."""

    def __init__(
        self, task: Task[..., Any], function: Callable[..., Any], where: str, ending: Ending
    ) -> None:
        self._app = task.app
        self._returns = task.signature.returns
        job, *second = _own_parameters(function, where, ending)
        self.signature = inspect.signature(function)
        places = list(self.signature.parameters)
        self._job_at = places.index(job)
        self._failure_at = places.index(second[0]) if second and ending == "on_dead" else None
        self.annotations = {**_hints(function, where), job: str}
        self.annotations.pop("return", None)
        if self._failure_at is not None:
            self.annotations[second[0]] = DeathReport

    def given(self, args: tuple[Any, ...]) -> list[Any]:
        given = list(args)
        id = given[self._job_at]
        given[self._job_at] = Job(self._app, ids.to_id(id), None, self._returns)
        if self._failure_at is not None:
            given[self._failure_at] = given[self._failure_at].failure(id)
        return given


def _with_handles(function: Callable[..., Any], handles: _Handles) -> Callable[..., Any]:
    """The function with parameters that can travel."""

    async def call_async(*args: Any, **context: Any) -> Any:
        return await function(*handles.given(args), **context)

    def call_sync(*args: Any, **context: Any) -> Any:
        return function(*handles.given(args), **context)

    wrapper: Callable[..., Any] = call_async if inspect.iscoroutinefunction(function) else call_sync
    wrapper.__annotations__ = handles.annotations
    bare = [each.replace(default=_EMPTY) for each in handles.signature.parameters.values()]
    wrapper.__dict__["__signature__"] = handles.signature.replace(parameters=bare)
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(wrapper, name, getattr(function, name, None))
    return wrapper
