"""Listeners can do no harm, and cost nothing where there are none."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from headrace import ConfigError, Headrace, WorkerEvent
from headrace.client.ends.listener import listener_of
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.outcome import DONE, Dead
from headrace.store.contract import Settlement
from headrace.worker.listeners import Listeners, listeners_of
from tests.worker.states import until


async def test_listeners_that_raise_or_hang_harm_nobody(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []
    released = threading.Event()

    @app.task
    async def work(number: int) -> int:
        return number

    @app.on("done")
    def raises(event: WorkerEvent) -> None:
        raise RuntimeError("a bad listener")

    @app.on("done")
    async def hangs(event: WorkerEvent) -> None:
        await asyncio.sleep(600)

    @app.on("done")
    def blocks(event: WorkerEvent) -> None:
        released.wait(60)

    @app.on("done")
    def note(event: WorkerEvent) -> None:
        heard.append(event.id)

    async with app.worker():
        jobs = await app.enqueue_many(work.call(number) for number in range(3))
        assert [await job.result(30) for job in jobs] == [0, 1, 2]
        await until(lambda: len(heard) == 3)
    released.set()
    assert sorted(heard) == sorted(job.id for job in jobs)
    said = [text for text in caplog.messages if text.startswith("the listener")]
    assert len([text for text in said if "a bad listener" in text]) == 1
    assert [text for text in said if "hangs" in text and "has missed 3 events" in text]
    assert [text for text in said if "blocks" in text and "has missed 2 events" in text]


async def test_what_a_listener_cannot_keep_up_with_is_counted_and_the_others_hear_all(
    caplog: pytest.LogCaptureFixture,
) -> None:
    released = threading.Event()
    heard: list[str] = []

    def slow(event: WorkerEvent) -> None:
        released.wait(60)

    async def quick(event: WorkerEvent) -> None:
        heard.append(event.id)

    make = listener_of("done", None)
    listeners = Listeners([make(slow), make(quick)], "worker")
    settled = listeners.after(lambda settlements, lost: None)
    delivery = LeasedDelivery("default", 0, b"")
    for _ in range(11):
        settled([Settlement(delivery, DONE)] * 100, [])
        # So that the quick one can.
        await asyncio.sleep(0)
    await until(lambda: len(heard) == 1100)
    assert "it misses events; logged once" in caplog.text
    released.set()
    await listeners.close()
    (missed,) = [text for text in caplog.messages if "has missed" in text]
    assert "slow" in missed


async def test_a_lost_outcome_is_not_heard_and_the_outcome_comes_first() -> None:
    order: list[Any] = []
    listeners = Listeners([listener_of("dead", None)(order.append)], "worker")
    settled = listeners.after(lambda settlements, lost: order.append("written"))
    lost, mine = (LeasedDelivery("default", receipt, b"") for receipt in (1, 2))
    dead = Dead("rejected", b"")
    settled([Settlement(lost, dead), Settlement(mine, dead)], [lost])
    await listeners.close()
    assert [each if each == "written" else each.id for each in order] == ["written", mine.id_text]


async def test_without_listeners_there_is_nothing_to_call(app: Headrace) -> None:
    assert listeners_of(app, "worker") is None
    app.on("done")(print)
    assert listeners_of(app, "worker") is not None


async def test_a_task_that_nothing_declares_is_named_when_the_worker_starts(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    def work() -> None: ...

    app.on("done", task=[work, "wrok"])(print)
    with caplog.at_level(logging.WARNING):
        listeners_of(app, "worker")
    assert caplog.messages == ["app.on('done', task='wrok'): this program declares no such task"]


@pytest.mark.parametrize(
    ("kind", "task", "function", "sentence"),
    [
        ("finished", None, print, "takes one of done, dead, retried, cancelled, stalled, not 'fin"),
        ("done", 5, print, "task must be a task, its name, or a list of those, not 5"),
        ("done", [len], print, "task must be a task, its name, or a list of those, not <built-in"),
        ("done", [], print, "task is an empty list; leave it out for all tasks"),
        ("dead", None, "log", "goes on a function, not on 'log'"),
        ("dead", None, lambda: None, "with one argument, a WorkerEvent"),
    ],
)
def test_what_is_no_listener_is_refused(kind: Any, task: Any, function: Any, sentence: str) -> None:
    app = Headrace("memory://")
    with pytest.raises(ConfigError, match=f"app.on.*{sentence}"):
        app.on(kind, task=task)(function)
    assert not app.listeners


def test_a_subscription_to_several_topics_is_asked_for_by_its_groups() -> None:
    app = Headrace("memory://")

    @app.subscribe("orders.*", "billing")
    async def bill(event: bytes) -> None: ...

    with pytest.raises(ConfigError, match="stands for several topics; name each group"):
        app.on("done", task=bill)
