"""Replaying dead jobs with other arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.admin.bodies import opened
from headrace.admin.dead.edited_arguments import Edit, EditedArguments, OnEdit
from headrace.admin.redaction import CLEAR, Redaction
from headrace.core.job import ids
from headrace.core.job.envelope import FORMATS, Envelope
from headrace.core.job.ids import JobId
from headrace.core.job.state import State
from headrace.core.payload.codecs import form_of
from headrace.core.payload.packing import unpacked
from headrace.core.queue_names import is_log
from headrace.errors import ArgumentError, ConfigError, HeadraceError, PayloadTooLarge

if TYPE_CHECKING:
    from headrace.admin.app import AdminApp
    from headrace.client.task import Task
    from headrace.store.contract import Store

_PAYLOAD = 3
_CONTENT, _PACKING = "m", "p"


class EditedReplay:
    """Replays dead jobs with other arguments. `check` and `send` have the signature of a store's
    verbs; `check` changes nothing, and raises what `send` would."""

    def __init__(
        self,
        app: AdminApp,
        store: Store,
        edit: Edit,
        redaction: Redaction = CLEAR,
        on_edit: OnEdit = lambda task, old, new: None,
        by: str = "",
    ) -> None:
        """`on_edit` is called for each job when it is checked; `by` is who asks for it."""
        if not callable(edit) and not isinstance(edit, Mapping):
            raise ConfigError(f"edit must map names to values, or be a function, not {edit!r}")
        self._app = app
        self._store = store
        self._edit = edit
        self._redaction = redaction
        self._on_edit = on_edit
        self._by = by

    async def check(self, queue: str, job_ids: Sequence[JobId]) -> list[bool]:
        """For each job whether it is dead; raises if one of those cannot be edited."""
        edited = await self._edited(queue, job_ids, self._on_edit)
        return [key in edited for key in job_ids]

    async def send(self, queue: str, job_ids: Sequence[JobId]) -> list[bool]:
        edited = await self._edited(queue, job_ids)
        if not edited:
            return [False] * len(job_ids)
        sent = await self._store.replay(queue, list(edited), list(edited.values()), self._by)
        done = dict(zip(edited, sent, strict=True))
        return [done.get(job_id, False) for job_id in job_ids]

    async def _edited(
        self, queue: str, job_ids: Sequence[JobId], on_edit: OnEdit | None = None
    ) -> dict[JobId, bytes]:
        """The new envelopes of those that are dead."""
        snapshots = await self._store.get(queue, job_ids, bodies=True)
        for job_id, seen in zip(job_ids, snapshots, strict=True):
            if seen is not None and seen.cause is not None:
                raise ConfigError(
                    f"job {ids.to_text(job_id)} cannot be edited: it never began, because job "
                    f"{ids.to_text(seen.cause.job_id)} failed; edit that one"
                )
        return {
            job_id: self._changed(ids.to_text(job_id), seen.envelope, on_edit)
            for job_id, seen in zip(job_ids, snapshots, strict=True)
            if seen is not None and seen.state is State.DEAD
        }

    def _changed(self, id: str, data: bytes, on_edit: OnEdit | None) -> bytes:
        envelope = opened(data)
        if envelope is None:
            raise ConfigError(f"job {id} cannot be edited: its bytes are not a job")
        if is_log(envelope.task):
            raise ConfigError(
                f"event {id} cannot be edited: other groups have it too; publish another"
            )
        task = self._app.tasks.get(envelope.task)
        if task is None:
            raise ConfigError(f"job {id} cannot be edited: this app has no task {envelope.task!r}")
        try:
            plain = unpacked(envelope, self._app.max_payload)
        except HeadraceError as error:
            raise ConfigError(f"job {id} cannot be edited: {error}") from None
        payload = self._payload(id, task, plain, on_edit)
        if len(payload) > self._app.max_payload:
            raise PayloadTooLarge(task.name, len(payload), self._app.max_payload)
        content = "" if envelope.overrides.feed else task.signature.content
        return _with_payload(data, payload, FORMATS[task.declared.run_in], content)

    def _payload(
        self, id: str, task: Task[..., Any], envelope: Envelope, on_edit: OnEdit | None
    ) -> bytes:
        try:
            arguments = EditedArguments(id, task, is_fed=bool(envelope.overrides.feed))
            read = form_of(envelope.overrides.content)
            if read is None:
                raise ConfigError(
                    f"job {id} cannot be edited: its arguments are "
                    f"{envelope.overrides.content!r}, which only its task can read"
                )
            return arguments.edited(envelope.payload, read.decoder(Any), self._edit, on_edit)
        except ArgumentError as error:
            if not self._redaction.active:
                raise
            problem, argument = str(error), error.argument
        # The message may quote a hidden value. Outside of the handler: the error itself must not be
        # chained.
        masks = self._redaction.masks(envelope)
        said = masks.text(problem.removeprefix(f"task {task.name!r}: "))
        raise ArgumentError(task.name, said, argument)


def _with_payload(envelope: bytes, payload: bytes, format: int, content: str) -> bytes:
    """The envelope with other arguments, for where the task runs now; what a newer sender put
    behind them stays."""
    fields = msgspec.msgpack.decode(envelope, type=list[msgspec.Raw])
    fields[0] = msgspec.Raw(msgspec.msgpack.encode(format))
    fields[_PAYLOAD] = msgspec.Raw(msgspec.msgpack.encode(payload))
    overrides = msgspec.msgpack.decode(
        b"".join(fields[4:5]) or b"\x80", type=dict[str, msgspec.Raw]
    )
    changed = {name: raw for name, raw in overrides.items() if name not in (_CONTENT, _PACKING)}
    if content:
        changed[_CONTENT] = msgspec.Raw(msgspec.msgpack.encode(content))
    if changed != overrides:
        fields[4:5] = [msgspec.Raw(msgspec.msgpack.encode(changed))]
    return msgspec.msgpack.encode(fields)
