"""One job: its page, its parts to download, and finding it by id."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from headrace.admin.app import named
from headrace.core.job.state import ENDED, Reason, State
from headrace.core.queue_names import group_source, is_log
from headrace.errors import ConfigError, JobNotFound
from headrace.web.page import HtmlPage, PageError, interval
from headrace.web.rendering.flow_graph import HEIGHT, WIDTH, draw_flow
from headrace.web.rendering.formatting import clip, visible, with_links
from headrace.web.rendering.gantt import gantt_of_attempts, gantt_of_flow
from headrace.web.rendering.values import format_value, tail
from headrace.web.visit import Visit

if TYPE_CHECKING:
    from starlette.requests import Request

    from headrace.admin import FlowInfo, FlowJobInfo, JobDetail
    from headrace.admin.jobs.flow_survey import FlowJobReplay

_PARTS = ("arguments", "result", "received", "log")
_MISSING = "There is no job and no event with this id, or it has ended and is not kept."
# Characters of all log lines that a page shows.
_LOG = 100_000
# Calls to the store for one rendering; for a waiting job, its position in the queue is read too.
_CALLS, _CALLS_WAITING = 10, 20


async def job(visit: Visit) -> HtmlPage:
    """One job, or one event in one group."""
    id, queue = visit.asked("id"), visit.query.get("queue")
    detail = await visit.admin.job(id, queue)
    # An event that is not due yet is in its topic's log, which is not a queue.
    place = None if is_log(detail.queue) else detail.queue
    sentence = await visit.admin.why(id, place)
    flow = await visit.admin.flow(id, place, times=True) if detail.event is None else None
    shown, cut = log_of(detail)
    context = {
        "job": detail,
        "place": place,
        "topic": detail.event.topic if detail.event else None,
        "group": group_source(detail.queue),
        "why": with_links(clip(sentence, 2_000), partial(_address, visit, place, detail, flow)),
        "arguments": format_value(arguments_of(visit, detail)),
        "result": format_value(detail.result),
        "lost_result": None if detail.lost_result is None else format_value(detail.lost_result),
        "received": format_value(received_of(detail)),
        "nothing_received": _nothing_received(detail),
        "log": shown,
        "log_cut": cut,
        "setbacks": _setbacks(detail, flow),
        **_drawing(flow),
        "attempts_gantt": gantt_of_attempts(detail),
        "tail": tail,
        "editable": detail.task in visit.app.tasks and detail.reason != Reason.PARENT_FAILED,
    }
    title = title_of(detail.task, detail.state, newer_format=detail.newer_format)
    every = _interval(visit, detail, flow)
    lists = {"attempts": detail.attempts, "flow": flow.jobs if flow is not None else ()}
    return HtmlPage("job.html", title, context, every, lists=lists)


def _interval(visit: Visit, detail: JobDetail, flow: FlowInfo | None) -> float:
    calls = _CALLS if detail.state in (State.RUNNING, State.DONE) else _CALLS_WAITING
    calls += 4 * len({each.queue for each in flow.jobs}) if flow is not None else 0
    if (source := group_source(detail.queue)) is not None:
        declared = visit.app.topics.get(source.topic)
        # Each of the questions asks for the group in all shards.
        calls += 3 * (1 + len(declared.logs) if declared else 8)
    return interval(calls, 10.0 if detail.state.final else 2.0)


def title_of(task: str | None, state: State, *, newer_format: bool = False) -> str:
    """The title of a job's page."""
    if task is None:
        if state in ENDED:
            return f"A job that is {state}"
        return "A job of a newer version" if newer_format else "A job that cannot be read"
    return f"Event of {clip(task[1:], 80)}" if task.startswith("@") else clip(task, 80)


def arguments_of(visit: Visit, detail: JobDetail) -> Any:
    """The redacted arguments, by name where the task is known; of an event, its data."""
    if detail.event is not None:
        return detail.event.data
    return named(
        visit.app, detail.task, detail.arguments, lacks_first_argument=detail.lacks_first_argument
    )


def received_of(detail: JobDetail) -> Any:
    """What came from the jobs before it: one value, or all of them."""
    values = detail.received or ()
    return values[0] if len(values) == 1 else list(values)


