"""The list of jobs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.admin import JobPage
from headrace.admin.app import named
from headrace.admin.pages import MOST_READS
from headrace.core.job.state import ENDED, State
from headrace.core.queue_names import group_source
from headrace.errors import ConfigError, GroupNotFound, TopicNotFound
from headrace.web.filters import OF_DEAD, OF_JOBS, PERIODS, STATES, FilterForm
from headrace.web.page import HtmlPage, interval
from headrace.web.rendering.values import arguments_line
from headrace.web.visit import Visit

if TYPE_CHECKING:
    from headrace.admin import JobSummary, StoppedKeyInfo
    from headrace.app import Headrace

_IN_A_PAGE = 50
_EXAMINED = 2_000
_COUNTED = 10**9
_STOPPED_KEYS = 1_000

Keyed = tuple[str, str]
"""A group's queue, and a key in it."""


async def jobs(visit: Visit) -> HtmlPage:
    """Jobs that match the filter, a page at a time. Examines at most `_EXAMINED` jobs for one."""
    asked = FilterForm.of(visit.query, OF_JOBS)
    found, problem = JobPage([], "", 0), ""
    stopped: dict[Keyed, StoppedKeyInfo] = {}
    try:
        found = await _found(visit, asked)
        stopped = await _stopped(visit, found.jobs)
    except (ConfigError, GroupNotFound, TopicNotFound) as error:
        problem = str(error)
    context = {
        **choices(visit.app),
        "asked": asked,
        "states": STATES,
        "rows": [(job, in_list(visit, job)) for job in found.jobs],
        "stopped": stopped,
        "pair": pair,
        "cursor": found.cursor,
        "looked": looked_before(visit) + found.looked,
        **_actions(asked),
        "problem": problem,
    }
    return HtmlPage("jobs.html", "Jobs", context, _interval(asked, found), rows=found.jobs)


def _interval(asked: FilterForm, found: JobPage) -> float:
    """A list takes one page for each queue and state in it, of three calls to the store; a search,
    up to `MOST_READS`."""
    is_search = asked.fields.keys() - {"queue", "state"}
    reads = MOST_READS if is_search else 2 + len({(job.queue, job.state) for job in found.jobs})
    return interval(6 + 3 * reads, 5.0)


def in_list(visit: Visit, job: JobSummary) -> str:
    """The beginning of its arguments; empty if they are not known."""
    if job.arguments is None:
        return ""
    lacks = job.lacks_first_argument
    return arguments_line(named(visit.app, job.task, job.arguments, lacks_first_argument=lacks))


def looked_before(visit: Visit) -> int:
    """How many jobs were examined for the pages before this one."""
    return visit.number("looked", 1, _COUNTED) if visit.query.get("looked") else 0


async def _found(visit: Visit, asked: FilterForm) -> JobPage:
    wanted = asked.parsed()
    return await visit.admin.jobs(
        wanted.queue,
        wanted.state,
        cursor=visit.query.get("cursor", ""),
        limit=_IN_A_PAGE,
        scan=_EXAMINED,
        **wanted.for_jobs,
    )


async def _stopped(visit: Visit, found: Sequence[JobSummary]) -> dict[Keyed, StoppedKeyInfo]:
    """Keys that dead events have stopped, behind which events among these wait. Asks once for each
    group, in each of its shards."""
    waiting = [
        job for job in found if job.key is not None and job.state in (State.BLOCKED, State.WAITING)
    ]
    sources = {job.queue: source for job in waiting if (source := group_source(job.queue))}
    stopped: dict[Keyed, StoppedKeyInfo] = {}
    for group, topic in sorted({source[:2] for source in sources.values()}):
        keys = await visit.admin.stopped_keys(topic, group, limit=_STOPPED_KEYS)
        here = [queue for queue, source in sources.items() if source[:2] == (group, topic)]
        stopped |= {(queue, each.key): each for queue in here for each in keys}
    return stopped


def _actions(asked: FilterForm) -> dict[str, object]:
    """What can be done to jobs in that state; to all that match, only with a filter."""
    if asked.get("state") in ENDED:
        return {"verb": "forget", "bulk_actions": (), "meant": asked}
    if asked.get("state") == State.DEAD:
        # The times on this page are when jobs were sent; actions go by when they died.
        narrow = asked.fields.keys() & {"queue", "task", "text"}
        timed = asked.fields.keys() & {"when", "from", "to"}
        verbs = (("replay_all", "Replay all that match"), ("purge_all", "Purge all that match"))
        actions = verbs if narrow and not timed else ()
        meant = FilterForm.of(asked.fields, OF_DEAD)
        return {"verb": "replay", "bulk_actions": actions, "meant": meant}
    cancel = (("cancel_all", "Cancel all that match"),)
    return {"verb": "cancel", "bulk_actions": cancel if asked.fields else (), "meant": asked}


def choices(app: Headrace) -> dict[str, object]:
    """What the fields of a filter suggest: what the app knows without asking the store."""
    groups = [
        f"{group}@{topic.name}" for topic in app.topics.values() for group in topic.subscriptions
    ]
    return {
        "queues": sorted({*app.queues, *groups}),
        "tasks": sorted(app.tasks),
        "periods": PERIODS,
    }


def pair(queue: str, id: str) -> str:
    """A job as the value of a checkbox: an event may be in several groups under one id."""
    return json.dumps([queue, id])
