"""Removes from the logs of topics what their retention no longer asks for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from headrace.store.contract import Store
from headrace.worker.queue_poller import POLL, QueuePoller

if TYPE_CHECKING:
    from headrace.client.topic.topic import Topic

log = logging.getLogger("headrace.worker")

_DAY_MS = 86_400_000
_UNITS = ((_DAY_MS, "days"), (3_600_000, "hours"), (60_000, "minutes"), (1000, "seconds"))
# Broadcasts read the log with nobody keeping their place: what they are about to read must stay.
_BROADCAST_MS = 60_000


class Trimmer(QueuePoller):
    """Looks at each log every few seconds, and again at once while there is more to remove. A group
    that was gone for so long that it holds the log back no longer is named once."""

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
        )


def _retention_ms(topic: Topic[Any]) -> int:
    least = _BROADCAST_MS if topic.broadcasts else 0
    return max(topic.options.retention_ms, least)


def _span(ms: int) -> str:
    """A length of time in the unit in which it is a small number, such as `7 days`."""
    length, unit = next(each for each in _UNITS if ms >= 2 * each[0])
    return f"{ms / length:.3g} {unit}"
