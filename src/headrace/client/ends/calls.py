"""The jobs of handlers. Each has an id that is made from the ended job, so that it is added once
however often it is sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from headrace.client.ends.handlers import DeathReport
from headrace.client.send.sender import Sender
from headrace.client.task import Task
from headrace.core.job import ids
from headrace.core.job.history import decode_history
from headrace.core.job.ids import JobId
from headrace.core.job.parcel import Parcel
from headrace.core.job.state import Reason
from headrace.core.payload.codecs import PLAIN
from headrace.core.task.call import Call
from headrace.store.contract import DeadJob

_decode_plain = PLAIN.decoder(Any)


def success_call(
    handler: Task[..., Any], job_id: JobId, envelope: bytes, value: bytes
) -> Call[Any]:
    """The call of a handler for a job that is done; `value` is its encoded result."""
    # The envelope has the time of a send under an id that its sender chose: one that is used again
    # is another job. Its second byte changes when the job goes to another runner.
    id = ids.derived(job_id, b"on_success" + envelope[2:])
    # As it is, unless the handler's arguments travel by another codec.
    is_plain = handler.signature.form is PLAIN
    return _call(handler, id, job_id, msgspec.Raw(value) if is_plain else _decode_plain(value))


def death_call(handler: Task[..., Any], task: str, dead: DeadJob) -> Call[Any]:
    """The call of a handler for a death. A job that is replayed and dies again has another."""
    id = ids.derived(dead.job_id, b"on_dead%d" % dead.died_ms)
    return _call(handler, id, dead.job_id, _report(task, dead))


def _call(handler: Task[..., Any], id: JobId, job_id: JobId, second: Any) -> Call[Any]:
    takes_second = handler.signature.takes > 1
    arguments = (ids.to_text(job_id), second) if takes_second else (ids.to_text(job_id),)
    call: Call[Any] = handler.options(id=ids.to_text(id)).call(*arguments)
    return call


def _report(task: str, dead: DeadJob) -> DeathReport:
    last = decode_history(dead.history).attempts[-1:]
    if last:
        return DeathReport(
            dead.reason, last[0].error_type, last[0].error_text, last[0].traceback, task
        )
    flow = dead.reason == Reason.PARENT_FAILED
    text = "a job that it waited for failed" if flow else "it was given up"
    return DeathReport(dead.reason, "", text, "", task)


async def send_calls(sender: Sender, calls: Iterable[Call[Any]], now_ms: int) -> None:
    """Return when the jobs of these calls are stored; those that were are not added again."""
    by_queue: dict[str, list[Parcel]] = {}
    for call in calls:
        by_queue.setdefault(call.queue, []).append(call.parcel(now_ms))
    for queue, parcels in by_queue.items():
        await sender.send(queue, parcels, custom_ids=True)
