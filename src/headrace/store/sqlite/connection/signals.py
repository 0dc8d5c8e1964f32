"""Who waits for what, and how the database's thread reaches the event loops they wait on."""

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
    """What a write made known: jobs to fetch, something to promote earlier, jobs that ended, what
    people want, what jobs tell of themselves, key-value pairs (with their space as the queue),
    facts."""

    kind: Kind
    queue: str
    job_ids: Sequence[JobId] | None = None


class Post:
    """Calls to make on event loops. However many there are, each loop is woken once."""

    def __init__(self) -> None:
        self._calls: dict[AbstractEventLoop, list[Callable[[], None]]] = {}

    def add(self, loop: AbstractEventLoop, call: Callable[[], None]) -> None:
        self._calls.setdefault(loop, []).append(call)

    def send(self) -> None:
        for loop, calls in self._calls.items():
            try:
                loop.call_soon_threadsafe(_make_all, loop, calls)
            except RuntimeError:
                # The loop is closed: nobody waits there any more.
                continue


def _make_all(loop: AbstractEventLoop, calls: list[Callable[[], None]]) -> None:
    for call in calls:
        try:
            call()
        except Exception as error:
            # One listener's mistake must not cost the others their answers.
            loop.call_exception_handler({"message": "a listener failed", "exception": error})


class Listening:
    """One listener. Its `listener` is called on the loop that it began to listen on, never after
    `stop`."""

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

    def tell(self, job_ids: Sequence[JobId] | None) -> None:
        if not self._stopped:
            self._listener(job_ids)

    def stop(self) -> None:
        self._stopped = True
        self._signals.remove(self)

    async def close(self) -> None:
        self.stop()


class Signals:
    """All listeners of one store, of whatever loop. Safe to use from any thread."""

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
        """Tell those concerned; several notifications of one kind and queue become one call."""
        if not notifications or not self._listeners:
            return
        merged = _merged(notifications)
        for listening in self._snapshot():
            for topic in listening.topics:
                if topic in merged:
                    post.add(listening.loop, _telling(listening, merged[topic]))

    def publish_unknown(self, post: Post) -> None:
        """Tell everyone that something has changed, and that they must look what."""
        for listening in self._snapshot():
            post.add(listening.loop, _telling(listening, None))

    def _snapshot(self) -> list[Listening]:
        with self._lock:
            return list(self._listeners)


def _telling(listening: Listening, job_ids: Sequence[JobId] | None) -> Callable[[], None]:
    return lambda: listening.tell(job_ids)


def _merged(notifications: Sequence[Notification]) -> dict[tuple[str, str], list[Any] | None]:
    merged: dict[tuple[str, str], list[Any] | None] = {}
    for kind, queue, job_ids in notifications:
        known = merged.setdefault((kind, queue), [])
        if job_ids is None or known is None:
            merged[kind, queue] = None
        else:
            known.extend(job_ids)
    return merged
