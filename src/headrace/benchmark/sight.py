"""What looking costs: a page of the dashboard, its live updates, and metrics of a worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Redis

import headrace
from headrace import Headrace
from headrace.benchmark.figures import Figure, Sizes, middle
from headrace.benchmark.jobs import fresh_app, jobs_on
from headrace.telemetry.totals import Totals

Tell = Callable[[str], None]
Message = MutableMapping[str, Any]
_QUEUES = 100
_CONCURRENCY = 512
_OK = 200


class CountedStore:
    """A store that counts what is asked of it; all else is the store's."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        def counted(*args: Any, **kwargs: Any) -> Awaitable[Any]:
            self.calls += 1
            answer: Awaitable[Any] = found(*args, **kwargs)
            return answer

        return counted


async def measure_sight(url: str, store: str, sizes: Sizes, tell: Tell) -> list[Figure]:
    """The overview with 100 queues and many jobs; on Redis also how many commands an open page
    sends."""
    async with fresh_app(url, events=True) as app:
        tell(f"{store}: a dashboard with {_QUEUES} queues and {sizes.seen:,} jobs")
        await _fill(app, sizes.seen)
        counted = CountedStore((await app.session()).store)
        (await app.session()).store = counted
        site = headrace.dashboard(app, insecure=True)
        await get(site, "/")
        took, calls = [], []
        for _ in range(5):
            before, began = counted.calls, time.perf_counter()
            await get(site, "/")
            took.append((time.perf_counter() - began) * 1000)
            calls.append(counted.calls - before)
        figures = [
            Figure(f"{store}: overview page", middle(took), "ms", limit=100, at_most=True),
            Figure(f"{store}: overview page", max(calls), "store calls", limit=20, at_most=True),
        ]
        if url.startswith("redis"):
            sent = await _live_commands(url, site, sizes.idle_seconds)
            figures.append(Figure("live page", sent, "commands/s", limit=5, at_most=True))
        return figures


async def _fill(app: Headrace, jobs: int) -> None:
    for queue in range(_QUEUES):

        @app.task(name=f"work-{queue}", queue=f"queue-{queue:03}", result_ttl=0)
        async def work(number: int) -> None: ...

        for start in range(0, jobs // _QUEUES, 500):
            count = min(500, jobs // _QUEUES - start)
            await app.enqueue_many(work.call(number) for number in range(count))


async def get(site: Any, path: str) -> bytes:
    """What an ASGI application answers, called as a server would."""
    answered: list[Message] = []

    async def send(message: Message) -> None:
        answered.append(message)

    await site(_scope(path), _asked_once(), send)
    assert answered[0]["status"] == _OK, answered
    return b"".join(message.get("body", b"") for message in answered[1:])


@asynccontextmanager
async def listening(site: Any, path: str) -> AsyncIterator[None]:
    """Someone who has a page open that never ends."""
    gone = asyncio.Event()
    asked = _asked_once()

    async def receive() -> Message:
        first = await asked()
        if first["type"] == "http.request":
            return first
        await gone.wait()
        return first

    async def send(message: Message) -> None: ...

    page = asyncio.create_task(site(_scope(path), receive, send))
    try:
        yield
    finally:
        gone.set()
        page.cancel()
        await asyncio.gather(page, return_exceptions=True)


def _asked_once() -> Callable[[], Awaitable[Message]]:
    messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive


def _scope(path: str) -> dict[str, Any]:
    path, _, query = path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8370),
    }


async def _live_commands(url: str, site: Any, seconds: float) -> float:
    """Commands per second that one open overview sends; what its scripts call is not sent."""
    redis: Redis = Redis.from_url(url)
    sent = 0
    try:
        async with redis.monitor() as monitor, listening(site, "/live?view=/"):
            ends_at = time.monotonic() + seconds
            while (left := ends_at - time.monotonic()) > 0:
                try:
                    async with asyncio.timeout(left):
                        command: dict[str, Any] = await monitor.next_command()
                except TimeoutError:
                    break
                sent += command["client_type"] != "lua"
    finally:
        await redis.aclose()
    return sent / seconds


async def measure_metrics(url: str, sizes: Sizes, tell: Tell) -> list[Figure]:
    """A drain with metrics against one without, both with the record of events, as by default."""
    on: list[float] = []
    off: list[float] = []
    for _ in range(max(3, sizes.repeats)):
        tell("Redis: drain with and without metrics")
        for totals, rates in ((None, off), (Totals(), on)):
            async with jobs_on(url, events=True) as jobs:
                await jobs.send_many(jobs.forgotten, sizes.drain)
                rates.append(await jobs.drain(jobs.forgotten, _CONCURRENCY, totals=totals))
    return [Figure("drain with metrics, to without", _best(on), "/s", _best(off), 0.97)]


def _best(rates: Sequence[float]) -> float:
    """What the machine's other work disturbed least: a difference of a few hundredths drowns in
    medians."""
    return max(rates)
