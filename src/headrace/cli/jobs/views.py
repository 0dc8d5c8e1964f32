"""How jobs are printed: for people, and as JSON."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.output import Cells, harmless, moment, shortened, show_attempts, table
from headrace.core.display import length_text, plural, unread_text
from headrace.core.job.state import ENDED, State

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from headrace.admin import DeadInfo, EventInfo, FlowJobInfo, JobDetail, JobFilter, JobSummary
    from headrace.core.job.constraints import Limit
    from headrace.core.job.progress import Progress

_HEADINGS = ("state", "queue", "id", "task", "priority", "attempts", "sent", "detail")
_MOST_PARENTS = 10


def as_json_value(job: JobSummary) -> dict[str, Any]:
    """A job under stable keys."""
    # Not `asdict`, which copies arguments and result.
    value = {each.name: getattr(job, each.name) for each in fields(job)}
    progress = job.progress
    value["progress"] = progress and {
        "fraction": progress.fraction,
        "text": progress.text,
        "at": progress.at,
    }
    if value.get("event"):
        # Shown as the arguments.
        event = value["event"]
        others = [each.name for each in fields(event) if each.name != "data"]
        value["event"] = {name: getattr(event, name) for name in others}
    if "limits" in value:
        value["limits"] = [_limit(limit) for limit in value["limits"]]
    return value


def show_list(rows: Sequence[Cells], wanted: JobFilter) -> None:
    if rows:
        table(_HEADINGS, rows)
    elif wanted.state:
        click.echo("no such jobs")
    else:
        which = "no unfinished jobs like that" if wanted else "no unfinished jobs"
        click.echo(f"{which}: --state done, dead or cancelled lists those that have ended")


def show_job(job: JobDetail, parents: Sequence[FlowJobInfo] = ()) -> None:
    """Print the facts of a job, a line each, without empty ones. `parents` are the jobs of its flow
    that it is after."""
    for name, value in _facts(job, parents):
        if value:
            click.echo(f"{name:<11}{harmless(value)}")
    show_attempts(job.attempts, job.replays)
    if job.log:
        click.echo("\nlog")
        for line in job.log:
            click.echo(f"  {harmless(line)}")


def _facts(job: JobDetail, parents: Sequence[FlowJobInfo]) -> list[tuple[str, str | None]]:
    turns = [f"{job.lane.removeprefix('key:')}, {job.width} at a time"] if job.lane else []
    turns += [f"task:{job.task}, {job.task_width} at a time"] if job.task_width else []
    rates = ", ".join(f"{each.most} in {each.window_ms / 1000:g} s" for each in job.limits)
    return [
        ("id", job.id),
        ("queue", job.queue),
        ("task", _task(job)),
        ("state", f"{job.state}: {job.reason}" if job.reason else str(job.state)),
        ("waits for", job.waits_text),
        ("priority", str(job.priority) if job.priority else None),
        ("tags", ", ".join(job.tags)),
        ("key", "; ".join(turns)),
        ("rate", rates),
        ("unique", job.unique),
        *_flow_facts(job, parents),
        ("sent", None if job.event else _time(job.sent)),
        ("due", _time(job.due)),
        ("expires", _time(job.expires)),
        ("started", _time(job.started)),
        ("ended", _time(job.ended)),
        ("waited", None if job.waited is None else length_text(job.waited)),
        ("took", None if job.took is None else length_text(job.took)),
        ("worker", job.worker),
        ("attempts", str(_begun(job)) if _begun(job) else None),
        ("progress", None if job.progress is None else _progress(job.progress)),
        *(event_facts(job.event) if job.event else ()),
        (
            "event" if job.event else "arguments",
            None if job.arguments is None else shortened(repr(job.arguments)),
        ),
        ("received", received_text(job)),
        ("result", _result(job)),
        ("headers", repr(job.headers) if job.headers else None),
        ("done once", ", ".join(job.once)),
    ]


def _flow_facts(job: JobDetail, parents: Sequence[FlowJobInfo]) -> list[tuple[str, str | None]]:
    last = f"{job.flow}, which this job ends" if job.flow == job.id else job.flow
    facts = [("flow", last)]
    for each in parents[:_MOST_PARENTS]:
        state = each.state or "its state is not known"
        facts.append(("after", f"{each.id} of task {each.task or '?'}: {state}"))
    if len(parents) > _MOST_PARENTS:
        facts.append(("after", plural(len(parents) - _MOST_PARENTS, "other job")))
    if job.cause:
        facts.append(("cause", f"{job.cause.id} in queue {job.cause.queue} failed first"))
    return facts


def event_facts(event: EventInfo) -> list[tuple[str, str | None]]:
    """The facts of an event that jobs do not have."""
    return [
        ("topic", event.topic),
        ("key", event.key),
        ("type", event.type),
        ("source", event.source),
        ("time", _time(event.time)),
        ("occurred", _time(event.occurred_at) if event.occurred_at != event.time else None),
        ("correlates", event.correlation_id),
        ("content", f"{event.content_type}, version {event.version}"),
    ]


def _result(job: JobDetail) -> str | None:
    if job.lost_result is not None:
        return f"(lost) {shortened(str(job.lost_result))}"
    if job.state is State.DONE and not job.result_kept:
        return "(not kept)"
    return shortened(repr(job.result)) if job.result_kept else None


def received_text(job: JobDetail | DeadInfo) -> str | None:
    """What comes before the arguments, from the jobs that it is after."""
    if not job.lacks_first_argument:
        return None
    if job.received is None:
        return "its first argument comes from the jobs that it is after"
    return shortened(", ".join(map(repr, job.received)))


def row(job: JobSummary) -> Cells:
    return (
        job.state,
        job.queue,
        job.id,
        _task(job) or "?",
        job.priority,
        _begun(job),
        _time(job.sent) or "",
        _detail(job),
    )


def _task(job: JobSummary) -> str | None:
    """None if it is not kept any more."""
    if job.task is None and (job.newer_format or not job.state.final):
        return unread_text(job.newer_format)
    return job.task


def _begun(job: JobSummary | JobDetail) -> int:
    """How many attempts have begun."""
    return job.attempt - (not job.state.final and job.state is not State.RUNNING)


def _detail(job: JobSummary) -> str:
    key = f"key {job.key}" if job.key else ""
    parts = [
        key,
        job.due and f"due {moment(job.due)}",
        job.ended and job.state in ENDED and f"ended {moment(job.ended)}",
        None if job.took is None else f"took {length_text(job.took)}",
        job.worker and f"on {job.worker}",
        job.progress and job.state not in ENDED and _progress(job.progress),
        job.waits_for and f"waits for {job.waits_text}",
        job.reason,
        job.error and job.error.partition("\n")[0],
    ]
    return "; ".join(part for part in parts if part)


def _time(time: datetime | None) -> str | None:
    return None if time is None else moment(time)


def _progress(progress: Progress) -> str:
    return f"{progress.fraction:.0%} {progress.text}".rstrip()


def _limit(limit: Limit) -> dict[str, Any]:
    return {
        "name": limit.name,
        "most": limit.most,
        "seconds": limit.window_ms / 1000,
        "burst": limit.burst,
    }
