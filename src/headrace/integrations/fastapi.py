"""For FastAPI: `lifespan` opens and closes the app, `depends` hands it to routes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from headrace.app import Headrace
from headrace.integrations.asgi import lifespan

__all__ = ["depends", "lifespan"]


def depends(jobs: Headrace) -> Callable[[], AsyncIterator[Headrace]]:
    """A dependency, `Annotated[Headrace, Depends(depends(jobs))]`, that gives a route the app with
    its connections open; tests replace it by way of `dependency_overrides`."""

    async def open_app() -> AsyncIterator[Headrace]:
        async with jobs:
            yield jobs

    return open_app
