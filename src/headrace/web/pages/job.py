"""The page of one job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.admin.arguments import named
from headrace.core.job.state import State
from headrace.core.queue_names import group_source, is_log
from headrace.web.page import HtmlPage, interval
from headrace.web.rendering.flow_graph import HEIGHT, WIDTH, draw_flow
from headrace.web.rendering.formatting import clip
from headrace.web.rendering.values import format_value, tail
from headrace.web.visit import Visit

if TYPE_CHECKING:
    from headrace.admin import FlowInfo, JobDetail

# Characters of all log lines that a page shows.
_LOG = 100_000
# Calls to the store for one rendering; for a waiting job, its position in the queue is read too.
_CALLS, _CALLS_WAITING = 10, 20


async def job(visit: Visit) -> HtmlPage:
    """One job, or one event in one group."""
    id, queue = visit.asked("id"), visit.query.get("queue")
    detail = await visit.admin.job(id, queue)
    # An event whose time has not come is in its topic's log, which is no queue to be named.
    place = None if is_log(detail.queue) else detail.queue
    sentence = await visit.admin.why(id, place)
    flow = await visit.admin.flow(id, place) if detail.event is None else None
    shown, cut = log_of(detail)
    context = {
        "job": detail,
        "place": place,
        "topic": detail.event.topic if detail.event else None,
        "group": group_source(detail.queue),
        "why": clip(sentence, 2_000),
        "arguments": format_value(arguments_of(visit, detail)),
        "result": format_value(detail.result),
        "log": shown,
        "log_cut": cut,
        **_drawing(flow),
        "tail": tail,
    }
    return HtmlPage("job.html", title_of(detail.task), context, _interval(visit, detail, flow))


def _interval(visit: Visit, detail: JobDetail, flow: FlowInfo | None) -> float:
    calls = _CALLS if detail.state in (State.RUNNING, State.DONE) else _CALLS_WAITING
    calls += 3 * len({each.queue for each in flow.jobs}) if flow is not None else 0
    if (source := group_source(detail.queue)) is not None:
        declared = visit.app.topics.get(source.topic)
        # Each of the questions looks for the group in all shards.
        calls += 3 * (1 + len(declared.logs) if declared else 8)
    return interval(calls, 10.0 if detail.state.final else 2.0)


def title_of(task: str | None) -> str:
    """The title of a job's page."""
    if task is None:
        return "A job that cannot be read"
    return f"Event of {clip(task[1:], 80)}" if task.startswith("@") else clip(task, 80)


def arguments_of(visit: Visit, detail: JobDetail) -> Any:
    """The redacted arguments, by name where the task is known; of an event, its data."""
    if detail.event is not None:
        return detail.event.data
    return named(visit.app, detail.task, detail.arguments, fed=detail.fed)


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


def _drawing(flow: FlowInfo | None) -> Mapping[str, Any]:
    if flow is None or len(flow.jobs) < 2:
        return {"flow": None}
    return {"flow": flow, "graph": draw_flow(flow), "node_width": WIDTH, "node_height": HEIGHT}
