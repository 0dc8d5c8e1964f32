"""`Headrace`: the registry of tasks, the store, and their lifetime."""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from headrace.client.context import Context
from headrace.client.job import Job
from headrace.client.portal import Portal
from headrace.client.sender import BATCH
from headrace.client.session import Session
from headrace.client.task import Task
from headrace.core import ids, limits
from headrace.core.call import Call, Parcel
from headrace.core.clock import Clock, SystemClock
from headrace.core.ids import JobKey
from headrace.core.options import RunIn, TaskOptions
from headrace.core.retry import Retry
from headrace.errors import ConfigError
from headrace.store.contract import Store
from headrace.store.loops import LoopLocal
from headrace.store.url import DEFAULT_URL, open_store

if TYPE_CHECKING:
    from headrace.admin import Admin
    from headrace.worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")
_LifespanT = TypeVar("_LifespanT", bound=Callable[..., AsyncIterator[Any]])


class Decorator:
    """What `app.task(...)` gives: applied to a function, it makes the task."""

    def __init__(self, make: Callable[[Callable[..., Any]], Task[..., Any]]) -> None:
        self._make = make

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> Task[P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> Any:
        return self._make(function)


class Headrace:
    """Background jobs on the store that `url` names: `$HEADRACE_URL` or `sqlite:///headrace.db` if
    none is given. Each setting has a variable, `HEADRACE_LEASE` and so on; the argument wins.

    `async with app:` connects and closes; without it, connections are made when first needed.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        lease: float | None = None,
        crash_limit: int | None = None,
        require_durable: bool | None = None,
        max_payload: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.url = _setting("URL", url, str, DEFAULT_URL)
        if not isinstance(self.url, str):
            raise ConfigError(f"the store's URL must be a text, not {self.url!r}")
        self.namespace = limits.check_name(
            "namespace", _setting("NAMESPACE", namespace, str, "headrace")
        )
        self.lease = limits.check_seconds(
            "lease", _setting("LEASE", lease, float, limits.LEASE), least=0.05
        )
        self.crash_limit = limits.check_count(
            "crash_limit", _setting("CRASH_LIMIT", crash_limit, int, limits.CRASH_LIMIT)
        )
        self.max_payload = limits.check_count(
            "max_payload", _setting("MAX_PAYLOAD", max_payload, int, limits.MAX_PAYLOAD)
        )
        self.require_durable = _setting("REQUIRE_DURABLE", require_durable, _truth, False)
        self.clock = clock or SystemClock()
        self.tasks: dict[str, Task[..., Any]] = {}
        self.lifespan_function: Callable[..., AsyncIterator[Any]] | None = None
        self._store: Store | None = None
        self._sessions: LoopLocal[Session] = LoopLocal()
        self.portal = Portal(self.close)

    # Declaring

    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        queue: str = limits.DEFAULT_QUEUE,
        retry: Retry | None = None,
        timeout: float | None = limits.TIMEOUT,
        run_in: RunIn | None = None,
        result_ttl: float = limits.RESULT_TTL,
    ) -> Decorator: ...
    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        queue: str = limits.DEFAULT_QUEUE,
        retry: Retry | None = None,
        timeout: float | None = limits.TIMEOUT,
        run_in: RunIn | None = None,
        result_ttl: float = limits.RESULT_TTL,
    ) -> Any:
        """Make a function a task. `timeout` None is no limit; `result_ttl` 0 keeps no result, which
        is the fastest."""

        def make(function: Callable[..., Any]) -> Task[..., Any]:
            if not inspect.isroutine(function):
                raise ConfigError(
                    f"@app.task goes on a function, not on {function!r}; put it into a def"
                )
            is_async = inspect.iscoroutinefunction(function)
            options = TaskOptions(
                name=str(getattr(function, "__name__", "")) if name is None else name,
                run_in=run_in or ("loop" if is_async else "thread"),
                queue=queue,
                retry=Retry() if retry is None else retry,
                timeout=timeout,
                result_ttl=result_ttl,
            )
            return self._registered(Task(self, function, options))

        return Decorator(make) if function is None else make(function)

    def lifespan(self, function: _LifespanT) -> _LifespanT:
        """An async generator that a worker runs around its work: what it yields is `ctx.state`."""
        yields: bool = inspect.isasyncgenfunction(function)
        if not yields:
            raise ConfigError("@app.lifespan goes on an async generator function: one that yields")
        if self.lifespan_function is not None:
            raise ConfigError("the app has a lifespan already; it can have one")
        self.lifespan_function = function
        return function

    # Sending

    async def enqueue(self, call: Call[R]) -> Job[R]:
        """Send one call."""
        session = await self.session()
        now_ms = await self._now_ms(session, [call]) if call.options else None
        parcel = call.parcel(now_ms)
        await session.sender.send(call.queue, [parcel], named=call.options.id is not None)
        return Job(self, parcel.key, call.queue, call.returns)

    async def enqueue_many(self, calls: Iterable[Call[R]]) -> list[Job[R]]:
        """Send many calls, in batches; the jobs in the order of the calls. Each batch is stored as
        a whole; if one fails, those before it are stored."""
        session = await self.session()
        jobs: list[Job[R]] = []
        remaining = iter(calls)
        while batch := list(islice(remaining, BATCH)):
            jobs += await self._send_batch(session, batch)
        return jobs

    def job(self, id: str) -> Job[Any]:
        """The handle of a job whose id is known."""
        return Job(self, ids.to_key(id), None)

    # Working

    def worker(
        self,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int = limits.CONCURRENCY,
        threads: int | None = None,
        processes: int | None = None,
        drain: float = limits.DRAIN,
    ) -> Worker:
        """A worker of this app's tasks, on the queues they use unless others are given."""
        from headrace.worker.worker import Worker

        return Worker(
            self,
            queues=queues,
            concurrency=concurrency,
            threads=threads,
            processes=processes,
            drain=drain,
        )

    @property
    def admin(self) -> Admin:
        """What people ask and do about queues and jobs."""
        from headrace.admin import Admin

        return Admin(self)

    @property
    def queues(self) -> list[str]:
        """The queues that the declared tasks use."""
        return sorted({task.declared.queue for task in self.tasks.values()})

    # Lifetime

    async def __aenter__(self) -> Headrace:
        (await self.session()).entered += 1
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        session = self._sessions.get()
        if session is None:
            return
        session.entered -= 1
        if not session.entered:
            await self.close()

    async def session(self) -> Session:
        """What this event loop holds of the store; opened when first asked for."""
        session = self._sessions.get()
        if session is None:
            store = self.store
            await store.open()
            session = self._sessions.get() or self._sessions.set(Session(store))
        return session

    async def close(self) -> None:
        """Close what this event loop holds; the app may be used again."""
        session = self._sessions.pop()
        if session is not None:
            await session.close()

    @property
    def store(self) -> Store:
        if self._store is None:
            self._store = open_store(
                self.url,
                namespace=self.namespace,
                crash_limit=self.crash_limit,
                require_durable=self.require_durable,
                clock=self.clock,
            )
        return self._store

    async def find_queue(self, key: JobKey) -> str | None:
        """The queue that knows this job."""
        store = (await self.session()).store
        known = await store.queues()
        for queue in dict.fromkeys([*self.queues, *known]):
            (sighting,) = await store.look(queue, [key])
            if sighting is not None:
                return queue
        return None

    def _registered(self, task: Task[..., Any]) -> Task[..., Any]:
        other = self.tasks.get(task.name)
        if other is not None:
            raise ConfigError(
                f"two tasks are named {task.name!r}: {other.__module__}.{other.__qualname__} and "
                f"{task.__module__}.{task.__qualname__}; give one of them @app.task(name=…)"
            )
        self.tasks[task.name] = task
        return task

    async def _now_ms(self, session: Session, calls: Sequence[Call[Any]]) -> int:
        """The time for envelopes: the store's if something depends on it, else ours will do."""
        if any(call.needs_time for call in calls):
            return await session.store.time_ms()
        return self.clock.now_ms()

    async def _send_batch(self, session: Session, calls: Sequence[Call[R]]) -> list[Job[R]]:
        jobs: list[Job[R]] = []
        parcels: dict[str, list[Parcel]] = {}
        named = False
        now_ms = await self._now_ms(session, calls)
        for call in calls:
            parcel = call.parcel(now_ms)
            named |= call.options.id is not None
            parcels.setdefault(call.queue, []).append(parcel)
            jobs.append(Job(self, parcel.key, call.queue, call.returns))
        for queue, batch in parcels.items():
            await session.sender.send(queue, batch, named=named)
        return jobs


def _setting(name: str, given: R | None, convert: Callable[[str], R], default: R) -> R:
    if given is not None:
        return given
    text = os.environ.get(f"HEADRACE_{name}")
    if not text:
        return default
    try:
        return convert(text)
    except ValueError:
        raise ConfigError(
            f"HEADRACE_{name}={text!r} is not a {convert.__name__.strip('_')}"
        ) from None


def _truth(text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError(text)
