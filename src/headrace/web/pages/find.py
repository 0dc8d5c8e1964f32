"""Find a job or an event by its id."""

from __future__ import annotations

from dataclasses import replace

from headrace.core.queue_names import group_source, is_log
from headrace.errors import ConfigError, JobNotFound
from headrace.web.page import HtmlPage
from headrace.web.pages.job import job
from headrace.web.visit import Visit

_MISSING = "There is no job and no event with this id, or it has ended and is not kept."


async def find(visit: Visit) -> HtmlPage:
    """The job with this id; for an event in several groups, a choice of groups."""
    id = visit.query.get("id", "").strip()
    try:
        queues = await visit.admin.where(id) if id else []
    except (JobNotFound, ConfigError) as error:
        return await _not_there(visit, id, error)
    if len(queues) == 1:
        return await job(replace(visit, query={"id": id, **_in(queues[0])}))
    return _page(id, queues, "")


def _in(queue: str) -> dict[str, str]:
    """The query for a queue; empty for a topic's log, which is no queue."""
    return {} if is_log(queue) else {"queue": queue}


async def _not_there(visit: Visit, id: str, error: JobNotFound | ConfigError) -> HtmlPage:
    """What is known of an event that is in no group, or why nothing was found."""
    if isinstance(error, ConfigError):
        return _page(id, [], f"That is no id: {error}.", status=404)
    try:
        return _page(id, [], await visit.admin.why(id))
    except JobNotFound:
        return _page(id, [], _MISSING, status=404)


def _page(id: str, queues: list[str], sentence: str, status: int = 200) -> HtmlPage:
    places = [(queue, group_source(queue)) for queue in queues]
    context = {"id": id, "places": places, "sentence": sentence}
    return HtmlPage("find.html", "Find a job", context, live=None, status=status)
