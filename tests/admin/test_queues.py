"""`app.admin.queues()` and `app.admin.queue()`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace import ConfigError, Headrace
from headrace.admin import QueueInfo
from headrace.core.clock import to_datetime
from tests.admin.burying import bury, envelope


async def test_queues_counts_jobs_by_state(app: Headrace) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    await send.enqueue()
    await send.enqueue()
    await send.options(delay=60).enqueue()
    await bury(app, [envelope()], queue="other")
    mail, other = await app.admin.queues()
    counts = QueueInfo("mail", waiting=2, running=0, scheduled=1, dead=0)
    assert replace(mail, oldest=None, age=None) == counts
    assert other.last_died is not None
    counts = QueueInfo("other", waiting=0, running=0, scheduled=0, dead=1)
    assert replace(other, last_died=None) == counts


async def test_a_queue_says_for_how_long_its_oldest_job_has_waited(app: Headrace) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    await send.options(delay=60).enqueue()
    assert (await app.admin.queue("mail")).oldest is None
    began = to_datetime(await app.store.time_ms())
    await send.enqueue()
    first = await app.admin.queue("mail")
    assert first.oldest is not None
    assert began <= first.oldest <= to_datetime(await app.store.time_ms())
    await send.enqueue()
    later = await app.admin.queue("mail")
    assert later.oldest == first.oldest
    assert first.age is not None
    assert later.age is not None
    assert 0 <= first.age <= later.age


async def test_a_queue_that_tasks_use_is_listed_before_anything_was_sent(app: Headrace) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    assert await app.admin.queues() == [QueueInfo("mail", 0, 0, 0, 0)]


async def test_one_queue_is_counted_even_if_nothing_was_sent_to_it(app: Headrace) -> None:
    assert await app.admin.queue("never") == QueueInfo("never", 0, 0, 0, 0)


async def test_a_paused_queue_and_paused_tasks_are_reported_each_by_itself(app: Headrace) -> None:
    admin = app.admin
    await admin.pause("mail")
    await admin.pause("mail", "send")
    await admin.pause("mail", "fetch")
    info = await admin.queue("mail")
    assert (info.paused, info.paused_tasks) == (True, ("fetch", "send"))
    await admin.resume("mail")
    await admin.resume("mail", "fetch")
    info = await admin.queue("mail")
    assert (info.paused, info.paused_tasks) == (False, ("send",))
    assert not (await admin.queue("other")).paused


async def test_a_queue_that_is_paused_is_listed_before_anything_was_sent(app: Headrace) -> None:
    admin = app.admin
    await admin.pause("mial")
    await admin.pause("data", "load")
    assert await admin.queues() == [
        QueueInfo("data", 0, 0, 0, 0, paused_tasks=("load",)),
        QueueInfo("mial", 0, 0, 0, 0, paused=True),
    ]
    await admin.resume("mial")
    assert [info.name for info in await admin.queues()] == ["data"]
    await admin.pause("mial")
    assert [info.name for info in await admin.queues()] == ["data", "mial"]


async def test_what_is_not_paused_may_be_resumed(app: Headrace) -> None:
    await app.admin.resume("never")
    await app.admin.resume("never", "heard")
    assert await app.admin.queue("never") == QueueInfo("never", 0, 0, 0, 0)


async def test_blocked_jobs_are_counted(app: Headrace) -> None:
    @app.task
    async def ship() -> None: ...

    for _ in range(3):
        await ship.options(key="one").enqueue()
    info = await app.admin.queue("default")
    assert (info.waiting, info.blocked) == (1, 2)


@pytest.mark.parametrize("name", ["a b", "", "a\nb", "x" * 201, "{a}"])
async def test_what_cannot_be_a_queue_is_refused(name: str) -> None:
    admin = Headrace("memory://").admin
    with pytest.raises(ConfigError, match="queue"):
        await admin.queue(name)
    with pytest.raises(ConfigError, match="queue"):
        await admin.pause(name)
    with pytest.raises(ConfigError, match="queue"):
        await admin.resume(name)
    with pytest.raises(ConfigError, match="task"):
        await admin.pause("mail", name)
