"""Faults that a test asks for: a store that fails, workers that die."""

from __future__ import annotations

import asyncio
import difflib
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from headrace.core.bounds import check_count, check_seconds
from headrace.errors import ConfigError, StoreUnavailable
from headrace.store.contract import Store, StoreConsumer

T = TypeVar("T")

# A worker that ends must get away from a store that fails.
_ALWAYS_WORK = {"close", "interrupt", "wake"}
_MEANT = {"enqueue": "append", "send": "append", "add": "append", "ack": "settle", "take": "fetch"}
_DOWN = "the store cannot be reached: the test said down()"


def _verbs_of(*roles: type) -> frozenset[str]:
    found = (name for role in roles for name, _ in inspect.getmembers(role, _is_async))
    return frozenset(found) - _ALWAYS_WORK


_is_async = inspect.iscoroutinefunction
VERBS = _verbs_of(Store, StoreConsumer)
"""What a store does, as `store/contract.py` has it."""


class Fault:
    """A fault that lasts until `end`, or until the `with` block ends."""

    def __init__(self, end: Callable[[Fault], None]) -> None:
        self._end = end

    def end(self) -> None:
        """From now on, all is well."""
        with suppress(KeyError):
            self._end(self)

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    async def __aenter__(self) -> Fault:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.end()


class _Failing:
    """A verb that fails a few times. If it is `applied`, only the answer is lost."""

    def __init__(self, verb: str, times: int, applied: bool) -> None:
        self.verb, self.left, self.applied = verb, times, applied
        self.has_struck = False

    def error(self) -> StoreUnavailable:
        what = "its answer was lost" if self.applied else "it was not carried out"
        text = f"the store failed at {self.verb!r}, and {what}: the test said fail()"
        # Silent, so that senders do not try again for a while, which would take the test's time.
        return StoreUnavailable(text, sent=self.applied, silent=True)


class StoreFaults:
    """What goes wrong with the store. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failing: list[_Failing] = []
        self._down: set[Fault] = set()
        self._slow: dict[Fault, tuple[str, float]] = {}

    def fail(self, verb: str, times: int = 1, *, applied: bool = False) -> None:
        """See `FaultMaker.fail`."""
        failing = _Failing(_checked(verb), check_count("fail(times=)", times), applied)
        with self._lock:
            self._failing.append(failing)

    def down(self) -> Fault:
        """See `FaultMaker.down`."""
        fault = Fault(self._down.discard)
        self._down.add(fault)
        return fault

    def slow(self, seconds: float, verb: str = "") -> Fault:
        """See `FaultMaker.slow`."""
        check_seconds("slow()", seconds)
        fault = Fault(self._slow.__delitem__)
        self._slow[fault] = _checked(verb) if verb else "", seconds
        return fault

    def forget(self) -> None:
        """Expect no request to fail any more."""
        self._failing.clear()

    @property
    def left(self) -> list[str]:
        """The faults that have not happened, not even once."""
        return [f"fail({each.verb!r})" for each in self._failing if not each.has_struck]

    @property
    def is_down(self) -> bool:
        return bool(self._down)

    async def call(
        self, verb: str, method: Callable[..., Awaitable[T]], /, *args: Any, **options: Any
    ) -> T:
        """What the store answers, if it does."""
        for slow_verb, seconds in tuple(self._slow.values()):
            if slow_verb in ("", verb):
                await asyncio.sleep(seconds)
        if self._down:
            raise StoreUnavailable(_DOWN, silent=True)
        failing = self._next(verb) if self._failing else None
        if failing is not None and not failing.applied:
            raise failing.error()
        answer = await method(*args, **options)
        if failing is not None:
            raise failing.error()
        return answer

    def _next(self, verb: str) -> _Failing | None:
        with self._lock:
            found = next((each for each in self._failing if each.verb == verb), None)
            if found is not None:
                found.left, found.has_struck = found.left - 1, True
                if not found.left:
                    self._failing.remove(found)
            return found


def _checked(verb: object) -> str:
    if verb in VERBS:
        return str(verb)
    meant = _MEANT.get(str(verb))
    near = [meant] if meant else difflib.get_close_matches(str(verb), VERBS, 3)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise ConfigError(
        f"a store has no verb {verb!r}: {hint}'append' sends jobs, 'publish' events, 'fetch' takes "
        "jobs, 'settle' writes their ends; headrace.store.contract.Store has them all"
    )
