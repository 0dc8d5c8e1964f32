"""Actions on jobs: one, the selected ones, or all that match a filter."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from headrace.admin import JobFilter
from headrace.errors import ArgumentError, ConfigError, PayloadTooLarge
from headrace.web.actions.argument_fields import edit_of, fields_of, typed_into
from headrace.web.actions.form_actions import OURS, form_action
from headrace.web.filters import OF_DEAD, OF_JOBS, FilterForm
from headrace.web.page import PageError
from headrace.web.pages.dead import dead_one, form_page
from headrace.web.rendering.formatting import clip, plural
from headrace.web.visit import Visit

Verb = Callable[[list[str], str | None], Awaitable[int]]

_NONE = "None of them is dead any more."


def chosen(visit: Visit) -> dict[str | None, list[str]]:
    """The ids of the jobs that a form names, by queue; None if the queue is not given."""
    found: dict[str | None, list[str]] = {}
    if id := visit.form.get("id"):
        found.setdefault(visit.form.get("queue") or None, []).append(id)
    for text in visit.form.getlist("job"):
        queue, id = _unpaired(text)
        found.setdefault(queue, []).append(id)
    if not found:
        raise PageError(400, "No job is selected: tick the boxes of jobs first.")
    return found


def _unpaired(text: str) -> tuple[str, str]:
    try:
        queue, id = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        queue = id = None
    if not isinstance(queue, str) or not isinstance(id, str):
        raise PageError(400, "The form does not say which job is meant.")
    return queue, id


def _counted(visit: Visit) -> str:
    """The jobs that a form names, in words."""
    named = [id for ids in chosen(visit).values() for id in ids]
    return f"job {named[0]}" if len(named) == 1 else f"these {len(named):,} jobs"


@form_action("cancel", "Cancel", confirm=lambda visit: f"Cancel {_counted(visit)}?")
async def cancel(visit: Visit) -> str:
    """Cancel jobs that have not begun; ask running ones to end."""
    cancelled = running = ended = unknown = 0
    for queue, ids in chosen(visit).items():
        report = await visit.admin.cancel(ids, queue)
        cancelled, running = cancelled + report.cancelled, running + report.running
        ended, unknown = ended + len(report.ended), unknown + len(report.unknown)
    return _cancel_text(cancelled, running, ended, unknown)


@form_action("run_now", "Run now")
async def run_now(visit: Visit) -> str:
    """Let scheduled jobs run now."""
    ids = [id for named in chosen(visit).values() for id in named]
    return f"{plural(await visit.admin.run_now(ids), 'job')} due now."


@form_action("reschedule", "Move")
async def reschedule(visit: Visit) -> str:
    """Give a job another time, priority or queue."""
    said = {name: visit.form.get(name, "").strip() for name in ("delay", "priority", "to")}
    change: dict[str, Any] = {"queue": said["to"] or None}
    try:
        change["delay"] = float(said["delay"]) if said["delay"] else None
        change["priority"] = int(said["priority"]) if said["priority"] else None
    except ValueError:
        raise PageError(422, "Nothing was moved: delay and priority are numbers.") from None
    ids = [id for named in chosen(visit).values() for id in named]
    try:
        return f"{plural(await visit.admin.reschedule(ids, **change), 'job')} moved."
    except ConfigError as error:
        raise PageError(422, f"Nothing was moved: {error}.") from None


@form_action("replay", "Replay")
async def replay(visit: Visit) -> str:
    """Send dead jobs again, as they were."""
    admin = visit.admin
    count = sum([await admin.replay(ids, queue) for queue, ids in chosen(visit).items()])
    return f"{plural(count, 'job')} replayed." if count else _NONE


@form_action("purge", "Purge", confirm=lambda visit: f"Purge {_counted(visit)} for good?")
async def purge(visit: Visit) -> str:
    """Delete dead jobs."""
    admin = visit.admin
    count = sum([await admin.purge(ids, queue) for queue, ids in chosen(visit).items()])
    return f"{plural(count, 'job')} purged." if count else _NONE


@form_action("forget", "Forget", confirm=lambda visit: f"Forget {_counted(visit)} for good?")
async def forget(visit: Visit) -> str:
    """Delete what is kept of jobs that have ended."""
    admin = visit.admin
    count = sum([await admin.forget(ids, queue) for queue, ids in chosen(visit).items()])
    return f"{plural(count, 'job')} forgotten." if count else "Nothing was kept of them."


def _live_ones(visit: Visit) -> str:
    return f"Cancel {_narrowed(visit, OF_JOBS).describe_jobs(clip)}?"


def _dead_ones(visit: Visit) -> str:
    return _narrowed(visit, OF_DEAD).describe_dead(clip)


@form_action("cancel_all", "Cancel all that match", confirm=_live_ones)
async def cancel_all(visit: Visit) -> str:
    """Cancel all jobs that match the filter, shown or not."""
    wanted = _narrowed(visit, OF_JOBS)
    report = await visit.admin.cancel(queue=wanted.queue, state=wanted.state, **wanted.for_jobs)
    text = _cancel_text(report.cancelled, report.running, len(report.ended), len(report.unknown))
    if not report.logged:
        return text
    left = plural(len(report.logged), "event")
    return f"{text} {left} stayed in the log of a topic, which all groups share."


@form_action("replay_all", "Replay all that match", confirm=lambda v: f"Replay {_dead_ones(v)}?")
async def replay_all(visit: Visit) -> str:
    wanted = _narrowed(visit, OF_DEAD)
    count = await visit.admin.replay(queue=wanted.queue, **wanted.for_dead)
    return f"{plural(count, 'job')} replayed."


@form_action(
    "purge_all", "Purge all that match", confirm=lambda v: f"Purge {_dead_ones(v)} for good?"
)
async def purge_all(visit: Visit) -> str:
    wanted = _narrowed(visit, OF_DEAD)
    count = await visit.admin.purge(queue=wanted.queue, **wanted.for_dead)
    return f"{plural(count, 'job')} purged."


def _narrowed(visit: Visit, names: Sequence[str]) -> JobFilter:
    """The filter in a form. `PageError` if it is empty, or has fields that the action ignores: then
    it would apply to more jobs than the form says."""
    said = {name for name, text in visit.form.multi_items() if text.strip()}
    if unknown := sorted(said - {*names, *OURS}):
        raise PageError(400, f"This action cannot filter by {clip(' or '.join(unknown))}.")
    form = FilterForm.of(visit.form, names)
    if not form.fields:
        raise PageError(400, "Say which jobs: filter by queue, task, text or time first.")
    return form.parsed()


@form_action("edit_replay", "Replay with these arguments")
async def edit_replay(visit: Visit) -> str:
    """Send a dead job again, with the arguments that were changed."""
    id, queue = visit.asked("id"), visit.form.get("queue") or None
    job = await dead_one(visit, id, queue)
    edit, fields = edit_of(typed_into(fields_of(visit, job), visit.form))
    problem = "Nothing was replayed: see below." if any(each.problem for each in fields) else ""
    if not problem:
        try:
            count = await visit.admin.replay(id, queue, edit=edit or None)
            return f"Replayed{_changes(edit)}." if count else _NONE
        except (ArgumentError, ConfigError, PayloadTooLarge) as error:
            problem = f"Nothing was replayed: {error}"
    raise PageError(422, problem, form_page(visit, job, fields, problem))


def _changes(edit: dict[str, object]) -> str:
    return f" with changed {' and '.join(edit)}" if edit else " as it was"


def _cancel_text(cancelled: int, running: int, ended: int, unknown: int) -> str:
    parts = [
        f"{plural(cancelled, 'job')} cancelled",
        f"{running:,} asked to end" if running else "",
        f"{ended:,} had ended already" if ended else "",
        f"{unknown:,} not found" if unknown else "",
    ]
    return f"{', '.join(filter(None, parts))}."
