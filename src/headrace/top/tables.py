"""The tables: queues, running jobs, errors and done jobs; numbers and times in few characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.text import Text
from textual.widgets import DataTable

from headrace.admin import DeadInfo, JobSummary, WorkerInfo
from headrace.core.display import harmless
from headrace.top.snapshot import QueueRow, TopSnapshot

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


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row, and a key that stays the same from one snapshot to the next."""

    key: str
    cells: Sequence[str | Text]


class Table(DataTable[str | Text]):
    """A table that keeps the cursor on its row when rows come and go."""

    HEADINGS: tuple[str, ...] = ()

    def on_mount(self) -> None:
        self.cursor_type = "row"
        self.zebra_stripes = True
        for heading in self.HEADINGS:
            self.add_column(heading, key=heading)

    @property
    def chosen(self) -> str | None:
        """The key of the row at the cursor."""
        if not self.row_count:
            return None
        key = self.coordinate_to_cell_key(self.cursor_coordinate).row_key.value
        return key or None

    def show(self, snapshot: TopSnapshot) -> None:
        chosen, top = self.chosen, self.scroll_offset.y
        rows = list(self.rows_of(snapshot))
        self.clear()
        for row in rows:
            self.add_row(*row.cells, key=row.key)
        places = {row.key: at for at, row in enumerate(rows)}
        if chosen in places:
            self.move_cursor(row=places[chosen], scroll=False)
        self.scroll_to(y=top, animate=False)

    def rows_of(self, snapshot: TopSnapshot) -> Iterable[TableRow]:
        """The rows for a snapshot. Each table has its own."""
        return ()


class QueueTable(Table):
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
        _number(info.running, "green"),
        _number(info.scheduled),
        _number(info.blocked),
        _number(info.dead, "red"),
        Text(age(info.age), justify="right"),
        Text(rate(row.done), justify="right"),
        Text(rate(row.failed), justify="right", style="red"),
        Text(sparkline(row.history), style="cyan"),
    )


def _number(value: int, style: str = "") -> Text:
    return Text(count(value), justify="right", style=style)


class RunningTable(Table):
    """A row for each running job, by worker, and one for each idle worker."""

    HEADINGS = ("worker", "host", "busy", "job", "task", "queue", "for")

    def rows_of(self, snapshot: TopSnapshot) -> Iterable[TableRow]:
        for worker in snapshot.workers:
            busy = Text(f"{worker.running}/{worker.concurrency}", justify="right")
            named = (Text(harmless(worker.name)), Text(harmless(worker.host)), busy)
            if not worker.runs:
                yield TableRow(worker.name, (*named, "", "", "", ""))
            for run in worker.runs:
                what = (run.id, run.task or "", run.queue)
                cells = [Text(harmless(text)) for text in what]
                # Two groups may run the same event, and two workers the same job for a while.
                key = "\n".join((worker.name, run.queue, run.id))
                yield TableRow(key, (*named, *cells, Text(ago(run.started), justify="right")))

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
        return f"{len(workers)} workers, {running}/{places} busy"


class ErrorTable(Table):
    HEADINGS = ("died", "queue", "task", "job", "reason", "error")

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
    error = f"{info.error_type}: {info.error_text}" if info.error_type else info.error_text
    if info.unreadable:
        error = f"(unreadable: {', '.join(info.unreadable)}) {error}".rstrip()
    texts = (info.queue, info.task or "?", info.id, info.reason, error[:300])
    return (f"{ago(info.died)} ago", *(Text(harmless(text)) for text in texts))


class EndedTable(Table):
    """Jobs that are done, as far as the history has them."""

    HEADINGS = ("ended", "took", "attempt", "task", "queue", "job", "worker")

    def rows_of(self, snapshot: TopSnapshot) -> Iterable[TableRow]:
        for job in snapshot.ended:
            yield TableRow(f"{job.queue}\n{job.id}\n{job.ended}", _ended_cells(job))


def _ended_cells(job: JobSummary) -> Sequence[str | Text]:
    took = "" if job.took is None else f"{job.took:.3f} s"
    texts = (job.task or "?", job.queue, job.id, job.worker or "")
    return (
        f"{ago(job.ended)} ago" if job.ended else "",
        Text(took, justify="right"),
        Text(str(job.attempt), justify="right"),
        *(Text(harmless(text)) for text in texts),
    )
