"""What a job of a flow received from the jobs that it waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from headrace.admin.bodies import opened
from headrace.admin.jobs.flow_survey import flow_around
from headrace.admin.redaction import Redaction
from headrace.core import codec
from headrace.core.job import ids
from headrace.core.job.ids import JobId
from headrace.core.payload.codecs import PLAIN
from headrace.store.contract import JobSnapshot

if TYPE_CHECKING:
    from headrace.store.contract import Store

HIDDEN = "(hidden: it is not known which task returned it)"

_plain = PLAIN.decoder(Any)
_parts = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


async def received_by(
    store: Store, queue: str, job_id: JobId, seen: JobSnapshot, redaction: Redaction
) -> tuple[Any, ...] | None:
    """The values that are the first argument of a job, or in it; None if there are none. With a
    redact hook, what it shows of them as results, and then as the argument."""
    envelope = opened(seen.envelope)
    if envelope is None or not envelope.overrides.feed or not seen.inputs:
        return None
    values = _values(seen.inputs)
    if values is None:
        return None
    if redaction.active:
        flow = await flow_around(store, queue, job_id, seen)
        tasks = [parent.task for parent in flow.parents_of(ids.to_text(job_id))]
        known = len(tasks) == len(values)
        values = [
            redaction.value(tasks[at], value) if known and tasks[at] else HIDDEN
            for at, value in enumerate(values)
        ]
    if envelope.overrides.feed == "one":
        return tuple(redaction.first_argument(envelope.task, value) for value in values[:1])
    shown = redaction.first_argument(envelope.task, values)
    return tuple(shown) if isinstance(shown, list | tuple) else (shown,)


def _values(inputs: bytes) -> list[Any] | None:
    try:
        return [_plain(bytes(part)) for part in _parts(inputs)]
    except (msgspec.MsgspecError, *codec.DECODE_ERRORS):
        return None
