"""Whether the worker that holds a job is still heard of, and who takes over if it is not."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from headrace.admin.workers import read_workers
from headrace.core.clock import to_datetime
from headrace.core.display import length_text
from headrace.store.contract import reclaim_every

if TYPE_CHECKING:
    from headrace.store.contract import Store

_BEAT = 2.0
"""Seconds between two records of a worker; fewer if its lease is short."""
SILENT_AFTER = 5.0
"""More than two beats: one may be late."""


def worker_of(consumer: str) -> str:
    """The worker of a consumer. The second of a subscription is named `worker+2`."""
    name, plus, number = consumer.rpartition("+")
    return name if plus and number.isdigit() else consumer


async def silence_of(
    store: Store, queue: str, worker: str, *, where: str, noun: str, lease: float
) -> str:
    """That the worker is not heard of, and who takes the job over, as the end of a sentence; empty
    if it is heard of. `lease` is in seconds, as this app has it: the worker may have another."""
    infos, now_ms = await read_workers(store), await store.time_ms()
    silent = next(
        (silent_for(info.last_beat, now_ms) for info in infos if info.name == worker), None
    )
    if silent is None:
        begin = "that worker is not heard of any more: "
    elif silent < SILENT_AFTER:
        return ""
    else:
        begin = f"that worker has not been heard of for {length_text(silent)}: if it is dead, "
    others = [info for info in infos if info.name != worker and queue in info.queues]
    if all(silent_for(info.last_beat, now_ms) >= SILENT_AFTER for info in others):
        return f"{begin}the {noun} waits for another worker that reads {where}, and none is running"
    end = f"{begin}another takes the {noun} over when its lease is over"
    # It may have renewed the lease until it was due to be heard of again.
    left = _BEAT + lease + reclaim_every(lease) - (silent or 0.0)
    return end if silent is None or left <= 0 else f"{end}, within {length_text(left)}"


def silent_for(last_beat: datetime, now_ms: int) -> float:
    """Seconds since the last beat of a worker."""
    return (to_datetime(now_ms) - last_beat).total_seconds()
