"""What is kept of queues is said by arguments, by variables, and for one queue."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from headrace import ConfigError, Headrace, Reject
from headrace.core.job.history_rules import HistoryBounds, QueueRetention
from headrace.store.values import Counts

DAY_MS = 86_400_000


def kept(app: Headrace, queue: str = "default") -> QueueRetention:
    """What the store of the app keeps of a queue."""
    return app.store.history_rules.queues.of(queue)


def test_what_is_kept_unless_someone_says_otherwise() -> None:
    usual = QueueRetention(HistoryBounds(100_000, 30 * DAY_MS), 100_000, 1_000)
    assert kept(Headrace("memory://")) == usual


def test_an_app_says_what_is_kept_and_a_queue_says_it_for_itself() -> None:
    app = Headrace("memory://", keep_dead=500, keep_events=50, keep_log=5)
    app.queue("mail", keep_dead=(10, timedelta(days=2)), keep_log=7)
    assert kept(app) == QueueRetention(HistoryBounds(500, 30 * DAY_MS), 50, 5)
    assert kept(app, "mail") == QueueRetention(HistoryBounds(10, 2 * DAY_MS), 50, 7)
    with pytest.raises(ConfigError, match="queue 'mail' is declared twice"):
        app.queue("mail", keep_events=3)


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        ("500", HistoryBounds(500, 30 * DAY_MS)),
        ("90d", HistoryBounds(100_000, 90 * DAY_MS)),
        ("1000000, 90d", HistoryBounds(1_000_000, 90 * DAY_MS)),
    ],
)
def test_variables_say_what_is_kept(
    text: str, dead: HistoryBounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_KEEP_DEAD", text)
    monkeypatch.setenv("HEADRACE_KEEP_EVENTS", "20")
    monkeypatch.setenv("HEADRACE_KEEP_LOG", "30")
    assert kept(Headrace("memory://")) == QueueRetention(dead, 20, 30)
    assert kept(Headrace("memory://", keep_log=4)).log == 4


@pytest.mark.parametrize("text", ["often", "5,6", "2h,5", "5,", "-3", "0", "5d5"])
def test_a_wrong_variable_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_KEEP_DEAD", text)
    with pytest.raises(ConfigError, match=r"HEADRACE_KEEP_DEAD='.*' is not a|keep_dead"):
        Headrace("memory://")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"keep_dead": 0}, "keep_dead cannot be 0: nobody could see or replay"),
        ({"keep_dead": (5, timedelta(0))}, "nobody could see or replay"),
        ({"keep_dead": (5, 6)}, "keep_dead must be a number of jobs, a timedelta, both"),
        ({"keep_dead": True}, "keep_dead must be a number of jobs"),
        ({"keep_dead": timedelta(days=-1)}, "keep_dead cannot be -1 day"),
        ({"keep_events": 0}, r"keep_events cannot be 0: Headrace\(events=False\) records none"),
        ({"keep_events": 1.5}, "keep_events must be a whole number of at least 1, not 1.5"),
        ({"keep_log": 0}, "keep_log must be a whole number of at least 1, not 0"),
    ],
)
def test_a_wrong_bound_is_refused_when_it_is_declared(given: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"^{problem}" if "keep" in problem else problem):
        Headrace("memory://", **given)
    with pytest.raises(ConfigError, match=f"queue 'mail': .*{problem}"):
        Headrace("memory://").queue("mail", **given)


async def test_a_worker_keeps_to_the_bounds_of_a_queue(store_url: str, namespace: str) -> None:
    app = Headrace(store_url, namespace=namespace, lease=0.3)
    app.queue("mail", keep_dead=2)

    @app.task(queue="mail", result_ttl=0)
    async def send(number: int) -> None:
        raise Reject(f"number {number}")

    async with app:
        await app.enqueue_many([send.call(number) for number in range(5)])
        async with app.worker(), asyncio.timeout(60):
            while await app.store.count("mail") != Counts(dead=2):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
