"""For ASGI frameworks with a lifespan: Starlette, FastAPI, Litestar and others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

from headrace.app import Headrace
from headrace.errors import ConfigError

ServerT = TypeVar("ServerT")
Lifespan = Callable[[ServerT], AbstractAsyncContextManager[Any]]


def lifespan(
    jobs: Headrace,
    *,
    worker: bool | Mapping[str, Any] = False,
    inner: Lifespan[Any] | None = None,
) -> Lifespan[Any]:
    """The `lifespan=` of a web application that sends jobs: connects before the first request and
    closes after the last.

    Args:
        jobs: The Headrace app.
        worker: True, or the options of `app.worker()`, to run jobs in this process too, beside the
            requests.
        inner: The application's own lifespan, run inside; what it yields is the state of the
            application.
    """
    if not isinstance(jobs, Headrace):
        raise ConfigError(f"lifespan() takes a Headrace app, not {jobs!r}")
    options = dict(worker) if isinstance(worker, Mapping) else {}

    @asynccontextmanager
    async def around(server: Any) -> AsyncIterator[Any]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(jobs)
            if worker is not False:
                await stack.enter_async_context(jobs.worker(**options))
            yield None if inner is None else await stack.enter_async_context(inner(server))

    return around
