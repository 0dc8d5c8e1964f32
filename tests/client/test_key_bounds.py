"""A job whose key has enough jobs that wait is refused, and its sender hears which key it is."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from headrace import ConfigError, Headrace, KeyFull, QueueFull, Task, chain
from headrace.store.values import Counts


def exporting(app: Headrace) -> Task[[int], Coroutine[Any, Any, None]]:
    @app.task(queue="exports", result_ttl=0)
    async def export(number: int) -> None: ...

    return export


async def test_a_full_key_refuses_and_names_itself(store_url: str, namespace: str) -> None:
    app = Headrace(store_url, namespace=namespace, max_pending_per_key=2)
    export = exporting(app)
    async with app:
        calls = [export.options(key="ada").call(number) for number in range(5)]
        others = [export.options(key="bob").call(1), export.call(2)]
        with pytest.raises(KeyFull, match="2 jobs of key 'ada' in queue 'exports' wait") as caught:
            await app.enqueue_many([*calls, *others])
        full = caught.value
        assert (full.queue, full.key, full.max_pending_per_key) == ("exports", "ada", 2)
        assert len(full.job_ids) == 2
        assert full.retryable
        assert await app.store.count("exports") == Counts(waiting=3, blocked=2)
        with pytest.raises(QueueFull, match=r"job [0-9a-f-]+ was not stored"):
            await export.options(key="ada").enqueue(9)
        with pytest.raises(KeyFull):
            await app.enqueue(chain(export.options(key="ada").call(9), export.call(10)))
        assert await app.store.count("exports") == Counts(waiting=3, blocked=2)


async def test_a_queue_says_it_for_itself_and_other_overflows_do_not_concern_it(
    store_url: str, namespace: str
) -> None:
    app = Headrace(store_url, namespace=namespace, max_pending_per_key=50)
    app.queue("exports", max_length=3, overflow="block", max_pending_per_key=1)
    export = exporting(app)
    async with app:
        for number in (1, 2):
            await export.options(key="ada").enqueue(number)
        with pytest.raises(KeyFull, match="1 job of key 'ada'"):
            await export.options(key="ada").enqueue(3)
        await export.enqueue(4)
        assert await app.store.count("exports") == Counts(waiting=2, blocked=1)


def test_a_wrong_bound_of_keys_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"^max_pending_per_key must be a whole number"):
        Headrace("memory://", max_pending_per_key=0)
    with pytest.raises(ConfigError, match="queue 'mail': max_pending_per_key must be a whole"):
        Headrace("memory://").queue("mail", max_pending_per_key=True)
    monkeypatch.setenv("HEADRACE_MAX_PENDING_PER_KEY", "few")
    with pytest.raises(
        ConfigError, match="HEADRACE_MAX_PENDING_PER_KEY='few' is not a whole number"
    ):
        Headrace("memory://")
    monkeypatch.setenv("HEADRACE_MAX_PENDING_PER_KEY", "7")
    assert Headrace("memory://").max_pending_per_key == 7
