"""What `app.task(...)`, `app.cron(...)`, `topic.subscribe(...)` and the like return: decorators,
typed by the functions that they go on."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from headrace.client.context import Context
from headrace.client.task import Task
from headrace.client.topic.dead_event import DeadEvent
from headrace.client.topic.delivery import Delivery
from headrace.client.topic.subscription import Subscription
from headrace.core.job.retry import check_timeouts
from headrace.core.schedule.definition import Times
from headrace.core.task.options import TaskKwargs
from headrace.errors import ConfigError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
E = TypeVar("E")

MakeTask = Callable[[Callable[..., Any]], Task[..., Any]]
ScheduleArguments = tuple[Sequence[Any], Mapping[str, Any]]
Declare = Callable[[Callable[..., Any]], Subscription[..., Any]]


class TaskDecorator:
    """For a function whose calls are jobs."""

    def __init__(self, make: MakeTask) -> None:
        self._make = make

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> Task[P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> Any:
        return self._make(function)


class BatchTaskDecorator:
    """For a function that takes many jobs as a list: each job is sent with one item, and its result
    is one item of the returned list."""

    def __init__(self, make: MakeTask) -> None:
        self._make = make

    @overload
    def __call__(
        self, function: Callable[[Context, list[T]], Coroutine[Any, Any, list[R]]]
    ) -> Task[[T], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[[Context, list[T]], list[R]]) -> Task[[T], R]: ...
    @overload
    def __call__(self, function: Callable[[Context, list[T]], R]) -> Task[[T], R]: ...
    @overload
    def __call__(
        self, function: Callable[[list[T]], Coroutine[Any, Any, list[R]]]
    ) -> Task[[T], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[[list[T]], list[R]]) -> Task[[T], R]: ...
    @overload
    def __call__(self, function: Callable[[list[T]], R]) -> Task[[T], R]: ...
    def __call__(self, function: Callable[..., Any]) -> Any:
        return self._make(function)


class ScheduleOwner(Protocol):
    """What schedules are declared on: an app, or a `Tasks`."""

    def make_task(self, function: Callable[..., Any], options: Mapping[str, Any]) -> Task[..., Any]:
        """A task that could be registered, and is not yet."""
        ...

    def register(self, task: Task[..., Any]) -> None: ...

    def prepare_schedule(
        self, task: Task[..., Any], name: str | None, arguments: ScheduleArguments, times: Times
    ) -> Callable[[], None]:
        """Adds a schedule, which cannot fail any more."""
        ...


class ScheduleDecorator:
    """Goes on a function, and makes it a task with a schedule; or on a task, and adds the schedule.
    Returns the task. If either is refused, neither is registered."""

    def __init__(
        self, owner: ScheduleOwner, options: TaskKwargs, arguments: ScheduleArguments, times: Times
    ) -> None:
        self._owner = owner
        self._name = options.pop("name", None)
        self._options = options
        self._arguments = arguments
        self._times = times

    @overload
    def __call__(self, function: Task[P, R]) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> Task[P, R]: ...
    def __call__(self, function: Any) -> Any:
        task = self._task(function)
        add = self._owner.prepare_schedule(task, self._name, self._arguments, self._times)
        if task is not function:
            self._owner.register(task)
        add()
        return task

    def _task(self, function: Any) -> Task[..., Any]:
        if not isinstance(function, Task):
            check_timeouts(f"task {getattr(function, '__name__', function)!r}: ", self._options)
            return self._owner.make_task(function, self._options)
        if self._options:
            raise ConfigError(
                f"task {function.name!r}: {sorted(self._options)[0]}= goes to its @app.task(...), "
                "which is there already"
            )
        return function


class Subscribe(Generic[E]):
    """For a function that takes one event, and a `Delivery` and a `Context` if it likes."""

    def __init__(self, declare: Declare) -> None:
        self._declare = declare

    @overload
    def __call__(self, function: Callable[[E], R]) -> Subscription[[E], R]: ...
    @overload
    def __call__(self, function: Callable[[E, Delivery], R]) -> Subscription[[E], R]: ...
    @overload
    def __call__(self, function: Callable[[E, Context], R]) -> Subscription[[E], R]: ...
    @overload
    def __call__(self, function: Callable[[E, Delivery, Context], R]) -> Subscription[[E], R]: ...
    @overload
    def __call__(self, function: Callable[[E, Context, Delivery], R]) -> Subscription[[E], R]: ...
    @overload
    def __call__(self, function: Callable[[Context, E], R]) -> Subscription[[E], R]: ...
    @overload
    def __call__(self, function: Callable[[Context, E, Delivery], R]) -> Subscription[[E], R]: ...
    def __call__(self, function: Callable[..., Any]) -> Any:
        return self._declare(function)


class SubscribeBatch(Generic[E]):
    """For a function that takes a list of events, and a `Context` if it likes."""

    def __init__(self, declare: Declare) -> None:
        self._declare = declare

    @overload
    def __call__(self, function: Callable[[list[E]], R]) -> Subscription[[list[E]], R]: ...
    @overload
    def __call__(self, function: Callable[[list[E], Context], R]) -> Subscription[[list[E]], R]: ...
    @overload
    def __call__(self, function: Callable[[Context, list[E]], R]) -> Subscription[[list[E]], R]: ...
    def __call__(self, function: Callable[..., Any]) -> Any:
        return self._declare(function)


class OnDead(Generic[E]):
    """For a function that takes a dead event (or None for one that cannot be read), a `DeadEvent`,
    or both. The function stays as it is."""

    def __init__(self, declare: Callable[[Callable[..., Any]], None]) -> None:
        self._declare = declare

    @overload
    def __call__(self, function: Callable[[E], R]) -> Callable[[E], R]: ...
    @overload
    def __call__(self, function: Callable[[E, DeadEvent], R]) -> Callable[[E, DeadEvent], R]: ...
    @overload
    def __call__(self, function: Callable[[DeadEvent], R]) -> Callable[[DeadEvent], R]: ...
    def __call__(self, function: Callable[..., Any]) -> Any:
        self._declare(function)
        return function