def _nothing_received(detail: JobDetail) -> str:
    """What stands in place of what came from the jobs before it, if that is not there."""
    if detail.state is State.BLOCKED and detail.waits_for == "flow":
        return "Nothing yet."
    if detail.reason == Reason.PARENT_FAILED:
        return "Nothing yet: a job that it waited for failed."
    if detail.state is State.CANCELLED and not detail.attempts:
        return "Nothing, or it is not kept: it never ran."
    return "Not kept, or too large to show."


def log_of(detail: JobDetail) -> tuple[list[str], bool]:
    """The last lines of the log, and whether earlier ones were left out."""
    lines: list[str] = []
    room = _LOG
    for line in reversed(detail.log):
        lines.append(clip(line, 1_000))
        room -= len(lines[-1])
        if room < 0:
            break
    return lines[::-1], len(lines) < len(detail.log)


def _address(
    visit: Visit, place: str | None, detail: JobDetail, flow: FlowInfo | None, id: str
) -> str:
    """The page of a job that the sentence names: of an event, in the same group."""
    queues = {each.id: each.queue for each in flow.jobs} if flow is not None else {}
    if detail.cause is not None:
        queues[detail.cause.id] = detail.cause.queue
    return visit.url("/job", id=id, queue=queues.get(id) or (place if detail.event else None))


def _setbacks(detail: JobDetail, flow: FlowInfo | None) -> list[tuple[FlowJobInfo, FlowJobReplay]]:
    """Replays of the jobs that it waited for, in order: until each it was dead with them. Only
    those before it ran itself."""
    before = flow.before(detail.id) if flow is not None else []
    ran = detail.attempts[0].started if detail.attempts else None
    found = [
        (job, replay) for job in before for replay in job.replays if ran is None or replay.at <= ran
    ]
    return sorted(found, key=lambda each: each[1].at)


def _drawing(flow: FlowInfo | None) -> Mapping[str, Any]:
    if flow is None or len(flow.jobs) < 2:
        return {"flow": None, "flow_gantt": None}
    return {
        "flow": flow,
        "graph": draw_flow(flow),
        "node_width": WIDTH,
        "node_height": HEIGHT,
        "flow_gantt": gantt_of_flow(flow, datetime.now(UTC)),
    }


async def download(visit: Visit, request: Request) -> Response:
    """One part of a job as a text file, as an attachment: browsers must not render it."""
    part = visit.asked("part")
    if part not in _PARTS:
        raise PageError(404, f"A job has no part {clip(part)}: there are {', '.join(_PARTS)}.")
    detail = await visit.admin.job(visit.asked("id"), visit.query.get("queue"))
    headers = {"Content-Disposition": f'attachment; filename="{part}.txt"'}
    text = await _text(visit, detail, part)
    return Response(text.encode(), media_type="text/plain", headers=headers)


async def _text(visit: Visit, detail: JobDetail, part: str) -> str:
    if part == "log":
        return "".join(f"{visible(line)}\n" for line in detail.log)
    value = detail.result
    if part != "result":
        value = arguments_of(visit, detail) if part == "arguments" else received_of(detail)
    # In a thread: megabytes take seconds, and would block the loop.
    return (await asyncio.to_thread(format_value, value, None)).text


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
    """The query for a queue; empty for a topic's log, which is not a queue."""
    return {} if is_log(queue) else {"queue": queue}


async def _not_there(visit: Visit, id: str, error: JobNotFound | ConfigError) -> HtmlPage:
    """Why an event is in no group, or why nothing was found."""
    if isinstance(error, ConfigError):
        return _page(id, [], f"That is not an id: {error}.", status=404)
    try:
        return _page(id, [], await visit.admin.why(id))
    except JobNotFound:
        return _page(id, [], _MISSING, status=404)


def _page(id: str, queues: list[str], sentence: str, status: int = 200) -> HtmlPage:
    places = [(queue, group_source(queue)) for queue in queues]
    context = {"id": id, "places": places, "sentence": sentence}
    return HtmlPage("find.html", "Find a job", context, live=None, status=status)
