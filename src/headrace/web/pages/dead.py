"""Dead jobs: the list, and the form to edit and replay one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.admin import DeadGroup, DeadGroups, DeadPage
from headrace.admin.app import named
from headrace.admin.pages import MOST_READS
from headrace.core.job.state import Reason, State
from headrace.errors import ConfigError, GroupNotFound, JobNotFound, TopicNotFound
from headrace.web.actions.argument_fields import PREFIX, Field, fields_of
from headrace.web.filters import OF_DEAD, REASONS, FilterForm
from headrace.web.page import HtmlPage, PageError, interval
from headrace.web.pages.job import title_of
from headrace.web.pages.jobs import choices, looked_before, pair
from headrace.web.rendering.values import arguments_line
from headrace.web.visit import Visit

if TYPE_CHECKING:
    from headrace.admin import DeadInfo

_IN_A_PAGE = 50
_EXAMINED = 1_000
_GROUPS = 50


async def dead(visit: Visit) -> HtmlPage:
    """Dead jobs that match the filter, the latest first, a page at a time; or, by error, how many
    failed alike."""
    asked = FilterForm.of(visit.query, OF_DEAD)
    if visit.query.get("by") == "error":
        return await _by_error(visit, asked)
    found, problem = DeadPage([], "", 0), ""
    try:
        wanted = asked.parsed()
        found = await visit.admin.dead_page(
            wanted.queue,
            cursor=visit.query.get("cursor", ""),
            limit=_IN_A_PAGE,
            scan=_EXAMINED,
            **wanted.for_dead,
        )
    except (ConfigError, GroupNotFound, TopicNotFound) as error:
        problem = str(error)
    context = {
        **choices(visit.app),
        "asked": asked,
        "reasons": REASONS,
        "rows": [(job, _in_list(visit, job)) for job in found.jobs],
        "pair": pair,
        "cursor": found.cursor,
        "looked": looked_before(visit) + found.looked,
        "total": found.total,
        "problem": problem,
    }
    every = interval(6 + MOST_READS, 10.0)
    return HtmlPage("dead.html", "Dead jobs", context, every, rows=found.jobs)


async def _by_error(visit: Visit, asked: FilterForm) -> HtmlPage:
    found, problem = DeadGroups([], 0, 0, True), ""
    try:
        wanted = asked.parsed()
        found = await visit.admin.dead_groups(wanted.queue, scan=_EXAMINED, **wanted.for_dead)
    except (ConfigError, GroupNotFound, TopicNotFound) as error:
        problem = str(error)
    context = {
        **choices(visit.app),
        "asked": asked,
        "reasons": REASONS,
        "found": found,
        "rows": [(group, _conditions(asked, group)) for group in found.groups[:_GROUPS]],
        "problem": problem,
    }
    every = interval(6 + MOST_READS, 10.0)
    return HtmlPage("dead_groups.html", "Dead jobs", context, every, rows=found.groups)


def _conditions(asked: FilterForm, group: DeadGroup) -> dict[str, str]:
    """The filter of a group's jobs, among those that were asked for."""
    of_group = {
        "task": group.task or "",
        "reason": group.reason,
        "error_type": group.error_type,
        "place": group.place,
    }
    return {**asked.fields, **{name: text for name, text in of_group.items() if text}}


async def dead_job(visit: Visit) -> HtmlPage:
    """One dead job, with a field for each of its arguments."""
    job = await dead_one(visit, visit.asked("id"), visit.query.get("queue"))
    return form_page(visit, job, fields_of(visit, job))


async def dead_one(visit: Visit, id: str, queue: str | None) -> DeadInfo:
    """A dead job; `PageError` if it is not dead any more, as after a replay."""
    try:
        return await visit.admin.dead_job(id, queue)
    except JobNotFound:
        state = (await visit.admin.job(id, queue)).state
    raise PageError(404, f"Job {id} is not dead any more: it is {state}.")


def form_page(visit: Visit, job: DeadInfo, fields: list[Field], problem: str = "") -> HtmlPage:
    """The form; with a `problem`, as it was filled in. Never live: what someone types must stay."""
    context = {
        "job": job,
        "fields": fields,
        "problem": problem,
        "obstacle": _obstacle(visit, job),
        "prefix": PREFIX,
    }
    title = f"Edit {title_of(job.task, State.DEAD, newer_format=job.newer_format)}"
    return HtmlPage("dead_job.html", title, context, live=None, status=422 if problem else 200)


def _obstacle(visit: Visit, job: DeadInfo) -> str:
    """Why its arguments cannot be edited; empty if they can."""
    if job.event is not None:
        return "Events cannot be edited: other groups have them too."
    if job.newer_format:
        return "Its arguments cannot be edited here: a newer version of Headrace sent it."
    if job.task not in visit.app.tasks:
        return "Its arguments cannot be edited here: this app has no such task."
    if job.reason == Reason.PARENT_FAILED:
        return "It never began, because a job that it waited for failed: edit that one."
    if job.lacks_first_argument and not fields_of(visit, job):
        return "Its argument cannot be edited: it comes from the jobs that it waited for."
    return ""


def _in_list(visit: Visit, job: DeadInfo) -> str:
    """The beginning of its arguments, by name where the task is known; of an event, its data."""
    lacks = job.lacks_first_argument
    given = named(visit.app, job.task, job.listed_arguments, lacks_first_argument=lacks)
    return arguments_line(given)
