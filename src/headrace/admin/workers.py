"""Workers that are running."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.core.clock import to_datetime
from headrace.core.job import ids
from headrace.core.workers import (
    SUPERVISORS,
    WORKERS,
    RunRecord,
    Scaled,
    SupervisorRecord,
    WorkerRecord,
    decode_record,
    decode_supervisor,
)

if TYPE_CHECKING:
    from headrace.store.contract import Store


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A job, or an event, that a worker runs."""

    id: str
    queue: str
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
    host: str
    pid: int
    started: datetime
    queues: dict[str, int]
    """Each with its weight, in the order given."""
    strict: bool
    concurrency: int
    running: int
    """Jobs that it holds."""
    version: str
    """Of Headrace."""
    python: str
    last_beat: datetime
    consumers: dict[str, Scaled]
    """Consumers of each subscription, by its name, and the latest decision on their number."""
    runs: tuple[RunInfo, ...] = ()
    """What it runs, the longest-running first; of many, the first 100."""

    @classmethod
    def of(cls, record: WorkerRecord) -> WorkerInfo:
        known = {field.name: getattr(record, field.name) for field in fields(cls)}
        return cls(**{**known, "runs": tuple(map(RunInfo.of, record.runs))})


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
