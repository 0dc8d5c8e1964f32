"""What keeps all jobs of a queue, or of a task in it, from starting; and why one comes again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.admin.jobs.silence import SILENT_AFTER, silent_for
from headrace.admin.workers import read_workers
from headrace.core.display import plural
from headrace.core.job.envelope import runner_of
from headrace.core.queue_names import group_source
from headrace.core.workers import WORKERS, RunRecord, WorkerRecord, decode_record

if TYPE_CHECKING:
    from headrace.core.job.capacity import Runner
    from headrace.core.job.history import History
    from headrace.core.job.ids import JobId
    from headrace.store.contract import Store

_MOST_WORKERS = 20
"""Of more workers, what their runs need is not looked up."""


async def obstacle_of(store: Store, queue: str, task: str | None, where: str) -> str:
    """What is in the way, as part of a sentence that names the queue as `where`; empty if nothing
    is."""
    control = await store.control(queue)
    if control.paused:
        return f"{where} is paused"
    if task in control.paused_tasks:
        return f"task {task!r} is paused in queue {queue!r}"
    readers = [info for info in await read_workers(store) if queue in info.queues]
    if not readers:
        return f"no worker is running that reads {where}"
    bounds = [info.queue_concurrency.get(queue) for info in readers]
    most = max((bound for bound in bounds if bound is not None), default=None)
    if most is None or None in bounds:
        return ""
    running = (await store.count(queue)).running
    return f"{where} runs {plural(most, 'job')} at a time" if running >= most else ""


async def busy_text(store: Store, queue: str, runner: Runner) -> str:
    """That all workers that read the queue have their hands full, as part of a sentence, by what
    they said at their last beats; empty if one has not, or that cannot be known."""
    now_ms = await store.time_ms()
    records = map(decode_record, (await store.kv_all(WORKERS)).values())
    readers = [
        record for record in records
        if record and queue in record.queues and not record.stopping
        and silent_for(record.last_beat, now_ms) < SILENT_AFTER
    ]  # fmt: skip
    if all(len(_jobs_of(record)) >= record.concurrency for record in readers):
        return _all_busy("slot", "slots", [record.concurrency for record in readers])
    if runner == "loop" or len(readers) > _MOST_WORKERS:
        return ""
    in_threads = runner == "thread"
    places = [each.threads if in_threads else each.processes for each in readers]
    for record, count in zip(readers, places, strict=True):
        if await _runs_of(store, record, runner) < count:
            return ""
    return _all_busy(runner, "threads" if in_threads else "processes", places)


def _jobs_of(worker: WorkerRecord) -> list[RunRecord]:
    """Without events, for which groups have slots of their own."""
    return [run for run in worker.runs if group_source(run.queue) is None]


async def _runs_of(store: Store, worker: WorkerRecord, runner: Runner) -> int:
    """How many of the jobs that a worker runs are of this runner."""
    by_queue: dict[str, list[JobId]] = {}
    for run in _jobs_of(worker):
        by_queue.setdefault(run.queue, []).append(run.job_id)
    count = 0
    for queue, job_ids in by_queue.items():
        found = await store.get(queue, job_ids, bodies=True)
        count += sum(runner_of(seen.envelope) == runner for seen in found if seen is not None)
    return count


def _all_busy(one: str, many: str, counts: list[int]) -> str:
    count = sum(counts)
    whose = "the workers that read it" if len(counts) > 1 else "the worker that reads it"
    if count == 1:
        return f"the only {one} of {whose} is busy"
    return f"all {count:,} {many} of {whose} are busy" if count else ""


def coming_again(history: History, error: str) -> str:
    """Why a job that was begun before is scheduled, as the end of a sentence."""
    if history.payload_misses:
        times = plural(history.payload_misses, "time")
        return f", to try again: its payload could not be had, {times} so far"
    again = f", to run again after {error}" if error else ""
    if not history.defers:
        return again
    return f"{again}; it has been put off {plural(history.defers, 'time')}"
