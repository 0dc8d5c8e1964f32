"""`app.on(...)`: functions that a worker calls when something has happened to a job."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeVar, get_args

import msgspec

from headrace.client.include.routed_task import RoutedTask
from headrace.client.task import Task
from headrace.client.topic.pattern_subscription import PatternSubscription
from headrace.client.topic.subscription import Subscription
from headrace.errors import ConfigError

Moment = Literal["done", "dead", "retried", "cancelled", "stalled"]
MOMENTS: tuple[Moment, ...] = get_args(Moment)


class WorkerEvent(msgspec.Struct, frozen=True):
    """What has happened to a job, or to an event in a group, as the worker that saw it says."""

    kind: Moment
    """What happened."""
    id: str
    """The id of the job or the event."""
    task: str
    """The task's name; for an event, topic and group: `orders/billing`."""
    queue: str
    """The queue that it came from."""
    worker: str
    """The worker that says so."""
    attempt: int = 0
    """Number of the run that has ended, from 1; 0 if none did."""
    duration: timedelta | None = None
    """How long that run took."""
    reason: str = ""
    """Why the job is dead."""
    error_type: str = ""
    """The full name of the class of what was raised."""
    error_text: str = ""
    """Its text."""
    delay: timedelta | None = None
    """How long a job that is retried waits."""


ListenerFunction = Callable[[WorkerEvent], Any]
ListenerT = TypeVar("ListenerT", bound=ListenerFunction)
ListenedTask = Task[..., Any] | str


class Listener(msgspec.Struct, frozen=True):
    """A function, and what it is called for."""

    function: ListenerFunction
    kind: Moment
    tasks: frozenset[str] | None = None
    """Only for jobs of these; None for all."""


def listener_of(
    kind: Moment, task: ListenedTask | Sequence[ListenedTask] | None
) -> Callable[[ListenerFunction], Listener]:
    """Makes listeners of functions. `ConfigError` if there are none of this kind, for such a task,
    or with such a function."""
    if kind not in MOMENTS:
        raise ConfigError(f"app.on() takes one of {', '.join(MOMENTS)}, not {kind!r}")
    names = _task_names(kind, task)

    def make(function: ListenerFunction) -> Listener:
        where = f"app.on({kind!r})"
        if not callable(function):
            raise ConfigError(f"{where} goes on a function, not on {function!r}")
        if not _takes_one(function):
            raise ConfigError(f"{where} calls {_name(function)} with one argument, a WorkerEvent")
        return Listener(function, kind, names)

    return make


def _task_names(kind: str, task: Any) -> frozenset[str] | None:
    if task is None:
        return None
    many = task if isinstance(task, (list, tuple, set, frozenset)) else (task,)
    if not many:
        raise ConfigError(f"app.on({kind!r}): task is an empty list; leave it out for all tasks")
    return frozenset(_task_name(kind, each) for each in many)


def _task_name(kind: str, task: Any) -> str:
    if isinstance(task, PatternSubscription):
        raise ConfigError(
            f"app.on({kind!r}): {task.topic.name!r} stands for several topics; name each group: "
            f"task=['orders/{task.wants.group}', …]"
        )
    if isinstance(task, Subscription):
        return f"{task.topic.name}/{task.wants.group}"
    if isinstance(task, RoutedTask):
        # Its name may still get a prefix.
        task.check_included()
    if isinstance(task, Task):
        return task.name
    if isinstance(task, str) and task:
        return task
    raise ConfigError(
        f"app.on({kind!r}): task must be a task, its name, or a list of those, not {task!r}"
    )


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:
        # A function in C may not say what it takes.
        return True
    return True


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
