"""Functions that make events of older versions into present ones.

An upcast is either

- one function `upcast(old, version)`, which is given what was published and the version it was
  published as, and returns an event, or plain data of the present version; or
- functions by version, `{1: to_2, 2: to_3}`, each of which is given what the one before it returned
  and returns plain data of the next version; the last may return an event.

What was published is plain data: dicts, lists, texts, numbers, None and, by MessagePack, bytes and
datetimes. By the codecs `raw` and `protobuf`, or one of the user's own, it is the bytes themselves,
and bytes are what is returned if it is not an event.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from headrace.errors import ConfigError

Upcast = Callable[[Any, int], Any]
Upcasts = Mapping[int, Callable[[Any], Any]]


class NoStep(Exception):
    """There is no upcast from this version."""


def checked_upcast(topic: str, upcast: Any, version: int) -> Upcast | None:
    """What a topic of this version is given as its upcast, as one function; it raises `NoStep` for
    a version that it knows nothing of. `ConfigError` for what cannot work."""
    if upcast is None:
        return None
    if version == 1:
        raise ConfigError(
            f"topic {topic!r}: an upcast is for older events, and there are none before version 1: "
            "say version=2 or more"
        )
    if not isinstance(upcast, Mapping):
        _check_function(topic, upcast, "upcast(old, version)", 2)
        function: Upcast = upcast
        return function
    first = version - len(upcast)
    if first < 1 or not upcast or set(upcast) != set(range(first, version)):
        raise ConfigError(
            f"topic {topic!r}: upcast must have a function for each version from its first to "
            f"{version - 1}, not for {list(upcast)}"
        )
    for step, function in upcast.items():
        _check_function(topic, function, f"the upcast from {step}", 1)
    return _stepwise(dict(upcast), version)


def _stepwise(steps: Upcasts, present: int) -> Upcast:
    def upcast(old: Any, version: int) -> Any:
        if version not in steps:
            raise NoStep
        for step in range(version, present):
            old = steps[step](old)
        return old

    return upcast


def _check_function(topic: str, function: Any, what: str, arguments: int) -> None:
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise ConfigError(f"topic {topic!r}: {what} must be an ordinary function, not {function!r}")
    try:
        inspect.signature(function).bind(*range(arguments))
    except TypeError as error:
        raise ConfigError(
            f"topic {topic!r}: {what} is called with {arguments} argument(s): {error}"
        ) from None
    except ValueError:
        # Written in C, without a signature.
        return
