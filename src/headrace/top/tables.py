"""The tables of the terminal view; numbers and times in few characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from rich.text import Text

from headrace.admin import DeadInfo, GroupInfo, JobSummary, QueueInfo, WorkerInfo
from headrace.core.display import cut, harmless, length_text, plural, unread_text
from headrace.top.snapshot import QueueRow, TopSnapshot
from headrace.top.table import Table, TableRow

_LONGEST = 300
_SHORT = 20
_BLOCKS = "▁▂▃▄▅▆▇█"


def age(seconds: float | None) -> str:
    """`4s`, `12m`, `3h` or `9d`, rounded down; empty for None."""
    if seconds is None:
        return ""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size:.0f}{unit}"
    return f"{int(seconds)}s"


def ago(moment: datetime) -> str:
    return age(max(0.0, (datetime.now(UTC) - moment).total_seconds()))


def rate(per_second: float) -> str:
    if per_second <= 0:
        return ""
    return f"{per_second:,.0f}/s" if per_second >= 10 else f"{per_second:.1f}/s"


def count(number: int) -> str:
    return f"{number:,}" if number else ""


def sparkline(values: Sequence[float]) -> str:
    """A block for each value, scaled to the largest; a blank for zero."""
    most = max(values, default=0.0)
    if most <= 0:
        return " " * len(values)
    steps = len(_BLOCKS) - 1
    return "".join(" " if value <= 0 else _BLOCKS[round(value / most * steps)] for value in values)


class QueueTable(Table):
    TAB = "queues"
    ELASTIC = "queue"
    HEADINGS = (
        "queue", "", "waiting", "running", "sched.", "blocked", "dead", "oldest", "done", "failed",
        "last 30 min",
    )  # fmt: skip

    def rows_of(self, snapshot: TopSnapshot) -> Iterable[TableRow]:
        for row in snapshot.queues:
            yield TableRow(row.info.name, _queue_cells(row))


def _queue_cells(row: QueueRow) -> Sequence[str | Text]:
    info = row.info
    paused = "paused" if info.paused else "task paused" if info.paused_tasks else ""
    return (
        Text(harmless(info.name)),
        Text(paused, style="bold yellow"),
        _number(info.waiting),
        _running(info),
        _number(info.scheduled),
        _number(info.blocked),
        _number(info.dead, "red"),
        Text(age(info.age), justify="right"),
        Text(rate(row.done), justify="right"),
        Text(rate(row.failed), justify="right", style="red"),
        Text(sparkline(row.history), style="cyan"),
    )


def _running(info: QueueInfo) -> Text:
    """How many run, and how many may, if that is bounded."""
    most = f"/{count(info.concurrency)}" if info.concurrency else ""
    return Text(f"{count(info.running)}{most}", justify="right", style="green")


def _number(value: int, style: str = "") -> Text:
    return Text(count(value), justify="right", style=style)


class RunningTable(Table):
    """A row for each running job, by worker, and one for each idle worker."""

    TAB = "running"
    ELASTIC = "task"
    HEADINGS = ("task", "for", "queue", "worker", "busy", "job", "host")

    def rows_of(self, snapshot: TopSnapshot) -> Iterable[TableRow]:
        for worker in snapshot.workers:
            busy = Text(f"{worker.running}/{worker.concurrency}", justify="right")
            named, host = (Text(harmless(worker.name)), busy), Text(harmless(worker.host))
            if not worker.runs:
                idle = Text("idle", style="dim")
                yield TableRow(worker.name, (idle, "", "", *named, "", host))
            for run in worker.runs:
                since = Text(ago(run.started), justify="right")
                what = (_short(run.task or ""), since, _short(run.queue))
                # Two groups may run the same event, and two workers the same job for a while.
                key = "\n".join((worker.name, run.queue, run.id))
                yield TableRow(key, (*what, *named, Text(harmless(run.id)), host))

    @property
    def chosen_job(self) -> tuple[str, str] | None:
        """Queue and id of the job at the cursor; None for an idle worker."""
        _, _, job = (self.chosen or "").partition("\n")
        queue, _, id = job.partition("\n")
        return (queue, id) if id else None

    @staticmethod
    def summary(workers: Sequence[WorkerInfo]) -> str:
        places = sum(worker.concurrency for worker in workers)
        running = sum(worker.running for worker in workers)
        return f"{plural(len(workers), 'worker')} {running}/{places} busy"


class ErrorTable(Table):
    TAB = "errors"
    ELASTIC = "error"
    LEAST = 24
    HEADINGS = ("died", "task", "error", "queue", "reason", "job")

    def rows_of(self, snapshot: TopSnapshot) -> Iterable[TableRow]:
        for info in snapshot.errors:
            yield TableRow(f"{info.queue}\n{info.id}", _error_cells(info))

    @property
    def chosen_job(self) -> tuple[str, str] | None:
        """Queue and id of the job at the cursor."""
        if self.chosen is None:
            return None
        queue, _, id = self.chosen.partition("\n")
        return queue, id


def _error_cells(info: DeadInfo) -> Sequence[str | Text]:
    error = info.error
    if info.unreadable:
        error = f"(unreadable: {', '.join(info.unreadable)}) {error}".rstrip()
    rest = (error[:_LONGEST], info.queue, info.reason, info.id)
    named = _short(info.task or unread_text(info.newer_format))
    return (f"{ago(info.died)} ago", named, *(Text(harmless(text)) for text in rest))


class EndedTable(Table):
    """Jobs that are done, as far as the history has them."""

    TAB = "ended"
    ELASTIC = "arguments"
    HEADINGS = ("ended", "took", "attempts", "task", "arguments", "queue", "job", "worker")

    def rows_of(self, snapshot: TopSnapshot) -> Iterable[TableRow]:
        for job in snapshot.ended:
            yield TableRow(f"{job.queue}\n{job.id}\n{job.ended}", _ended_cells(job))

    @property
    def chosen_job(self) -> tuple[str, str] | None:
        """Queue and id of the job at the cursor."""
        if self.chosen is None:
            return None
        queue, id, _ = self.chosen.split("\n")
        return queue, id


def _ended_cells(job: JobSummary) -> Sequence[str | Text]:
    took = "" if job.took is None else length_text(job.took)
    return (
        f"{ago(job.ended)} ago" if job.ended else "",
        Text(took, justify="right"),
        Text(str(job.attempt), justify="right"),
        *map(_short, (job.task or "?", repr(job.arguments) if job.arguments else "", job.queue)),
        *(Text(harmless(text)) for text in (job.id, job.worker or "")),
    )


class TopicTable(Table):
    """A row for each group of each topic, and one for a topic without groups."""

    TAB = "topics"
    ELASTIC = "topic"
    HEADINGS = (
        "topic", "group", "behind", "waiting", "running", "blocked", "dead", "oldest", "stopped",
    )  # fmt: skip

    def rows_of(self, snapshot: TopSnapshot) -> Iterable[TableRow]:
        for topic in snapshot.topics:
            name = _short(topic.name)
            if not topic.groups:
                nobody = Text("no group", style="dim")
                yield TableRow(topic.name, (name, nobody, *[""] * (len(self.HEADINGS) - 2)))
            for group in topic.groups:
                yield TableRow(f"{topic.name}\n{group.name}", (name, *_group_cells(group)))

    def chosen_group(self, snapshot: TopSnapshot) -> tuple[str, GroupInfo] | None:
        """Topic and group at the cursor."""
        topic, _, name = (self.chosen or "").partition("\n")
        found = [group for each in snapshot.topics if each.name == topic for group in each.groups]
        return next(((topic, group) for group in found if group.name == name), None)


def _group_cells(group: GroupInfo) -> Sequence[str | Text]:
    stopped = plural(group.stopped_keys, "key") if group.stopped_keys else ""
    stopped = ", ".join(filter(None, ("paused" if group.paused else "", stopped)))
    return (
        _short(group.name),
        _number(group.behind),
        _number(group.waiting + group.scheduled),
        _number(group.running, "green"),
        _number(group.blocked, "yellow"),
        _number(group.dead, "red"),
        Text(age(group.age), justify="right"),
        Text(stopped, style="bold yellow"),
    )


def _short(text: str) -> Text:
    """Short enough for other columns to be seen."""
    return Text(cut(harmless(text), _SHORT))
