"""For FastAPI: `lifespan` opens and closes the app, `depends` hands it to routes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from headrace.app import Headrace
from headrace.errors import ConfigError
from headrace.integrations.asgi import lifespan

__all__ = ["depends", "lifespan"]


@dataclass(frozen=True)
class AppDependency:
    """Opens an app around a request. Two of one app are equal, which is how FastAPI looks up what
    replaces a dependency."""

    jobs: Headrace

    async def __call__(self) -> AsyncIterator[Headrace]:
        async with self.jobs:
            yield self.jobs


def depends(jobs: Headrace) -> Callable[[], AsyncIterator[Headrace]]:
    """A dependency, `Annotated[Headrace, Depends(depends(jobs))]`, that gives a route the app with
    its connections open. `web.dependency_overrides[depends(jobs)]` gives it another; tasks still
    send to their own app, for which there is `jobs.testing()`.

    Args:
        jobs: The app.
    """
    if not isinstance(jobs, Headrace):
        raise ConfigError(f"depends() takes a Headrace app, not {jobs!r}")
    return AppDependency(jobs)
