"""All that is known of one row, or of all of them in one line, as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.text import Text

from headrace.admin import Admin, DeadInfo, GroupInfo, JobDetail, StoppedKeyInfo, WorkerInfo
from headrace.core.display import (
    harmless,
    in_local_time,
    length_text,
    local_text,
    plural,
    unread_text,
)
from headrace.top.snapshot import QueueRow, TopSnapshot
from headrace.top.tables import RunningTable, age, rate

_LONGEST = 2_000
_KEYS_SHOWN = 10
Facts = Iterable[tuple[str, object]]


def totals(snapshot: TopSnapshot, width: int) -> Text:
    """One line: what does not fit is left out, from the end."""
    parts = [
        f"{snapshot.total('waiting'):,} waiting",
        f"{snapshot.total('running'):,} running",
        f"{snapshot.total('dead'):,} dead",
        f"{rate(snapshot.done) or '0/s'} done",
        f"{rate(snapshot.failed) or '0/s'} failed",
        RunningTable.summary(snapshot.workers),
        *([f"{snapshot.hidden:,} more queues: / finds"] if snapshot.hidden else []),
    ]
    while len("  ".join(parts)) > width and len(parts) > 1:
        parts.pop()
    return Text("  ".join(parts), no_wrap=True, overflow="ellipsis")


def of_queue(row: QueueRow, workers: Sequence[WorkerInfo]) -> Text:
    info = row.info
    readers = [worker.name for worker in workers if info.name in worker.queues]
    return _text([
        ("queue", info.name),
        ("paused", "all of it" if info.paused else ", ".join(info.paused_tasks)),
        *((state, getattr(info, state)) for state in _STATES),
        ("oldest", age(info.age)),
        ("done", rate(row.done)),
        ("failed", rate(row.failed)),
        ("workers", ", ".join(readers) or "none reads it"),
    ])  # fmt: skip


_STATES = ("waiting", "running", "scheduled", "blocked", "dead")


async def of_group(admin: Admin, topic: str, group: GroupInfo) -> Text:
    keys = []
    if group.stopped_keys:
        keys = await admin.stopped_keys(topic, group.name, limit=_KEYS_SHOWN)
    more = group.stopped_keys - len(keys)
    return _text([
        ("topic", topic),
        ("group", group.name),
        ("ordered", f"yes, on failure {group.on_failure}" if group.ordered else ""),
        ("paused", "yes" if group.paused else ""),
        ("behind", group.behind),
        *((state, getattr(group, state)) for state in _STATES),
        ("oldest", age(group.age)),
        *(("stopped", _stopped(key)) for key in keys),
        ("", f"and {plural(more, 'more stopped key')}" if more > 0 else ""),
        ("last seen", _moment(group.last_seen)),
        ("gone", "its events are no longer kept" if group.gone else ""),
    ])  # fmt: skip


def _stopped(key: StoppedKeyInfo) -> str:
    waiting = f", {plural(key.waiting, 'event')} behind it" if key.waiting else ""
    return f"key {key.key!r} by event {key.event}, {_moment(key.since)}{waiting}"


def of_dead(info: DeadInfo) -> Text:
    facts = [
        ("job", info.id),
        ("task", info.task or unread_text(info.newer_format)),
        ("queue", info.queue),
        ("reason", info.reason),
        ("died", _moment(info.died)),
        ("error", "" if info.attempts else info.error),
        ("arguments", repr(info.arguments) if info.arguments else ""),
    ]
    return _with_attempts(_text(facts), info)


async def of_job(admin: Admin, queue: str, id: str) -> Text:
    job = await admin.job(id, queue)
    progress = job.progress
    facts = [
        ("job", job.id),
        ("task", job.task or unread_text(job.newer_format)),
        ("queue", job.queue),
        ("state", job.state),
        ("sent", "" if job.sent is None else _moment(job.sent)),
        ("ended", "" if job.ended is None else _moment(job.ended)),
        ("waited", _seconds(job.waited)),
        ("took", _seconds(job.took)),
        ("why", in_local_time(await admin.why(id, queue))),
        ("worker", job.worker or ""),
        ("attempt", job.attempt),
        ("progress", "" if progress is None else f"{progress.fraction:.0%} {progress.text}"),
        ("arguments", repr(job.arguments) if job.arguments else ""),
        ("result", repr(job.result) if job.result_kept else ""),
        ("lost result", str(job.lost_result or "")),
        ("flow", job.flow or ""),
    ]
    text = _with_attempts(_text(facts), job)
    for line in job.log:
        text.append(f"{harmless(line)}\n")
    return text


def _with_attempts(text: Text, job: DeadInfo | JobDetail) -> Text:
    for attempt in reversed(job.attempts):
        took = (attempt.ended - attempt.started).total_seconds()
        text.append(f"\nattempt {attempt.number}", style="bold")
        text.append(f", {length_text(took)}, on {harmless(attempt.worker)}\n")
        text.append(f"{harmless(attempt.error)}\n", style="red")
        for line in attempt.traceback.rstrip().split("\n"):
            text.append(f"{harmless(line.expandtabs(4))}\n")
    return text


def _seconds(length: float | None) -> str:
    return "" if length is None else length_text(length)


def _moment(time: datetime) -> str:
    """In the local time zone, which it names."""
    return local_text(time)


def _text(facts: Facts) -> Text:
    text = Text()
    for name, value in facts:
        shown = str(value)
        if shown and value != 0:
            text.append(f"{name:<10} ", style="bold")
            text.append(f"{harmless(shown[:_LONGEST])}\n")
    return text
