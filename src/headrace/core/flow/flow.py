"""Calls that wait for one another: how they are put together, and the order to send them in."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar, overload

from headrace.core.flow.fitting import can_fit, type_name
from headrace.core.job.envelope import Feed
from headrace.core.task.call import Call, Parent, R_co, SentJob, Step
from headrace.core.task.open_call import OpenCall, Takes
from headrace.core.wrong_use import shown
from headrace.errors import ArgumentError, ConfigError

R = TypeVar("R")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
Z = TypeVar("Z")


class Flow(Step[R_co]):
    """Calls that were put together by `chain` or `group`, to be sent with `app.enqueue`."""

    __slots__ = ("_ends", "_gives_list", "_heads")

    def __init__(
        self, heads: Sequence[Call[Any]], ends: Sequence[Call[Any]], *, gives_list: bool
    ) -> None:
        self._heads = tuple(heads)
        self._ends = tuple(ends)
        self._gives_list = gives_list

    @property
    def heads(self) -> tuple[Call[Any], ...]:
        return self._heads

    @property
    def ends(self) -> tuple[Call[Any], ...]:
        return self._ends

    @property
    def gives_list(self) -> bool:
        return self._gives_list

    def then(self, step: Takes[R_co, T]) -> Flow[T]:
        """This flow and then the step, which is given the result as its first argument.

        Args:
            step: A call that may lack its first argument.
        """
        return chain(self, step)

    def __repr__(self) -> str:
        return f"<Flow that ends with {', '.join(repr(call.task) for call in self._ends[:3])}>"


class OpenFlow(OpenCall[Z, R_co]):
    """A flow whose first calls lack their first argument: for type checkers. It is a `Flow`."""

    def then(self, step: Takes[R_co, T]) -> OpenFlow[Z, T]:
        """See `Flow.then`."""
        raise NotImplementedError


Given = Takes[Any, Any]


@overload
def chain(only: Step[R], /) -> Flow[R]: ...
@overload
def chain(first: Step[A], last: Takes[A, R], /) -> Flow[R]: ...
@overload
def chain(first: Step[A], second: Takes[A, B], last: Takes[B, R], /) -> Flow[R]: ...
@overload
def chain(
    first: Step[A], second: Takes[A, B], third: Takes[B, C], last: Takes[C, R], /
) -> Flow[R]: ...
@overload
def chain(
    first: Step[A], second: Takes[A, B], third: Takes[B, C], fourth: Takes[C, D],
    last: Takes[D, R], /,
) -> Flow[R]: ...  # fmt: skip
@overload
def chain(
    first: Step[A], second: Takes[A, B], third: Takes[B, C], fourth: Takes[C, D],
    fifth: Takes[D, Any], sixth: Given, /, *more: Given,
) -> Flow[Any]: ...  # fmt: skip
@overload
def chain(only: OpenCall[Z, R], /) -> OpenFlow[Z, R]: ...
@overload
def chain(first: OpenCall[Z, A], last: Takes[A, R], /) -> OpenFlow[Z, R]: ...
@overload
def chain(first: OpenCall[Z, A], second: Takes[A, B], last: Takes[B, R], /) -> OpenFlow[Z, R]: ...
@overload
def chain(
    first: OpenCall[Z, A], second: Takes[A, B], third: Takes[B, Any], fourth: Given, /, *more: Given
) -> OpenFlow[Z, Any]: ...
@overload
def chain(first: Step[R], /, *others: Takes[R, R]) -> Flow[R]: ...
@overload
def chain(*steps: Step[Any]) -> Flow[Any]: ...
def chain(*steps: Any) -> Any:
    """Steps one after the other. Each is given the result of the one before as its first argument,
    if it can take one more; after a group, the list of its results.

    Args:
        steps: Calls and flows, in order; all but the first may lack their first argument.
    """
    if not steps:
        raise ConfigError("chain() needs at least one call")
    for step in steps:
        _check_step("chain", step)
    for before, step in pairwise(steps):
        for head in step.heads:
            head.feed_from(before)
    return Flow(steps[0].heads, steps[-1].ends, gives_list=steps[-1].gives_list)


@overload
def group(calls: Iterable[Step[T]]) -> Flow[list[T]]: ...
@overload
def group(calls: Iterable[OpenCall[Z, T]]) -> OpenFlow[Z, list[T]]: ...
def group(calls: Iterable[Any], *_others: object) -> Any:
    """Steps side by side. The result is the list of their results, in their order.

    Args:
        calls: Calls and flows.
    """
    if _others or isinstance(calls, Step) or not isinstance(calls, Iterable):
        raise ConfigError("group() takes one list of calls: group([a.call(1), b.call(2)])")
    steps = list(calls)
    if not steps:
        raise ConfigError("group() needs at least one call")
    for step in steps:
        _check_step("group", step)
        if step.gives_list:
            raise ConfigError(
                "group(): a group in a group has no place of its own in the list of results; "
                "let it end with .then(...)"
            )
    ends = [end for step in steps for end in step.ends]
    if len({id(end) for end in ends}) < len(ends):
        raise ConfigError("group(): the same call is in it twice; make a call for each")
    heads = [head for step in steps for head in step.heads]
    return Flow(heads, ends, gives_list=True)


def one_call(step: object) -> ConfigError:
    """The error of someone who gives `app.enqueue` the arguments of a call."""
    try:
        check_step("enqueue", step)
    except ConfigError as error:
        return error
    return ConfigError("enqueue() takes one call or flow; send several with enqueue_many([…])")


class Node:
    """A call in its flow: the id of its job, what it waits for, and what waits for it."""

    __slots__ = ("call", "children", "feed", "job_id", "parents")

    def __init__(self, call: Call[Any]) -> None:
        self.call = call
        self.job_id = call.new_id()
        self.children: list[tuple[Node, bool]] = []
        self.parents: dict[Node | SentJob, bool] = {}
        self.feed: Feed = "" if call.links is None else call.links.feeding(call)
        if call.lacks_first_argument and not self.feed:
            raise ArgumentError(
                call.task, "its first argument is missing, and no other call gives it one"
            )


def plan(step: Step[Any]) -> list[Node]:
    """All calls that a step needs, children before their parents, those of equal distance from the
    end together. `ConfigError` if they wait for one another in a circle."""
    nodes = _gathered(step)
    waiting = {node: len(node.children) for node in nodes}
    ready = deque(node for node in nodes if not node.children)
    order: list[Node] = []
    while ready:
        node = ready.popleft()
        order.append(node)
        for parent in node.parents:
            if isinstance(parent, Node):
                waiting[parent] -= 1
                if not waiting[parent]:
                    ready.append(parent)
    if len(order) < len(nodes):
        raise ConfigError(f"the flow goes in a circle: {_circle(waiting)}")
    _check_ids(order)
    for node in order:
        _check_fit(node)
    return order


def _gathered(step: Step[Any]) -> list[Node]:
    """The nodes, found from the ends; without recursion, since a chain may be long."""
    nodes: dict[Parent, Node] = {}
    found = deque(step.ends)
    while found:
        call = found.popleft()
        if call not in nodes:
            nodes[call] = Node(call)
            if call.links is not None:
                found += [parent for parent in call.links.parents() if isinstance(parent, Call)]
    for node in nodes.values():
        parents = {} if node.call.links is None else node.call.links.parents()
        for parent, runs_anyway in parents.items():
            if isinstance(parent, Call):
                nodes[parent].children.append((node, runs_anyway))
                node.parents[nodes[parent]] = runs_anyway
            else:
                node.parents[parent] = runs_anyway
    return list(nodes.values())


def _circle(waiting: dict[Node, int]) -> str:
    """The tasks on a circle: each of those left over has a child that is left over too."""
    node = next(node for node, count in waiting.items() if count)
    path: dict[Node, int] = {}
    while node not in path:
        path[node] = len(path)
        node = next(child for child, _ in node.children if waiting[child])
    return " → ".join(repr(on.call.task) for on in [*list(path)[path[node] :], node])


def _check_fit(node: Node) -> None:
    """Refuse a call whose first argument cannot be what the calls before it return."""
    if not node.feed or node.call.takes is Any:
        return
    for parent, runs_anyway in node.parents.items():
        if not isinstance(parent, Node):
            continue
        given = parent.call.returns
        if runs_anyway:
            given = given | None if isinstance(given, type) else Any
        given = list[given] if node.feed == "list" else given  # type: ignore[valid-type]
        if not can_fit(given, node.call.takes):
            raise ArgumentError(
                node.call.task,
                f"its first argument is {type_name(node.call.takes)}, and "
                f"{'the list of results' if node.feed == 'list' else 'the result'} of "
                f"{parent.call.task!r} is {type_name(given)}",
            )


def _check_ids(nodes: Sequence[Node]) -> None:
    given = [node.call.options.id for node in nodes if node.call.options.id is not None]
    if len(set(given)) < len(given):
        twice = next(id for id in given if given.count(id) > 1)
        raise ConfigError(f"two calls of the flow have the id {twice!r}")


def _check_step(what: str, step: object) -> None:
    if isinstance(step, list | tuple) and what == "chain":
        raise ConfigError("chain() takes its steps one by one: chain(a.call(1), b.call())")
    check_step(what, step)


def check_step(what: str, step: object) -> None:
    """Refuse what cannot be sent."""
    if isinstance(step, Step):
        return
    if hasattr(step, "enqueue"):
        said = f"calls, like {getattr(step, '__name__', 'task')}.call(…), not the task itself"
        raise ConfigError(f"{what}() takes {said}")
    if isinstance(step, str):
        said = f"calls, not the name of a task: app.tasks[{step!r}].call(…) is one"
        raise ConfigError(f"{what}() takes {said}")
    if inspect.isroutine(step):
        said = f"calls of tasks, and {shown(step)} is none yet: put @app.task on it, and"
        raise ConfigError(f"{what}() takes {said} give it {step.__name__}.call(…)")
    if inspect.iscoroutine(step):
        raise ConfigError(f"{what}() takes calls, like task.call(…): a coroutine is no call")
    raise ConfigError(f"{what}() takes calls and flows, like task.call(…), not {step!r}")
