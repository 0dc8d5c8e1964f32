"""Removes from the logs of topics what their retention no longer asks for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from headrace.store.contract import Store
from headrace.worker.rounds import POLL, Rounds

if TYPE_CHECKING:
    from headrace.client.topic import Topic

log = logging.getLogger("headrace.worker")


class Trimmer(Rounds):
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
        self._options = {log: topic.options for topic in topics for log in topic.logs}
        super().__init__(list(self._options), monotonic)
        self._store = store
        self._gone: set[tuple[str, str]] = set()

    async def look(self, queue: str) -> float:
        options = self._options[queue]
        trimmed = await self._store.trim(
            queue, retention_ms=options.retention_ms, gone_after_ms=options.gone_after_ms
        )
        for group in trimmed.gone:
            self._report(group, queue, options.gone_after_ms)
        return 0.0 if trimmed.more else POLL

    def _report(self, group: str, queue: str, gone_after_ms: int) -> None:
        if (group, queue) in self._gone:
            return
        self._gone.add((group, queue))
        log.warning(
            "no worker has served group %r of %s for %.3g days: what it has not handled is not "
            "kept for it any longer; run a worker with it, or remove it with app.admin",
            group,
            queue,
            gone_after_ms / 86_400_000,
        )
