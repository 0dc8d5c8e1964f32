"""The overview: how all is, on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.web.charts import SPAN_LABELS, SPANS, charts_of
from headrace.web.page import Page, Refusal, Visit

if TYPE_CHECKING:
    from headrace.admin import DeadInfo, QueueInfo, QueuePage, WorkerInfo
    from headrace.web.ledger import Minutes

_QUEUES_COUNTED = 1_000
_QUEUES_SHOWN = 100
_FAILURES = 8
_QUEUES_LOOKED_INTO = 3


async def overview(visit: Visit) -> Page:
    """Some fifteen calls to the store, however much there is."""
    page = await visit.admin.queue_page(limit=_QUEUES_COUNTED)
    minutes, charts = await charted(visit)
    workers = await visit.admin.workers()
    context = {
        **charts,
        "queues": page,
        "rows": _fullest(page.queues),
        "minutes": minutes,
        "totals": _totals(page, minutes),
        "workers": workers,
        "places": sum(worker.concurrency for worker in workers),
        "held": sum(worker.running for worker in workers),
        "hosts": len({worker.host for worker in workers}),
        "unread": _unread(page.queues, workers),
        "failures": await _failures(visit, page.queues),
    }
    return Page("overview.html", "Overview", context, live=4.0)


async def charted(visit: Visit, queue: str | None = None) -> tuple[Minutes, dict[str, Any]]:
    """What `charts.html` shows, of all queues or of one."""
    span = visit.query.get("span") or "1h"
    if span not in SPANS:
        raise Refusal(400, f"There is no span {span!r}: say {', '.join(SPANS)}.")
    count, step = SPANS[span]
    minutes = await visit.board.ledgers.of(queue).minutes(count)
    return minutes, {
        "charts": charts_of(minutes, step),
        "span": span,
        "spans": SPAN_LABELS,
        "span_label": dict(SPAN_LABELS)[span],
    }


def _fullest(queues: list[QueueInfo]) -> list[QueueInfo]:
    """Those with the most jobs; by name, so that rows stay where they are."""

    def fullness(queue: QueueInfo) -> int:
        return queue.waiting + queue.running + queue.dead

    return sorted(sorted(queues, key=fullness)[-_QUEUES_SHOWN:], key=lambda queue: queue.name)


async def _failures(visit: Visit, queues: list[QueueInfo]) -> list[DeadInfo]:
    """The latest of the queues that have the most dead jobs."""
    worst = sorted((each for each in queues if each.dead), key=lambda each: -each.dead)
    found: list[DeadInfo] = []
    for each in worst[:_QUEUES_LOOKED_INTO]:
        page = await visit.admin.dead_page(each.name, limit=_FAILURES, scan=_FAILURES)
        found += page.jobs
    return sorted(found, key=lambda job: job.died, reverse=True)[:_FAILURES]


def _totals(page: QueuePage, minutes: Minutes) -> dict[str, Any]:
    now = minutes.now
    return {
        "waiting": sum(queue.waiting for queue in page.queues),
        "scheduled": sum(queue.scheduled + queue.blocked for queue in page.queues),
        "running": sum(queue.running for queue in page.queues),
        "dead": sum(queue.dead for queue in page.queues),
        "paused": sum(queue.paused for queue in page.queues),
        "oldest": max((queue.age for queue in page.queues if queue.age is not None), default=None),
        "done": minutes.rate(now.done),
        "failed": minutes.rate(now.failed),
    }


def _unread(queues: list[QueueInfo], workers: list[WorkerInfo]) -> set[str]:
    """Queues with jobs that wait although no worker reads them."""
    read = {name for worker in workers for name in worker.queues}
    return {queue.name for queue in queues if queue.waiting and queue.name not in read}
