"""What `@topic.subscribe(...)` and its kind give: applied to a function, they declare it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from headrace.client.context import Context
from headrace.client.dead import DeadEvent
from headrace.client.delivery import Delivery
from headrace.client.subscription import Subscription

E = TypeVar("E")
R = TypeVar("R")

Declare = Callable[[Callable[..., Any]], Subscription[..., Any]]


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
