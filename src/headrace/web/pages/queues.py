"""Queues and groups: the list, one of them, pause and resume."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.admin.stats_sum import StatsSum
from headrace.core.queue_names import group_source
from headrace.web.actions.form_actions import form_action
from headrace.web.page import HtmlPage
from headrace.web.pages.overview import charted, figures_in
from headrace.web.stats_cache import Minutes
from headrace.web.visit import Visit

_IN_A_PAGE = 100


async def queues(visit: Visit) -> HtmlPage:
    """Queues whose name contains `search`, 100 at a time; about ten calls to the store."""
    search = visit.query.get("search", "")
    page = await visit.admin.queue_page(search or None, visit.query.get("after", ""), _IN_A_PAGE)
    workers = await visit.admin.workers()
    read = {name for worker in workers for name in worker.queues}
    context = {
        "rows": page.queues,
        "total": page.total,
        "cursor": page.cursor,
        "search": search,
        "minutes": await visit.dashboard.stats.of().minutes(2),
        "unread": {each.name for each in page.queues if each.waiting and each.name not in read},
    }
    return HtmlPage("queues.html", "Queues", context, live=3.0, rows=page.queues)


async def queue(visit: Visit) -> HtmlPage:
    """One queue, or a group such as `billing@orders`; about ten calls to the store."""
    name = visit.asked("name")
    info = await visit.admin.queue(name)
    minutes, charts = await charted(visit, name)
    workers = [each for each in await visit.admin.workers() if _reads(each.queues, name)]
    source = group_source(name)
    tasks = [] if source else _tasks(visit, name, minutes, info.paused_tasks)
    held = info.waiting + info.running + info.scheduled + info.blocked + info.dead
    context = {
        **charts,
        "queue": info,
        "group": source,
        "minutes": minutes,
        "lately": minutes.now,
        "tasks": tasks,
        "workers": workers,
        "is_unheard_of": not (held or info.paused or workers or tasks or source)
        and name not in visit.app.queues,
    }
    title = f"{'Group' if source else 'Queue'} {name[:100]}"
    lists = {"tasks": [_counts(each) for each in tasks], "workers": workers, **figures_in(context)}
    return HtmlPage("queue.html", title, context, live=3.0, lists=lists)


async def task(visit: Visit) -> HtmlPage:
    """One task in one queue; about five calls to the store."""
    queue, name = visit.asked("queue"), visit.asked("name")
    info = await visit.admin.queue(queue)
    minutes, charts = await charted(visit, queue, name)
    context = {
        **charts,
        "queue": info,
        "name": name,
        "sum": minutes.tasks.get(name, StatsSum()),
        "paused": name in info.paused_tasks,
    }
    lists = figures_in(context)
    return HtmlPage("task.html", f"Task {name[:100]}", context, live=3.0, lists=lists)


def _reads(queues: dict[str, int], name: str) -> bool:
    return any(each == name or each.startswith(f"{name}#") for each in queues)


def _tasks(
    visit: Visit, queue: str, minutes: Minutes, paused: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Tasks that were counted in the time shown, that the app declares, or that are paused."""
    declared = {name for name, task in visit.app.tasks.items() if task.declared.queue == queue}
    names = sorted({*minutes.tasks, *declared, *paused} - {""})
    nothing = StatsSum()
    return [
        {
            "name": name,
            "sum": minutes.tasks.get(name, nothing),
            "paused": name in paused,
            "declared": name in declared,
        }
        for name in names
    ]


def _counts(task: Mapping[str, Any]) -> dict[str, Any]:
    """What a row says of a task, with all its counts by name."""
    total: StatsSum = task["sum"]
    times = {f"run_{each}": total.ran(each) for each in (50, 95)}
    rest = {"paused": task["paused"], "counts": dict(total.counts)}
    return {"name": task["name"], **rest, **times, "wait_95": total.waited(95)}


@form_action("pause", "Pause")
async def pause(visit: Visit) -> str:
    """Pause a queue or a group, or one task in a queue."""
    queue, task = visit.asked("queue"), visit.form.get("task") or None
    await visit.admin.pause(queue, task)
    return f"Paused {_what(queue, task)}: running jobs go on, no others start."


@form_action("resume", "Resume")
async def resume(visit: Visit) -> str:
    queue, task = visit.asked("queue"), visit.form.get("task") or None
    await visit.admin.resume(queue, task)
    return f"Resumed {_what(queue, task)}."


def _what(queue: str, task: str | None) -> str:
    if task is not None:
        return f"task {task} in queue {queue}"
    return f"{'group' if group_source(queue) else 'queue'} {queue}"
