"""Hooks are told of every error, and can do no harm."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from headrace import ConfigError, Headrace, JobFailed, Reject, Retry, RetryLater
from headrace.errors import StoreUnavailable
from headrace.worker.observer import Observer
from tests.worker.states import until
from tests.worker.topics import Order, orders_of


async def test_a_hook_gets_each_failed_run(app: Headrace) -> None:
    told: list[tuple[str, str, Any, Any]] = []

    @app.on_error
    def note(scope: str, error: BaseException, details: Mapping[str, Any]) -> None:
        told.append((scope, str(error), details["task"], details["attempt"]))

    @app.task(retry=Retry(2, base=0.01))
    async def fail() -> None:
        raise ValueError("no")

    async with app.worker():
        await fail.enqueue()
        await until(lambda: len(told) == 2)
    assert told == [("handler", "no", "fail", 1), ("handler", "no", "fail", 2)]


async def test_what_a_task_says_of_its_own_run_is_no_error(app: Headrace) -> None:
    told: list[BaseException] = []
    app.on_error(lambda scope, error, details: told.append(error))

    @app.task(retry=Retry(2))
    async def say(word: str) -> None:
        raise Reject("no") if word == "reject" else RetryLater(0)

    async with app.worker():
        jobs = await app.enqueue_many(say.call(word) for word in ("reject", "later"))
        for job in jobs:
            with pytest.raises(JobFailed):
                await job.result(30)
    assert told == []


async def test_a_hook_gets_errors_of_the_store(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = orders_of(app)
    scopes: set[str] = set()
    seen: list[str] = []

    @app.on_error
    async def note(scope: str, error: BaseException, details: object) -> None:
        assert isinstance(error, StoreUnavailable)
        scopes.add(scope)

    @orders.subscribe("billing")
    async def bill(order: Order) -> None:
        seen.append(order.id)
        if len(seen) == 1:
            # Wakes the promoter, which rests while nothing is due.
            raise RetryLater(0.01)

    failing = {"fetch", "reclaim", "settle", "promote"}
    worker = app.worker()

    def unsteady(consumer: object, name: str) -> None:
        real = getattr(consumer, name)

        async def once(*args: object, **kwargs: object) -> object:
            if name in failing:
                failing.discard(name)
                raise StoreUnavailable("away")
            return await real(*args, **kwargs)

        monkeypatch.setattr(consumer, name, once)

    async with worker:
        assert worker.runtime is not None
        (loop,) = worker.runtime.loops
        for name in ("fetch", "reclaim", "settle"):
            unsteady(loop.consumer, name)
        unsteady(worker.runtime.loops.upkeep, "promote")
        await orders.publish(Order("o-1"))
        await until(lambda: len(seen) == 2 and {"read", "reclaim", "settle", "promote"} <= scopes)


async def test_hooks_that_raise_or_hang_are_named_once_and_harm_nothing(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []
    hanging = threading.Event()

    @app.on_error
    def raises(scope: str, error: BaseException, details: object) -> None:
        raise RuntimeError("a bad hook")

    @app.on_error
    async def raises_too(scope: str, error: BaseException, details: object) -> None:
        raise RuntimeError("another bad hook")

    @app.on_error
    async def hangs(scope: str, error: BaseException, details: object) -> None:
        await asyncio.sleep(600)

    @app.on_error
    async def note(scope: str, error: BaseException, details: object) -> None:
        told.append(str(error))

    @app.on_error
    def hangs_too(scope: str, error: BaseException, details: object) -> None:
        hanging.wait(60)

    @app.task(retry=Retry(1))
    async def fail(number: int) -> None:
        raise ValueError(f"no {number}")

    @app.task
    async def work() -> str:
        return "done"

    with caplog.at_level(logging.ERROR):
        async with app.worker():
            await app.enqueue_many(fail.call(number) for number in range(3))
            await until(lambda: len(told) == 3)
            assert await (await work.enqueue()).result(30) == "done"
    hanging.set()
    blamed = [r.getMessage() for r in caplog.records if "the error hook" in r.getMessage()]
    assert sorted(told) == ["no 0", "no 1", "no 2"]
    assert len([text for text in blamed if "another bad hook" in text]) == 1
    assert len([text for text in blamed if "a bad hook" in text]) == 1


async def test_a_hook_that_cannot_keep_up_is_spared_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done = threading.Event()
    observer = Observer([lambda scope, error, details: done.wait(60)])
    with caplog.at_level(logging.ERROR):
        for _ in range(1100):
            observer.observe("read", ValueError(), {})
    assert [record for record in caplog.records if "cannot keep up" in record.getMessage()]
    done.set()
    await observer.close()


def test_a_hook_is_a_function() -> None:
    with pytest.raises(ConfigError, match="takes a function"):
        Headrace("memory://").on_error("log")  # type: ignore[type-var]
