"""Large payloads outside of the store: where they go is the user's own."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from headrace.core.bounds import check_count
from headrace.core.clock import Duration, to_ms
from headrace.core.job import ids
from headrace.errors import ConfigError

THRESHOLD = 256 * 1024
MAX_PAYLOAD = 256 * 1024 * 1024
TIMEOUT = 60.0

Put = Callable[[str, bytes], "str | Awaitable[str | None] | None"]
"""Keeps the bytes under this key. What it returns, if anything, is the key instead."""
Get = Callable[[str], "bytes | Awaitable[bytes]"]
Delete = Callable[[str], "object | Awaitable[object]"]
Accept = Callable[[str], object]
"""Says by its truth whether a key from the store may be passed on to `get` and `delete`."""


class Offload:
    """Where payloads of at least `threshold` bytes go instead of into the store, which then holds
    a reference alone. The functions are async, or plain ones that run in threads; each has
    `timeout` seconds. `max_payload` takes the place of the app's.

    Args:
        put: Keeps the bytes under a key, `put(key, data)`. If it returns a text, that is the key
            instead, which `accept` must let pass.
        get: Gives the bytes back, `get(key)`.
        delete: Deletes them, `delete(key)`; a key that is gone is no error. Nothing is deleted
            unless said.
        threshold: Payloads of fewer bytes, counted after compression, go into the store.
        max_payload: Bytes that a payload may take before compression, instead of the app's
            `max_payload`.
        timeout: Seconds, or a timedelta, for each call.
        accept: Says whether a key is valid, `accept(key)`, before `get` or `delete` is called with
            it: a plain function without I/O. Keys come from the store, so whoever can write there
            chooses them. Unless said, the keys that Headrace gives are valid, and no others.
    """

    def __init__(
        self,
        put: Put,
        get: Get,
        delete: Delete | None = None,
        *,
        threshold: int = THRESHOLD,
        max_payload: int = MAX_PAYLOAD,
        timeout: Duration = TIMEOUT,
        accept: Accept | None = None,
    ) -> None:
        self.put = _function("put", put, 2)
        self.get = _function("get", get, 1)
        self.delete = None if delete is None else _function("delete", delete, 1)
        self.accept = None if accept is None else _function("accept", accept, 1)
        if inspect.iscoroutinefunction(accept):
            raise ConfigError(
                "Offload(accept=) must be a plain function: it looks at the key, and asks nobody"
            )
        self.threshold = check_count("Offload(threshold=)", threshold)
        self.max_payload = check_count("Offload(max_payload=)", max_payload)
        if self.threshold > self.max_payload:
            raise ConfigError(
                f"Offload(): threshold is {self.threshold:,} bytes and max_payload "
                f"{self.max_payload:,}, so nothing would ever go outside: lower the one, or raise "
                "the other"
            )
        self.timeout = to_ms("Offload(timeout=)", timeout, least=0.001) / 1000

    def __repr__(self) -> str:
        return f"<Offload of {self.threshold:,} bytes and more>"


def objection(offload: Offload, key: str) -> str | None:
    """Why its `get` and `delete` may not be called with this key; None if they may."""
    if offload.accept is None:
        if ids.is_ours(key):
            return None
        return "it is no key that Headrace gives; Offload(accept=…) says which others are valid"
    try:
        answer = offload.accept(key)
    except Exception as error:
        return f"Offload(accept=) failed over it: {type(error).__name__}: {error}"
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        return "Offload(accept=) must be a plain function that answers at once"
    return None if answer else "Offload(accept=) does not accept it as a key"


def check_offload(where: str, offload: object) -> None:
    """`ConfigError` if it is none."""
    if not isinstance(offload, Offload):
        raise ConfigError(f"{where}offload must be an Offload(put, get), not {offload!r}")


def _function(name: str, function: Any, arguments: int) -> Any:
    if not callable(function):
        raise ConfigError(f"Offload({name}=) must be a function, not {function!r}")
    try:
        inspect.signature(function).bind(*range(arguments))
    except TypeError:
        takes = "(key, data)" if arguments == 2 else "(key)"
        raise ConfigError(f"Offload(): {name} is called as {name}{takes}") from None
    except ValueError:
        # Written in C, without a signature.
        pass
    return function
