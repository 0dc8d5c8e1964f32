"""Replaying dead jobs with other arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.admin.app import caller_parameters
from headrace.admin.bodies import opened
from headrace.admin.redaction import CLEAR, Redaction
from headrace.core import codec
from headrace.core.job import ids
from headrace.core.job.envelope import FORMATS, Envelope
from headrace.core.job.ids import JobId
from headrace.core.job.state import State
from headrace.core.payload.codecs import form_of
from headrace.core.payload.packing import unpacked
from headrace.core.queue_names import is_log
from headrace.core.task.signature import Misfit
from headrace.errors import ArgumentError, ConfigError, HeadraceError, PayloadTooLarge

if TYPE_CHECKING:
    from headrace.admin.app import AdminApp
    from headrace.client.task import Task
    from headrace.store.contract import Store

Edit = Mapping[str, Any] | Callable[[dict[str, Any]], Mapping[str, Any]]
"""New values by the names of their arguments, or a function from all arguments, as plain values by
name, to all arguments."""

OnEdit = Callable[[str, Mapping[str, Any], Mapping[str, Any]], None]
"""Called with the task, and the old and new arguments of one of its jobs, by name."""

_PAYLOAD = 3
_CONTENT, _PACKING = "m", "p"
_NIL = b"\xc0"


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
            arguments = _Arguments(id, task, is_fed=bool(envelope.overrides.feed))
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


class _Arguments:
    """The arguments of one dead job, by the parameters that its task has now. Of one that `is_fed`,
    the first comes from the jobs before it, and stays as it is."""

    def __init__(self, id: str, task: Task[..., Any], *, is_fed: bool) -> None:
        self._id = id
        self._task = task
        parameters = list(caller_parameters(task).values())
        self._fed = parameters[0].name if is_fed and parameters else None
        if is_fed and parameters[:1] and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
            del parameters[0]
        self._python = inspect.Signature(parameters)
        kinds = {p.kind: p.name for p in parameters}
        self._rest = kinds.get(inspect.Parameter.VAR_KEYWORD)
        self._variadic = self._rest is not None or inspect.Parameter.VAR_POSITIONAL in kinds

    def edited(
        self,
        payload: bytes,
        decode: Callable[[bytes], Any],
        edit: Edit,
        on_edit: OnEdit | None = None,
    ) -> bytes:
        """The arguments with the edit, encoded; `ArgumentError` if they do not fit the task."""
        bound = self._python.bind_partial()
        named = self._named(payload, decode)
        changed = self._changed(named, edit)
        if on_edit is not None:
            on_edit(self._task.name, named, changed)
        # In the order of the parameters, on which binding relies.
        bound.arguments.update(
            {
                name: self._checked(name, changed[name])
                for name in self._python.parameters
                if name in changed
            }
        )
        try:
            return self._encoded(bound)
        except ArgumentError as error:
            prefix = f"task {self._task.name!r}: "
            raise self._misfit(str(error).removeprefix(prefix), error.argument) from None
        except Misfit as error:
            raise self._misfit(str(error)) from None

    def _encoded(self, bound: inspect.BoundArguments) -> bytes:
        signature = self._task.signature
        if self._fed is None:
            new = signature.encode(bound.args, bound.kwargs)
            signature.decode(new)
            return new
        after_first = signature.encode_call(bound.args, bound.kwargs)[1]
        if after_first is None:
            raise Misfit(f"it takes {self._takes} behind {self._fed!r}")
        signature.with_any_first().decode_with_first(after_first, _NIL)
        return after_first

    def _named(self, payload: bytes, decode: Callable[[bytes], Any]) -> dict[str, Any]:
        """The arguments as plain values by name."""
        try:
            values = decode(payload)
            if self._variadic:
                args, kwargs = values
                return dict(self._python.bind_partial(*args, **kwargs).arguments)
            return dict(zip(self._python.parameters, values, strict=len(values) > self._count))
        except codec.DECODE_ERRORS as error:
            raise self._misfit(
                f"its arguments do not fit {self._takes} any more: {error}"
            ) from None

    def _changed(self, arguments: dict[str, Any], edit: Edit) -> dict[str, Any]:
        if isinstance(edit, Mapping):
            given: Mapping[str, Any] = {**arguments, **edit}
        else:
            given = edit(dict(arguments))
            if not isinstance(given, Mapping):
                raise ConfigError(f"job {self._id}: edit must return a mapping, not {given!r}")
        if self._fed in given:
            raise ConfigError(
                f"job {self._id} cannot be edited: its first argument comes from the jobs before it"
            )
        changed = {name: value for name, value in given.items() if name in self._python.parameters}
        extra = {name: value for name, value in given.items() if name not in changed}
        if extra and self._rest is None:
            name = next(iter(extra))
            raise self._misfit(f"there is no argument {name!r}: it takes {self._takes}", name)
        if extra and self._rest is not None:
            more = self._checked(self._rest, changed.get(self._rest, {}))
            changed[self._rest] = {**more, **extra}
        return changed

    def _checked(self, name: str, value: Any) -> Any:
        """The value; `*args` must be a list, `**kwargs` a mapping."""
        kind = self._python.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL and not isinstance(value, (list, tuple)):
            raise self._misfit(f"'*{name}' takes a list of values, not {value!r}", name)
        if kind is inspect.Parameter.VAR_KEYWORD and not _is_named(value):
            raise self._misfit(
                f"'**{name}' takes a mapping from names to values, not {value!r}", name
            )
        return value

    @property
    def _count(self) -> int:
        return len(self._python.parameters)

    @property
    def _takes(self) -> str:
        return f"{self._task.name}{self._python}"

    def _misfit(self, problem: str, argument: str | None = None) -> ArgumentError:
        return ArgumentError(self._task.name, f"job {self._id}: {problem}", argument)


def _is_named(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


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
