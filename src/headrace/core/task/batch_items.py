"""A batch function takes a list and returns one; what travels is one item of each."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Coroutine, Sequence
from typing import Any

from headrace.errors import ConfigError

_LISTS = (list, Sequence)


def of_one_item(
    task: str, parameters: Sequence[inspect.Parameter], hints: dict[str, Any]
) -> dict[str, Any]:
    """The annotations of a batch function as those of one of its jobs, or a `ConfigError` if it is
    not one."""
    where = f"task {task!r}: a batch function takes one list"
    if len(parameters) != 1 or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise ConfigError(f"{where} (and a Context if it likes), not {len(parameters)} parameters")
    name, returned = parameters[0].name, hints.get("return", Any)
    item = _item_of(hints.get(name, Any))
    if item is None:
        raise ConfigError(f"{where}; annotate {name!r} as list[…], not {hints[name]!r}")
    if returned is not types.NoneType:
        returned = _without_errors(_item_of(returned) or Any)
    return {**hints, name: item, "return": returned}


def _item_of(kind: Any) -> Any:
    """The type of the items of a list type; None if it is not one."""
    if kind is Any or kind in _LISTS:
        return Any
    if typing.get_origin(kind) not in _LISTS:
        return None
    item = typing.get_args(kind)[0]
    return types.NoneType if item is None else item


def _without_errors(kind: Any) -> Any:
    """The type of a job's result: `int` of `int | Exception`, for an exception in the list means
    that its job has failed."""
    if typing.get_origin(kind) not in (typing.Union, types.UnionType):
        return kind
    kept = [
        part
        for part in typing.get_args(kind)
        if not (isinstance(part, type) and issubclass(part, BaseException))
    ]
    return typing.Union[tuple(kept)] if kept else Any  # noqa: UP007


async def awaited_item(given: Coroutine[Any, Any, Any]) -> Any:
    """`only_item` of what an async batch function returns."""
    return only_item(await given)


def only_item(given: Any) -> Any:
    """What a batch function returned for its only item; an error is raised."""
    one = given[0] if isinstance(given, Sequence) and given else None
    if isinstance(one, BaseException):
        raise one
    return one
