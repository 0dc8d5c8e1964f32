"""Removes old events from the logs of topics; warns of shards that nobody reads."""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.queue_names import log_source
from headrace.store.contract import Store
from headrace.worker.service import POLL, QueuePoller

if TYPE_CHECKING:
    from headrace.client.topic.topic import Topic
    from headrace.store.topics import GroupState

log = logging.getLogger("headrace.worker")

_DAY_MS = 86_400_000
_UNITS = ((_DAY_MS, "days"), (3_600_000, "hours"), (60_000, "minutes"), (1000, "seconds"))
# The store does not know how far broadcasts have read: what they are about to read must stay.
_BROADCAST_MS = 60_000


class Trimmer(QueuePoller):
    """Trims each log every few seconds, and again at once while there is more to remove. A group
    that was gone too long to hold back a log any more is reported once."""

    name = "trimmer"
    scope = "trim"

    def __init__(
        self,
        store: Store,
        topics: Iterable[Topic[Any]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._topics = {log: topic for topic in topics for log in topic.logs}
        super().__init__(list(self._topics), monotonic)
        self._store = store
        self._gone: set[tuple[str, str]] = set()

    async def add_topic(self, topic: Topic[Any]) -> None:
        """Trim one more topic."""
        for name in topic.logs:
            self._topics[name] = topic
            await self.add(name)

    async def poll(self, queue: str) -> float:
        topic = self._topics[queue]
        gone_after_ms = topic.options.gone_after_ms
        trimmed = await self._store.trim(
            queue, retention_ms=_retention_ms(topic), gone_after_ms=gone_after_ms
        )
        for group in trimmed.gone:
            self._report(group, queue, gone_after_ms)
        return 0.0 if trimmed.more else POLL

    def _report(self, group: str, queue: str, gone_after_ms: int) -> None:
        if (group, queue) in self._gone:
            return
        self._gone.add((group, queue))
        log.warning(
            "no worker has served group %r of %s for %s: what it has not handled is not "
            "kept for it any longer; run a worker with it, or remove it with app.admin",
            group,
            queue,
            _span(gone_after_ms),
            extra={"group": group, "queue": queue},
        )


def _retention_ms(topic: Topic[Any]) -> int:
    least = _BROADCAST_MS if topic.broadcasts else 0
    return max(topic.options.retention_ms, least)


def _span(ms: int) -> str:
    """A length of time in the unit in which it is a small number, such as `7 days`."""
    length, unit = next(each for each in _UNITS if ms >= 2 * each[0])
    return f"{ms / length:.3g} {unit}"


async def report_leftovers(store: Store, topics: Mapping[str, Topic[Any]]) -> None:
    """Warn of each topic with events in shards beyond the declared ones: workers neither read nor
    trim those."""
    left: dict[str, int] = {}
    logs = await store.logs() if topics else []
    for name in await _holding_anything(store, [log for log in logs if _is_beyond(log, topics)]):
        topic, shard = log_source(name)
        left[topic] = max(shard + 1, left.get(topic, 0))
    for topic, shards in left.items():
        log.warning(
            "topic %r is declared with shards=%d, but there are events in shards that it had "
            "before, which nobody reads: run a worker with shards=%d until headrace topics show "
            "%s has nothing in them",
            topic,
            topics[topic].options.shards,
            shards,
            # To be pasted into a shell.
            shlex.quote(topic),
            extra={"topic": topic},
        )


def _is_beyond(name: str, topics: Mapping[str, Topic[Any]]) -> bool:
    topic, shard = log_source(name)
    return topic in topics and shard >= topics[topic].options.shards


async def _holding_anything(store: Store, logs: Sequence[str]) -> list[str]:
    """Logs that hold events, or have a group with unsettled ones."""
    if not logs:
        return []
    lengths, groups = await store.lengths(logs), await store.groups(logs)
    return [log for log in logs if lengths[log] or any(map(_is_busy, groups[log]))]


def _is_busy(group: GroupState) -> bool:
    counts = group.counts
    return bool(counts.waiting + counts.running + counts.scheduled + counts.blocked)
