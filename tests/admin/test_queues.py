"""`app.admin.queues()` and `app.admin.queue()`."""

from __future__ import annotations

import pytest

from headrace import ConfigError, Headrace
from headrace.admin import QueueInfo
from tests.admin.burying import bury, envelope


async def test_queues_counts_jobs_by_state(app: Headrace) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    await send.enqueue()
    await send.enqueue()
    await send.options(delay=60).enqueue()
    await bury(app, [envelope()], queue="other")
    assert await app.admin.queues() == [
        QueueInfo("mail", waiting=2, running=0, scheduled=1, dead=0),
        QueueInfo("other", waiting=0, running=0, scheduled=0, dead=1),
    ]


async def test_a_queue_that_tasks_use_is_listed_before_anything_was_sent(app: Headrace) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    assert await app.admin.queues() == [QueueInfo("mail", 0, 0, 0, 0)]


async def test_one_queue_is_counted_even_if_nothing_was_sent_to_it(app: Headrace) -> None:
    assert await app.admin.queue("never") == QueueInfo("never", 0, 0, 0, 0)


async def test_what_cannot_be_a_queue_is_refused(app: Headrace) -> None:
    with pytest.raises(ConfigError, match="queue"):
        await app.admin.queue("a b")
