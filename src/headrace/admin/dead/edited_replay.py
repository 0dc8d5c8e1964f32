"""Replaying dead jobs with other arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.admin.bodies import opened
from headrace.admin.dead.edited_arguments import Edit, EditedArguments, OnEdit
from headrace.admin.redaction import CLEAR, Redaction
from headrace.core import codec
from headrace.core.job import ids
from headrace.core.job.constraints import NO_CONSTRAINTS, Constraints, decode_constraints
from headrace.core.job.envelope import FORMATS, Envelope, is_newer
from headrace.core.job.ids import JobId
from headrace.core.job.state import State
from headrace.core.payload.codecs import form_of
from headrace.core.payload.packing import unpacked
from headrace.core.queue_names import is_log
from headrace.errors import ArgumentError, ConfigError, HeadraceError, PayloadTooLarge

if TYPE_CHECKING:
    from headrace.admin.app import AdminApp
    from headrace.client.task import Task
    from headrace.store.contract import JobSnapshot, Store

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
            job_id: self._changed(ids.to_text(job_id), seen, on_edit)
            for job_id, seen in zip(job_ids, snapshots, strict=True)
            if seen is not None and seen.state is State.DEAD
        }

    def _changed(self, id: str, seen: JobSnapshot, on_edit: OnEdit | None) -> bytes:
        data, kept = seen.envelope, decode_constraints(seen.constraints)
        envelope = opened(data)
        if envelope is None and is_newer(data):
            raise ConfigError(
                f"job {id} cannot be edited: a newer version of Headrace sent it; edit it with that"
            )
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
        payload = self._payload(id, task, plain, kept, on_edit)
        if len(payload) > self._app.max_payload:
            raise PayloadTooLarge(task.name, len(payload), self._app.max_payload)
        content = "" if envelope.overrides.feed else task.signature.content
        return _with_payload(data, payload, FORMATS[task.declared.run_in], content)

    def _payload(
        self,
        id: str,
        task: Task[..., Any],
        envelope: Envelope,
        kept: Constraints,
        on_edit: OnEdit | None,
    ) -> bytes:
        edits: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []

        def note(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
            edits.append((old, new))
            if on_edit is not None:
                on_edit(name, old, new)

        try:
            arguments = EditedArguments(id, task, is_fed=bool(envelope.overrides.feed))
            read = form_of(envelope.overrides.content)
            if read is None:
                raise ConfigError(
                    f"job {id} cannot be edited: its arguments are "
                    f"{envelope.overrides.content!r}, which only its task can read"
                )
            payload = arguments.edited(envelope.payload, read.decoder(Any), self._edit, note)
            _check_constraints(id, task, arguments, kept, envelope, payload, edits[0])
            return payload
        except ArgumentError as error:
            if not self._redaction.active:
                raise
            problem, argument = str(error), error.argument
        # The message may quote a hidden value. Outside of the handler: the error itself must not be
        # chained.
        masks = self._redaction.masks(envelope)
        said = masks.text(problem.removeprefix(f"task {task.name!r}: "))
        raise ArgumentError(task.name, said, argument)


def _check_constraints(
    id: str,
    task: Task[..., Any],
    arguments: EditedArguments,
    kept: Constraints,
    envelope: Envelope,
    payload: bytes,
    edit: tuple[Mapping[str, Any], Mapping[str, Any]],
) -> None:
    """Refuse an edit of what a constraint was made of. The store could not give the job another
    unique name: if a job has that one, there would be two."""
    if kept == NO_CONSTRAINTS:
        return
    old, new = edit
    before = task.signature.of_content(envelope.overrides.content)
    option = task.constraints.of_arguments.changed(
        kept,
        arguments.ways(before, envelope.payload, old),
        arguments.ways(task.signature, payload, new),
        lacks_first_argument=bool(envelope.overrides.feed),
    )
    if option is None:
        return
    names = " and ".join(map(repr, _changed_names(old, new)))
    instead = "send a new flow" if kept.flow else "enqueue a new job"
    raise ConfigError(
        f"job {id} cannot be edited: {option}= of task {task.name!r} is made of its arguments, and "
        f"differs with the new {names}; {instead}, and purge this one"
    )


def _changed_names(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The arguments that were changed, added or left out."""
    return [
        name
        for name in {**old, **new}
        if name not in old or name not in new or not _alike(old[name], new[name])
    ]


def _alike(old: object, new: object) -> bool:
    try:
        return codec.encode_alike(old) == codec.encode_alike(new)
    except Exception:
        # Only the codec of the task can encode it: it is of no type that arrives.
        return False


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
