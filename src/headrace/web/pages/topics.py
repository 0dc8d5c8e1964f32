"""Topics: the list, one with its groups and latest events, one group with its keys; and the actions
on groups. Pausing and resuming a group are actions of queues."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headrace.admin.topics.topic_admin import LOOKED_BACK
from headrace.core.queue_names import group_queue
from headrace.errors import GroupNotFound
from headrace.web.actions.form_actions import form_action
from headrace.web.filters import moment_of
from headrace.web.page import HtmlPage, PageError, interval
from headrace.web.pages.overview import charted, figures_in
from headrace.web.rendering.values import format_line
from headrace.web.visit import Visit

if TYPE_CHECKING:
    from headrace.admin import EventInfo, GroupInfo, TopicInfo

_IN_A_PAGE = 20
_EVENTS = 20
_KEYS = 100
_DEAD = 20


async def topics(visit: Visit) -> HtmlPage:
    """Topics by name, a page at a time."""
    search = visit.query.get("search", "").strip()
    wanted = search.casefold()
    names = [name for name in await visit.admin.topic_names() if wanted in name.casefold()]
    pages = max(1, -(-len(names) // _IN_A_PAGE))
    at = min(visit.number("page", 1, 10**6), pages)
    found = await visit.admin.topics(names[(at - 1) * _IN_A_PAGE : at * _IN_A_PAGE])
    context = {"topics": found, "search": search, "total": len(names), "at": at, "pages": pages}
    return HtmlPage("topics.html", "Topics", context, live=_interval(found), rows=found)


async def topic(visit: Visit) -> HtmlPage:
    """One topic."""
    info = await visit.admin.topic(visit.asked("name"))
    latest = await visit.admin.latest_events(info.name, _EVENTS)
    events = [(each, _data(each)) for each in latest]
    context = {"topic": info, "events": events}
    every = _interval([info], 2 * len(LOOKED_BACK) + 1)
    lists = {
        "groups": info.groups,
        "shards": info.shards,
        "events": [event for event, _ in events],
    }
    return HtmlPage("topic.html", f"Topic {info.name}", context, live=every, lists=lists)


async def group(visit: Visit) -> HtmlPage:
    """One group of a topic."""
    info = await visit.admin.topic(visit.asked("topic"))
    name = visit.asked("group")
    queue = group_queue(info.name, name)
    found = next((each for each in info.groups if each.name == name), None)
    if found is None:
        raise GroupNotFound(queue)
    _, charts = await charted(visit, queue)
    context: dict[str, Any] = {
        **charts,
        "topic": info,
        "group": found,
        "queue": queue,
        "keys": await _keys(visit, info, found),
        "most_keys": _KEYS,
        "dead": await _dead(visit, found, queue),
    }
    every = _interval([info], 5)
    dead = [job for job, _ in context["dead"]]
    lists = {"keys": context["keys"], "dead": dead, **figures_in(context)}
    title = f"Group {name} of {info.name}"
    return HtmlPage("group.html", title, context, live=every, lists=lists)


def _interval(found: Sequence[TopicInfo], reads: int = 0) -> float:
    """The counts take a few calls; the rest of the page takes `reads` for each shard."""
    return interval(12 + sum(reads * len(each.shards) for each in found), 3.0)


async def _keys(visit: Visit, topic: TopicInfo, group: GroupInfo) -> Sequence[object]:
    if not group.stopped_keys:
        return ()
    return await visit.admin.stopped_keys(topic.name, group.name, limit=_KEYS)


async def _dead(visit: Visit, group: GroupInfo, queue: str) -> list[tuple[object, str]]:
    if not group.dead:
        return []
    page = await visit.admin.dead_page(queue, limit=_DEAD)
    return [(job, format_line(job.listed_arguments)) for job in page.jobs]


def _data(event: EventInfo) -> str:
    return format_line(event.data)


def _group(visit: Visit) -> tuple[str, str]:
    return visit.asked("topic"), visit.asked("group")


def _place(visit: Visit) -> tuple[str | datetime, str]:
    """The position to move to, and its description."""
    to = visit.asked("to")
    if to == "start":
        return "start", "the oldest event kept, so that all events are handled again"
    if to == "new":
        return "new", "events published from now on, so that those that wait in the log are skipped"
    if to != "time":
        raise PageError(400, "Say where to: start, new, or a time.")
    moment = moment_of(visit.form.get("time", "").strip())
    if moment is None:
        raise PageError(400, "Say a time to go to, such as 2026-01-31T12:00.")
    return moment, f"events from {moment:%Y-%m-%d %H:%M:%S} UTC on"


def _move(visit: Visit) -> str:
    (topic, group), (_, words) = _group(visit), _place(visit)
    return f"Move group {group} of topic {topic} to {words}?"


@form_action("rewind", "Move the group", confirm=_move)
async def rewind(visit: Visit) -> str:
    (topic, group), (place, words) = _group(visit), _place(visit)
    await visit.admin.rewind(topic, group, place)
    return f"Moved group {group} of topic {topic} to {words}."


def _forget(visit: Visit) -> str:
    topic, group = _group(visit)
    return (
        f"Remove group {group} of topic {topic}, with all events that it has not handled and its "
        "dead ones? If code still declares it, it is created again, at its `begin`."
    )


@form_action("remove_group", "Remove the group", confirm=_forget)
async def remove_group(visit: Visit) -> str:
    topic, group = _group(visit)
    await visit.admin.remove_group(topic, group)
    return f"Removed group {group} of topic {topic}."


@form_action("free_key", "Free the key")
async def free_key(visit: Visit) -> str:
    topic, group = _group(visit)
    key = visit.form.get("key", "")
    if not await visit.admin.free_key(topic, group, key):
        return f"Key {key} is not stopped any more."
    return f"Freed key {key}: its events are handled again."
