"""`@app.fallback`: a function for jobs whose task nobody declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypedDict, TypeVar

import msgspec

from headrace.client.app import ClientApp
from headrace.client.context import Context
from headrace.client.task import Task
from headrace.client.topic.parameters import Parameters
from headrace.core import codec
from headrace.core.clock import Duration, to_ms
from headrace.core.job import ids
from headrace.core.job.envelope import Envelope
from headrace.core.job.retry import OnTimeout, Retry
from headrace.core.task.options import TaskOptions
from headrace.core.task.signature import Signature
from headrace.errors import ConfigError

_decode = codec.decoder(Any)


class UnknownJob(msgspec.Struct, frozen=True):
    """A job whose task no worker knew in time."""

    id: str
    """The id of the job."""
    task: str
    """The name of the task, as its sender knew it."""
    payload: bytes
    """The arguments as they came, in MessagePack."""
    headers: dict[str, str] = {}
    """As sent."""
    first_argument: bytes = b""
    """In a flow, the result of the job before it, in MessagePack; it is the first argument."""

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments as plain data, in the order of the parameters; those by keyword too,
        without their names. Of a function with `*args` or `**kwargs`, a list and a dict.
        `ValueError` if they cannot be read."""
        first = (_decode(self.first_argument),) if self.first_argument else ()
        rest = _decode(self.payload)
        if isinstance(rest, dict):
            return (*first, *rest.values())
        return (*first, *rest) if isinstance(rest, list) else (*first, rest)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as plain data, by name, without the one in `first_argument`, whose name
        only the task knows. `ValueError` if they cannot be read, or have no names, as those of a
        function with `*args` or `**kwargs`."""
        given = _decode(self.payload)
        if not isinstance(given, dict):
            raise ValueError(f"the arguments of job {self.id} have no names: use args")
        return given


FallbackFunction = (
    Callable[[UnknownJob], Any]
    | Callable[[UnknownJob, Context], Any]
    | Callable[[Context, UnknownJob], Any]
)
FallbackT = TypeVar("FallbackT", bound=FallbackFunction)


class FallbackKwargs(TypedDict, total=False):
    """What `@app.fallback(...)` takes."""

    after: Duration | None
    """How long other workers have to know the task: seconds or a timedelta; `unknown_task_after`
    unless said, and no longer than that."""
    retry: Retry | None
    timeout: Duration | None
    on_timeout: OnTimeout
    max_defers: int | None
    result_ttl: Duration


class Fallback(Task[..., Any]):
    """Runs jobs of tasks that this worker does not know, once others had the time to take them."""

    def __init__(
        self,
        app: ClientApp,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        unknown_after: timedelta,
    ) -> None:
        where = "fallback: "
        known = sorted(FallbackKwargs.__annotations__)
        if unknown := sorted(options.keys() - set(known)):
            raise ConfigError(f"app.fallback() has no {unknown[0]!r}; it takes {', '.join(known)}")
        self._parameters = Parameters(function, where, (Context,), what="job, an UnknownJob,")
        if self._parameters.event_type not in (Any, UnknownJob):
            raise ConfigError(
                f"{where}its parameter {self._parameters.event!r} is the job: annotate it as "
                "UnknownJob"
            )
        self.after_ms = _after_ms(options.get("after"), unknown_after)
        """How long others have, since a worker first met the job."""
        given = {name: value for name, value in options.items() if name != "after"}
        super().__init__(app, function, TaskOptions.of_function(function, given))
        self.injects = bool(self._parameters.fills)

    def unpack(
        self, envelope: Envelope, first_argument: bytes = b""
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The job itself is the function's argument."""
        headers = envelope.overrides.headers
        id, payload = ids.to_text(envelope.job_id), envelope.payload
        return (UnknownJob(id, envelope.task, payload, headers, first_argument),), {}

    def with_context(
        self, context: Context, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The job with the context where the function wants it."""
        return self._parameters.arguments(args[0], {Context: context})

    def _signature(self, function: Callable[..., Any]) -> Signature:
        return Signature(_takes_a_job, self.declared.name, Context)

    def __repr__(self) -> str:
        return f"<Fallback {self.name!r}>"


def unknown_rule(fallback: Fallback | None, after: timedelta) -> tuple[timedelta, str]:
    """When a job whose task nobody knows ends its wait, and what happens then."""
    if fallback is None:
        return after, "it is dead"
    return timedelta(milliseconds=fallback.after_ms), f"the fallback {fallback.name!r} gets it"


def _takes_a_job(job: Any) -> Any: ...


def _after_ms(given: Duration | None, most: timedelta) -> int:
    most_ms = to_ms("unknown_task_after", most)
    if given is None:
        return most_ms
    after_ms = to_ms("fallback: after", given)
    if after_ms > most_ms:
        raise ConfigError(
            f"fallback: after is longer than unknown_task_after ({most}), when the job is dead: "
            "raise that too"
        )
    return after_ms
