"""The overview: queues, workers, charts and the latest dead jobs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.core.queue_names import group_source
from headrace.web.page import HtmlPage, PageError, Rows
from headrace.web.rendering.charts import SPAN_LABELS, SPANS, charts_of, figures_of
from headrace.web.stats_cache import QUEUES_COUNTED
from headrace.web.visit import Visit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from headrace.admin import GroupCounts, QueueInfo, QueuePage, WorkerInfo
    from headrace.web.stats_cache import Minutes

Held: TypeAlias = "Sequence[QueueInfo | GroupCounts]"

_QUEUES_SHOWN = 100
_FAILURES = 6
_STOPPED_SHOWN = 5


async def overview(visit: Visit) -> HtmlPage:
    """The overview; makes at most nineteen calls to the store."""
    page = await visit.admin.queue_page(limit=QUEUES_COUNTED)
    minutes, charts = await charted(visit)
    workers = await visit.admin.workers()
    groups = await visit.admin.group_counts()
    held: Held = [*page.queues, *groups]
    stopped = _stopped(groups)
    totals = _totals(held, page, minutes)
    context = {
        **charts,
        "queues": page,
        "rows": _fullest(page.queues),
        "minutes": minutes,
        "totals": totals,
        "is_idle": not workers and not any(totals.values()) and not any(minutes.tasks),
        **_capacity(workers),
        "unread": _unread(page.queues, workers),
        "in_groups": sum(each.total for each in groups),
        "stopped": stopped[:_STOPPED_SHOWN],
        "more_stopped": len(stopped[_STOPPED_SHOWN:]),
        # The latest dead jobs are in the queues in which one died last.
        "failures": await visit.admin.latest_dead(_died_last(held, _FAILURES), limit=_FAILURES),
    }
    return HtmlPage("overview.html", "Overview", context, live=4.0, lists=_lists(context, stopped))


def _lists(context: Mapping[str, Any], stopped: Rows) -> dict[str, Rows]:
    shown = {"queues": "rows", "workers": "workers", "dead": "failures"}
    lists = {name: context[field] for name, field in shown.items()}
    return {**lists, "stopped": stopped, **figures_in(context)}


async def charted(
    visit: Visit, queue: str | None = None, task: str | None = None
) -> tuple[Minutes, dict[str, Any]]:
    """The context of `charts.html`, for one queue or all, and for one task or all of it."""
    span = visit.query.get("span") or "1h"
    if span not in SPANS:
        raise PageError(400, f"There is no span {span!r}: say {', '.join(SPANS)}.")
    count, step = SPANS[span]
    minutes = await visit.dashboard.stats.of(queue).minutes(count, task)
    return minutes, {
        "charts": charts_of(minutes, step),
        "span": span,
        "spans": SPAN_LABELS,
        "span_label": dict(SPAN_LABELS)[span],
    }


def figures_in(context: Mapping[str, Any]) -> dict[str, Rows]:
    """The list of what the charts of a page show."""
    return {"figures": partial(figures_of, context["charts"])}


@dataclass(frozen=True, slots=True)
class StoppedGroup:
    """A group with stopped keys, in all its shards."""

    topic: str
    group: str
    keys: int
    events: int
    since: datetime | None

    @property
    def name(self) -> str:
        return f"{self.group}@{self.topic}"


def _stopped(groups: Sequence[GroupCounts]) -> list[StoppedGroup]:
    """Groups with stopped keys, those with the most blocked events first."""
    shards: dict[tuple[str, str], list[GroupCounts]] = {}
    for each in groups:
        if each.stopped_keys and (source := group_source(each.name)):
            shards.setdefault((source.topic, source.group), []).append(each)
    found = [
        StoppedGroup(
            *name,
            sum(each.stopped_keys for each in parts),
            sum(each.stopped_events for each in parts),
            min((each.stopped_since for each in parts if each.stopped_since), default=None),
        )
        for name, parts in shards.items()
    ]
    return sorted(found, key=lambda group: -group.events)


def _fullest(queues: list[QueueInfo]) -> list[QueueInfo]:
    """The queues with the most jobs, sorted by name so that rows keep their places."""

    def fullness(queue: QueueInfo) -> int:
        return queue.waiting + queue.running + queue.dead

    return sorted(sorted(queues, key=fullness)[-_QUEUES_SHOWN:], key=lambda queue: queue.name)


def _died_last(held: Held, most: int) -> list[str]:
    """Queues and groups in which a job died last."""
    died = [(each.last_died, each.name) for each in held if each.last_died is not None]
    return [name for _, name in sorted(died, reverse=True)[:most]]


def _totals(held: Held, page: QueuePage, minutes: Minutes) -> dict[str, Any]:
    now = minutes.now
    return {
        "waiting": sum(each.waiting for each in held),
        "scheduled": sum(each.scheduled + each.blocked for each in held),
        "running": sum(each.running for each in held),
        "dead": sum(each.dead for each in held),
        "paused": sum(queue.paused for queue in page.queues),
        "oldest": max((queue.age for queue in page.queues if queue.age is not None), default=None),
        "done": minutes.rate(now.done),
        "failed": minutes.rate(now.failed),
    }


def _capacity(workers: list[WorkerInfo]) -> dict[str, Any]:
    return {
        "workers": workers,
        "slots": sum(worker.concurrency for worker in workers),
        "held": sum(worker.running for worker in workers),
        "hosts": len({worker.host for worker in workers}),
    }


def _unread(queues: list[QueueInfo], workers: list[WorkerInfo]) -> set[str]:
    """Queues with jobs that wait although no worker reads them."""
    read = {name for worker in workers for name in worker.queues}
    return {queue.name for queue in queues if queue.waiting and queue.name not in read}
