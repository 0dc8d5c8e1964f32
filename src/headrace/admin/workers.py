"""Workers that are running."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.admin.context import AdminContext
from headrace.admin.recorded import recorded
from headrace.core.clock import Duration, to_datetime, to_ms
from headrace.core.job import ids
from headrace.core.workers import (
    FOREVER,
    STOPS,
    SUPERVISORS,
    WORKERS,
    RunRecord,
    Scaled,
    StopRequest,
    SupervisorRecord,
    WorkerRecord,
    decode_record,
    decode_supervisor,
    encode_record,
)
from headrace.errors import WorkerNotFound

if TYPE_CHECKING:
    from headrace.store.contract import Store


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A job, or an event, that a worker runs."""

    id: str
    """The id of the job or the event."""
    queue: str
    """The queue that it came from."""
    task: str
    """Of an event, `@` and its topic."""
    started: datetime
    """By the store's clock."""

    @classmethod
    def of(cls, record: RunRecord) -> RunInfo:
        started = to_datetime(record.started_ms)
        return cls(ids.to_text(record.job_id), record.queue, record.task, started)


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker, as of its last beat. One that died is listed for up to one lease."""

    name: str
    """Its name, which no other worker has."""
    host: str
    """The machine."""
    pid: int
    """The process."""
    started: datetime
    """When it began."""
    queues: dict[str, int]
    """Each with its weight, in the order given."""
    strict: bool
    """Whether a queue is read only when those before it are empty."""
    concurrency: int
    """How many jobs it runs at a time."""
    running: int
    """Jobs that it holds."""
    version: str
    """Of Headrace."""
    python: str
    """The version of Python."""
    last_beat: datetime
    """When it was last heard of."""
    consumers: dict[str, Scaled]
    """Consumers of each subscription, by its name, and the latest decision on their number."""
    runs: tuple[RunInfo, ...] = ()
    """What it runs, the longest-running first; of many, the first 100."""
    stopping: bool = False
    """Whether it takes no more jobs."""
    queue_concurrency: dict[str, int] = field(default_factory=dict)
    """How many jobs of a queue it lets run at a time, on all workers together, where it says so."""

    @classmethod
    def of(cls, record: WorkerRecord) -> WorkerInfo:
        known = {field.name: getattr(record, field.name) for field in fields(cls)}
        return cls(**{**known, "runs": tuple(map(RunInfo.of, record.runs))})


class WorkerAdmin(AdminContext):
    """Lists workers and stops them."""

    async def workers(self) -> list[WorkerInfo]:
        """Workers that are running, by name. One that died is listed for up to one lease."""
        return await read_workers(await self._store())

    @recorded
    async def stop_worker(self, name: str, drain: bool | Duration | None = None) -> None:
        """Ask a worker to take no more jobs, to let the running ones end, and then to end. They
        have as long as the worker's own `drain`, `drain` seconds, or with True as long as they
        take; with False or 0 they are cancelled at once, and go back. The worker notices within
        seconds. `WorkerNotFound` if no such worker is running. A process that a supervisor started
        (`headrace worker -p 2`) is replaced by it.

        Args:
            name: The name of the worker.
            drain: Seconds that running jobs have; True for as long as they take, False or 0 for
                none. The worker's own unless said.
        """
        request = StopRequest(_seconds(drain))
        store = await self._store()
        running = {worker.name for worker in await read_workers(store)}
        # What was asked of workers that have died meanwhile is of no use to anyone.
        for gone in (await store.kv_all(STOPS)).keys() - running:
            await store.kv_set(STOPS, gone, None)
        if name not in running:
            raise WorkerNotFound(name)
        await store.kv_set(STOPS, name, encode_record(request))


def _seconds(drain: bool | Duration | None) -> float | None:
    if isinstance(drain, bool):
        return FOREVER if drain else 0.0
    return None if drain is None else to_ms("drain", drain) / 1000


async def read_workers(store: Store) -> list[WorkerInfo]:
    """All workers that have reported within a lease, by name."""
    records = map(decode_record, (await store.kv_all(WORKERS)).values())
    found = [WorkerInfo.of(record) for record in records if record is not None]
    return sorted(found, key=lambda info: info.name)


async def read_supervisors(store: Store) -> list[SupervisorRecord]:
    """All processes that scale workers, by host and pid."""
    records = map(decode_supervisor, (await store.kv_all(SUPERVISORS)).values())
    found = [record for record in records if record is not None]
    return sorted(found, key=lambda record: (record.host, record.pid))
