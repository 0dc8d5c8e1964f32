"""Logs what a worker takes over from others, and what it loses to them: one line for each queue."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from headrace.core.display import plural
from headrace.core.job.delivery import LeasedDelivery
from headrace.core.queue_names import group_source

log = logging.getLogger("headrace.worker")

# A line of the log must stay one: of a thousand jobs, the number says more than the names.
_NAMED = 5


def report_taken(deliveries: Sequence[LeasedDelivery]) -> dict[str, int]:
    """Log jobs that were taken over after a delivery without an outcome; how many of each queue."""
    counts = {}
    for queue, some in _by_queue(d for d in deliveries if d.count > 1).items():
        for delivery in some:
            delivery.identify()
        log.warning(
            "took over %s of queue %r, whose workers died, lost their lease, or dropped %s without "
            "settling: %s",
            *(_count(queue, some), queue, "it" if len(some) == 1 else "them", _names(some)),
            extra=_fields(queue, some),
        )
        counts[queue] = len(some)
    return counts


def report_lost(deliveries: Iterable[LeasedDelivery]) -> None:
    """Log jobs that other workers have now. Each is logged once: when its lease cannot be renewed,
    or when its outcome is refused."""
    new = [delivery for delivery in deliveries if not delivery.loss_logged]
    for queue, some in _by_queue(new).items():
        for delivery in some:
            delivery.loss_logged = True
            if not delivery.job_id:
                delivery.identify()
        log.warning(
            "lease lost: %s of queue %r went to another worker, or the queue was removed, and what "
            "happened here is dropped: %s",
            *(_count(queue, some), queue, _names(some)),
            extra=_fields(queue, some),
        )


def _by_queue(deliveries: Iterable[LeasedDelivery]) -> dict[str, list[LeasedDelivery]]:
    queues: dict[str, list[LeasedDelivery]] = {}
    for delivery in deliveries:
        queues.setdefault(delivery.queue, []).append(delivery)
    return queues


def _count(queue: str, deliveries: Sequence[LeasedDelivery]) -> str:
    return plural(len(deliveries), "event" if group_source(queue) else "job")


def _names(deliveries: Sequence[LeasedDelivery]) -> str:
    named = ", ".join(delivery.id_text for delivery in deliveries[:_NAMED])
    more = len(deliveries) - _NAMED
    return f"{named} and {more:,} more" if more > 0 else named


def _fields(queue: str, deliveries: Sequence[LeasedDelivery]) -> dict[str, object]:
    jobs = [delivery.id_text for delivery in deliveries[:_NAMED]]
    fields: dict[str, object] = {"queue": queue, "count": len(deliveries), "jobs": jobs}
    return {**fields, "job": jobs[0]} if len(jobs) == 1 else fields
