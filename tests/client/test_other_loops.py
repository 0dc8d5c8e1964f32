"""Coroutines that another event loop than that of asyncio runs, such as that of trio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace import ConfigError, Headrace

Act = Callable[[Headrace], Awaitable[Any]]


async def _enter(app: Headrace) -> None:
    async with app:
        pass


async def _work(app: Headrace) -> None:
    await app.worker().run()


ACTS: dict[str, Act] = {
    "enter": _enter,
    "work": _work,
    "send": lambda app: app.tasks["add"].enqueue(1),
    "send a call": lambda app: app.enqueue(app.tasks["add"].call(1)),
    "ask": lambda app: app.job("01a1de95-4479-7107-97f1-0cd58b08d0d7").status(),
    "wait": lambda app: app.job("01a1de95-4479-7107-97f1-0cd58b08d0d7").result(1),
    "look": lambda app: app.admin.queues(),
    "publish": lambda app: app.topic("orders", int).publish(1),
}


@pytest.fixture
def app() -> Headrace:
    app = Headrace("memory://")

    @app.task
    async def add(a: int) -> int:
        return a

    return app


@pytest.mark.parametrize("act", ACTS.values(), ids=list(ACTS))
def test_it_is_said_that_headrace_needs_asyncio(app: Headrace, act: Act) -> None:
    async def main() -> None:
        await act(app)

    work = main()
    with pytest.raises(ConfigError, match=r"Headrace needs asyncio.*trio.*anyio_backend"):
        # As trio does it.
        work.send(None)


def test_a_test_that_runs_on_trio_is_told_so(app: Headrace) -> None:
    async def main() -> None:
        with app.testing() as headrace:
            await headrace.drain()

    work = main()
    with pytest.raises(ConfigError, match="Headrace needs asyncio"):
        work.send(None)
