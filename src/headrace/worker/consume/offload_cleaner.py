"""Deletes payloads that were kept outside of the store, when their jobs have ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from headrace.client.send.offloading import Undeleted, discard
from headrace.client.task import Task
from headrace.client.topic.subscription import Subscription
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.job.envelope import id_and_task
from headrace.core.job.outcome import (
    Cancelled,
    Dead,
    Done,
    Held,
    Left,
    Outcome,
    Released,
    Retried,
)
from headrace.core.payload.offload import Offload
from headrace.store.contract import Settlement
from headrace.worker.consume.settler import Settled
from headrace.worker.logs.floods import Floods

log = logging.getLogger("headrace.worker")

# What is left then expires where it is kept.
_LAST = 5.0


class OffloadCleaner:
    """Passes on what is settled. The payload of a job that is done or cancelled is deleted once
    that is written; that of a dead job stays for its replay. If the worker dies in between, the
    payload is left over. Events are never deleted: other groups have them too."""

    def __init__(self, offloads: Mapping[bytes, Offload], settled: Settled) -> None:
        self._offloads = offloads
        self._settled = settled
        self.settled: Settled = self._clean_up if offloads else settled
        self._deleting: set[asyncio.Task[None]] = set()
        self._floods: Floods[Undeleted] = Floods(lambda count, latest: latest.log(count))

    def _clean_up(self, settlements: Sequence[Settlement], lost: Sequence[LeasedDelivery]) -> None:
        self._settled(settlements, lost)
        for item in settlements:
            if _needs_it_no_more(item.outcome) and item.delivery not in lost:
                self._clean(item.delivery)

    def _clean(self, delivery: LeasedDelivery) -> None:
        offload = self._offloads.get(id_and_task(delivery.envelope)[1])
        if offload is not None:
            task = asyncio.create_task(discard(offload, [delivery.envelope], self._failed))
            self._deleting.add(task)
            task.add_done_callback(self._deleting.discard)

    def _failed(self, undeleted: Undeleted) -> None:
        if self._floods.admit(undeleted.task, undeleted):
            undeleted.log()

    async def close(self) -> None:
        """Return when all that was begun is deleted, or that has taken long."""
        if self._deleting:
            _, slow = await asyncio.wait(self._deleting, timeout=_LAST)
            for task in slow:
                task.cancel()
            if slow:
                await asyncio.wait(slow, timeout=_LAST)
                log.warning(
                    "%d payloads may not be deleted: that took too long",
                    len(slow),
                    extra={"count": len(slow)},
                )
        self._floods.close()


def cleaner_of(tasks: Mapping[str, Task[..., Any]], settled: Settled) -> OffloadCleaner:
    """A cleaner of the payloads that these tasks have outside of the store."""
    found = {
        name.encode(): task.offload
        for task in tasks.values()
        if not isinstance(task, Subscription)
        if task.offload is not None and task.offload.delete is not None
        for name in task.declared.names
    }
    return OffloadCleaner(found, settled)


def _needs_it_no_more(outcome: Outcome) -> bool:
    """Whether the job can never run again."""
    match outcome:
        case Done() | Cancelled():
            return True
        case Dead() | Retried() | Held() | Released() | Left():
            return False
        case _:
            assert_never(outcome)
