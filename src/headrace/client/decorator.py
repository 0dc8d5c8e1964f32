"""What `@app.task(...)` gives: applied to a function, it makes the task."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from headrace.client.context import Context
from headrace.client.task import Task

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

MakeTask = Callable[[Callable[..., Any]], Task[..., Any]]


class Decorator:
    """For a function whose calls are jobs."""

    def __init__(self, make: MakeTask) -> None:
        self._make = make

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> Task[P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> Any:
        return self._make(function)


class BatchDecorator:
    """For a function that takes many jobs as a list: each is sent with one item, and is given one
    item of the list that is returned."""

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
