"""Listeners, and how the database's thread calls them on their event loops."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Sequence

    from headrace.core.job.ids import JobId
    from headrace.store.contract import Listener

Kind = Literal["ready", "due", "finished", "control", "reports", "kv", "facts"]


class Notification(NamedTuple):
    """What a write has changed: there are jobs to fetch, something to promote earlier, jobs that
    ended, a pause or cancellation, reports, key-value pairs (the queue is their space), or
    facts."""

    kind: Kind
    queue: str
    job_ids: Sequence[JobId] | None = None


class Post:
    """Calls to make on event loops; each loop is woken once for all of its calls."""

    def __init__(self) -> None:
        self._calls: dict[AbstractEventLoop, list[Callable[[], None]]] = {}

    def add(self, loop: AbstractEventLoop, call: Callable[[], None]) -> None:
        self._calls.setdefault(loop, []).append(call)

    def send(self) -> None:
        for loop, calls in self._calls.items():
            try:
                loop.call_soon_threadsafe(_make_all, loop, calls)
            except RuntimeError:
                # The loop is closed.
                continue


def _make_all(loop: AbstractEventLoop, calls: list[Callable[[], None]]) -> None:
    for call in calls:
        try:
            call()
        except Exception as error:
            # An error in one listener must not keep the others from being called.
            loop.call_exception_handler({"message": "a listener failed", "exception": error})


class Listening:
    """One listener, called on the loop on which it was added, and never after `stop`."""

    def __init__(
        self,
        signals: Signals,
        topics: Sequence[tuple[Kind, str]],
        loop: AbstractEventLoop,
        listener: Listener,
    ) -> None:
        self._signals = signals
        self._listener = listener
        self._stopped = False
        self.topics = topics
        self.loop = loop

    def call(self, job_ids: Sequence[JobId] | None) -> None:
        if not self._stopped:
            self._listener(job_ids)

    def stop(self) -> None:
        self._stopped = True
        self._signals.remove(self)

    async def close(self) -> None:
        self.stop()


class Signals:
    """All listeners of one store, on any loop. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: set[Listening] = set()

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def listen(
        self, topics: Sequence[tuple[Kind, str]], loop: AbstractEventLoop, listener: Listener
    ) -> Listening:
        listening = Listening(self, topics, loop, listener)
        with self._lock:
            self._listeners.add(listening)
        return listening

    def remove(self, listening: Listening) -> None:
        with self._lock:
            self._listeners.discard(listening)

    def publish(self, notifications: Sequence[Notification], post: Post) -> None:
        """Call the listeners concerned, once for all notifications of one kind and queue."""
        if not notifications or not self._listeners:
            return
        merged = _merged(notifications)
        for listening in self._snapshot():
            for topic in listening.topics:
                if topic in merged:
                    post.add(listening.loop, _call(listening, merged[topic]))

    def publish_unknown(self, post: Post) -> None:
        """Call all listeners: something has changed, and they must look what."""
        for listening in self._snapshot():
            post.add(listening.loop, _call(listening, None))

    def _snapshot(self) -> list[Listening]:
        with self._lock:
            return list(self._listeners)


def _call(listening: Listening, job_ids: Sequence[JobId] | None) -> Callable[[], None]:
    return lambda: listening.call(job_ids)


def _merged(notifications: Sequence[Notification]) -> dict[tuple[str, str], list[Any] | None]:
    merged: dict[tuple[str, str], list[Any] | None] = {}
    for kind, queue, job_ids in notifications:
        known = merged.setdefault((kind, queue), [])
        if job_ids is None or known is None:
            merged[kind, queue] = None
        else:
            known.extend(job_ids)
    return merged
