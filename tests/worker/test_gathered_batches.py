"""Batch tasks whose jobs gather in the store, as their users see them."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import BatchError, Headrace, Retry
from headrace.errors import ConfigError


async def test_one_call_takes_the_jobs_of_one_key_and_what_fails_gathers_again() -> None:
    app = Headrace("memory://")
    calls: list[list[str]] = []
    retry = Retry(2, backoff=[0.01])

    @app.task(batch=3, batch_key=lambda text: text[0], max_wait=0.05, retry=retry)
    async def handle(texts: list[str]) -> None:
        calls.append(texts)
        if texts == ["a1", "a2", "a3"]:
            raise BatchError({0: ValueError("first"), 2: ValueError("last")})

    async with app, app.worker():
        jobs = await app.enqueue_many(handle.call(text) for text in ("a1", "b1", "a2", "a3"))
        for job in jobs:
            await job.result(timeout=10)
    assert ["a1", "a2", "a3"] in calls
    assert ["b1"] in calls
    of_a = sorted(text for call in calls for text in call if text[0] == "a")
    assert of_a == ["a1", "a1", "a2", "a3", "a3"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"grace": 1}, "grace needs batch="),
        ({"batch": 5, "batch_key": "user", "rate": "1/s"}, "rate does not go with batch_key"),
        ({"batch": 5, "grace": 1, "concurrency": 2}, "concurrency does not go with batch_key"),
        ({"batch": 5, "grace": 2, "max_wait": 1}, "make max_wait longer"),
        ({"batch": 5000, "batch_key": "items"}, "at most 1,000"),
        ({"batch": 5, "batch_key": "colour"}, "str has no 'colour'"),
        ({"batch": 5, "batch_key": 3}, "batch_key must be a function"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], sentence: str) -> None:
    def function(items: list[str]) -> None: ...

    with pytest.raises(ConfigError, match=sentence):
        Headrace("memory://").task(**options)(function)


async def test_keys_and_bounded_queues_do_not_go_with_gathering() -> None:
    app = Headrace("memory://")
    app.queue("narrow", concurrency=1)

    @app.task(batch=5, batch_key="items", queue="narrow")
    async def handle(items: list[str]) -> None: ...

    with pytest.raises(ConfigError, match="would never meet"):
        handle.options(key="a").call("x")
    async with app:
        with pytest.raises(ConfigError, match="concurrency of queue 'narrow'"):
            await handle.enqueue("x")


async def test_tasks_never_share_a_batch_whatever_their_names_are() -> None:
    app = Headrace("memory://")
    calls: list[tuple[str, str]] = []

    @app.task(name="mail:ann", batch=9, grace=0.05)
    async def all_mails(items: list[str]) -> None:
        calls.append(("mail:ann", " ".join(items)))

    @app.task(name="mail", batch=9, batch_key="items", max_wait=0.05)
    async def mail(items: list[str]) -> None:
        calls.append(("mail", " ".join(items)))

    @app.task(name="mail%3Aann", batch=9, grace=0.05)
    async def odd(items: list[str]) -> None:
        calls.append(("mail%3Aann", " ".join(items)))

    async with app, app.worker():
        for task in (all_mails, mail, odd):
            await task.enqueue("ann")
        jobs = [await task.enqueue("ann") for task in (all_mails, mail, odd)]
        for job in jobs:
            await job.result(timeout=10)
    assert {name for name, _ in calls} == {"mail:ann", "mail", "mail%3Aann"}
    assert all(set(items.split()) == {"ann"} for _, items in calls)
    assert sum(len(items.split()) for name, items in calls if name == "mail") == 2
