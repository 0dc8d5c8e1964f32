"""A worker that cannot start leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from headrace import Headrace
from headrace.errors import StoreUnavailable


class Ears:
    """Counts the subscriptions of a store's consumers that are open."""

    def __init__(self, app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = self.open = self.consumers = 0
        consumer = app.store.consumer

        def counted(*given: Any, **named: Any) -> Any:
            made = consumer(*given, **named)
            self.consumers += 1
            for verb in ("on_due", "on_control"):
                monkeypatch.setattr(made, verb, self._counting(getattr(made, verb)))
            close = made.close

            async def closed() -> None:
                self.consumers -= 1
                await close()

            monkeypatch.setattr(made, "close", closed)
            return made

        monkeypatch.setattr(app.store, "consumer", counted)

    def _counting(self, register: Any) -> Any:
        async def registered(*given: Any) -> Any:
            handle = await register(*given)
            self.opened += 1
            self.open += 1
            close = handle.close

            class Counted:
                async def close(counted) -> None:
                    self.open -= 1
                    await close()

            return Counted()

        return registered


async def away(*_: Any, **__: Any) -> Any:
    raise StoreUnavailable("gone for a moment")


async def test_a_worker_that_fails_to_start_leaves_nothing_behind(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def work() -> str:
        return "done"

    ears = Ears(app, monkeypatch)
    threads = set(threading.enumerate())
    # The last of what is registered, so that all the others are there already.
    with monkeypatch.context() as broken:
        broken.setattr(app.store, "on_kv", away)
        with pytest.raises(StoreUnavailable):
            await app.worker(wait_for_store=0).run()
    assert ears.opened == 3
    assert (ears.open, ears.consumers) == (0, 0)
    assert await app.admin.workers() == []
    names = {thread.name for thread in set(threading.enumerate()) - threads}
    assert not any(name.startswith("headrace-heartbeat") for name in names)
    async with app.worker():
        assert await (await work.enqueue()).result(30) == "done"


async def test_a_worker_whose_thread_cannot_start_leaves_nothing_behind(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_: object) -> None:
        raise RuntimeError("can't start new thread")

    ears = Ears(app, monkeypatch)
    monkeypatch.setattr("headrace.worker.consume.heartbeat.Heartbeat.start", no_thread)
    with pytest.raises(RuntimeError, match="new thread"):
        await app.worker(queues=["default"]).run()
    assert (ears.open, ears.consumers) == (0, 0)
    assert await app.admin.workers() == []


async def test_a_worker_starts_while_the_store_is_not_ready_to_write(
    app: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def work() -> str:
        return "done"

    job = await work.enqueue()
    with monkeypatch.context() as broken:
        broken.setattr(app.store, "kv_set", away)
        broken.setattr(app.store, "control", away)
        async with app.worker():
            broken.undo()
            assert await job.result(30) == "done"


async def test_what_looks_after_topics_runs_only_if_there_are_any(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    def services() -> set[str]:
        names = {task.get_name() for task in asyncio.all_tasks()}
        return names & {"headrace-promoter", "headrace-trimmer", "headrace-autoscaler"}

    async with app.worker():
        assert services() == {"headrace-promoter"}
    orders = app.topic("orders", int)
    async with app.worker():
        assert services() == {"headrace-promoter", "headrace-trimmer"}

    @orders.subscribe("billing")
    async def bill(order: int) -> None: ...

    async with app.worker():
        assert services() == {"headrace-promoter", "headrace-trimmer", "headrace-autoscaler"}
