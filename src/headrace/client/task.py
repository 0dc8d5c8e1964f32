"""A function that can be called here, or sent to be run elsewhere."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, overload

from headrace.client.app import ClientApp
from headrace.client.context import Context, needs_context, running
from headrace.client.job import Job
from headrace.client.send.sync_use import explained_in_sync_code
from headrace.core.codec import SMALL, least_size
from headrace.core.foreign_words import OF_TASKS
from headrace.core.job import ids
from headrace.core.job.envelope import Envelope
from headrace.core.job.state import Reason
from headrace.core.job.unknown import BadArguments, NotKnownHere
from headrace.core.misfit import Misfit, UnknownContent
from headrace.core.payload.offload import Offload
from headrace.core.task.batch_items import awaited_item, only_item
from headrace.core.task.call import Call
from headrace.core.task.constraints import TaskConstraints
from headrace.core.task.open_call import OpenCall
from headrace.core.task.options import TaskOptions
from headrace.core.task.placement import check_run_in
from headrace.core.task.send_options import PLAIN, SendKwargs, sent_as
from headrace.core.task.signature import Signature
from headrace.core.wrong_use import foreign_names
from headrace.errors import ArgumentError, PayloadTooLarge

if TYPE_CHECKING:
    from typing import Self

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
T = TypeVar("T")
A = TypeVar("A")
# Covariant: type checkers differ in what exactly an async function returns, but it is a coroutine.
R_co = TypeVar("R_co", covariant=True)


@foreign_names(OF_TASKS, "task")
class Task(Generic[P, R_co]):
    """What `@app.task` makes of a function. `R_co` is what calling the function returns: for an
    async function a coroutine, whose result is the job's result."""

    on_success: Task[..., Any] | None = None
    """Its jobs are sent for those of this task that are done: see `client/ends/handlers.py`."""
    on_dead: Task[..., Any] | None = None
    """Its jobs are sent for those of this task that are dead."""
    included_by: tuple[str, ...] = ()
    """The modules that make it a task of its app, if it is declared on a `Tasks`."""

    def __init__(self, app: ClientApp, function: Callable[..., Any], declared: TaskOptions) -> None:
        self.app = app
        function = function.__func__ if isinstance(function, staticmethod) else function
        self.function = function
        self.declared = declared
        self.name = declared.name
        """How jobs find it."""
        self.signature = self._signature(function)
        self.injects = self.signature.injected_as is not None
        """Whether the function takes more than its arguments: see `with_context`."""
        self.is_async = inspect.iscoroutinefunction(function)
        self.constraints = TaskConstraints(declared, self.signature, app.queue_settings)
        self.packer = declared.payloads.packer(app.max_payload)
        """What makes large payloads smaller; None if they stay as they are."""
        self._sending = sent_as(self.signature.content)
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", declared.name)
        self.__module__ = function.__module__
        self.__qualname__ = getattr(function, "__qualname__", declared.name)
        self.__wrapped__ = function
        check_run_in(declared.name, declared.run_in, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the function here and now; a batch function with this one item."""
        if self.declared.batch is not None:
            alone: R_co = self._run_one(*args, *kwargs.values())
            return alone
        here, named = self._local_arguments(args, kwargs)
        value: R_co = self.function(*here, **named)
        return value

    # The overloads take the same arguments and differ in `self`: if the function is async, the
    # job's result is not the coroutine but what it returns.

    @overload
    async def enqueue(
        self: Task[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> Job[T]: ...
    @overload
    async def enqueue(self: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    @explained_in_sync_code("task.enqueue_sync(…)")
    async def enqueue(self, *args: Any, **kwargs: Any) -> Job[Any]:
        """Send a job; when this returns, the store has it.

        Args:
            *args: The function's arguments, by position. One that cannot travel is refused with an
                `ArgumentError`.
            **kwargs: The function's arguments, by name.
        """
        return await self.app.outgoing.send(self._call(args, kwargs))

    @overload
    def enqueue_sync(
        self: Task[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> Job[T]: ...
    @overload
    def enqueue_sync(self: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    def enqueue_sync(self, *args: Any, **kwargs: Any) -> Job[Any]:
        """`enqueue` for code without an event loop.

        Args:
            *args: The function's arguments, by position. One that cannot travel is refused with an
                `ArgumentError`.
            **kwargs: The function's arguments, by name.
        """
        return self.app.portal.run(self._send(self._call(args, kwargs)))

    async def _send(self, call: Call[Any]) -> Job[Any]:
        return await self.app.outgoing.send(call)

    # A call without its first argument is an `OpenCall`. Its `self` is what the task can be called
    # with: of a task, checkers do not infer the type of the first parameter.

    @overload
    def call(  # type: ignore[overload-overlap]
        self: Task[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> Call[T]: ...
    @overload
    def call(  # type: ignore[overload-overlap]
        self: Task[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> Call[R]: ...
    @overload
    def call(  # type: ignore[misc]
        self: Callable[Concatenate[A, Q], Coroutine[Any, Any, T]],
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> OpenCall[A, T]: ...
    @overload
    def call(
        self: Callable[Concatenate[A, Q], R], *args: Q.args, **kwargs: Q.kwargs
    ) -> OpenCall[A, R]: ...
    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The task with its arguments, to be sent later. The arguments are checked now. Without the
        first one it can be sent in a flow, where another call gives it.

        Args:
            *args: The function's arguments, by position. One that cannot travel is refused with an
                `ArgumentError`.
            **kwargs: The function's arguments, by name.
        """
        self._check_size(args, kwargs)
        payload, after_first = self.signature.encode_call(args, kwargs)
        if payload is None:
            payload = after_first or b""
            return self._make_call(payload, args, kwargs, after_first, lacks_first_argument=True)
        return self._make_call(payload, args, kwargs, after_first)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call[Any]:
        self._check_size(args, kwargs)
        return self._make_call(self.signature.encode(args, kwargs), args, kwargs)

    def _check_size(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Refuse what is far too large before it is encoded."""
        size = 0
        for value in (*args, *kwargs.values()) if kwargs else args:
            if type(value) not in SMALL:
                size += least_size(value)
        if size > self.app.max_payload and size > self._most_sent:
            argument = self.signature.outsized(args, kwargs)
            if argument is not None:
                raise PayloadTooLarge(self.name, size, self._most_sent, argument)

    def scheduled_call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call[Any]:
        """The call of a schedule that is declared with these arguments."""
        try:
            # Not by `_call`: here the call of a task that is not included yet is checked.
            self._check_size(args, kwargs)
            payload = self.signature.encode_declared(args, kwargs)
            return self._make_call(payload, tuple(args), dict(kwargs))
        except ArgumentError as error:
            if args or kwargs:
                raise
            problem = f"{error.problem}; give the schedule args=[…] or kwargs={{…}}"
            raise ArgumentError(self.name, problem) from None

    @property
    def max_payload(self) -> int:
        """How many bytes the arguments of a job may take."""
        return self.app.max_payload

    def _make_call(
        self,
        payload: bytes,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        payload_after_first: bytes | None = None,
        lacks_first_argument: bool = False,
    ) -> Call[Any]:
        if len(payload) > self.app.max_payload and len(payload) > self._most_sent:
            largest = self.signature.largest(
                (None, *args) if lacks_first_argument else args, kwargs
            )
            raise PayloadTooLarge(self.name, len(payload), self._most_sent, largest)
        sending, constraints, labels = self._sending, self.constraints, None
        if constraints.declares or sending is not PLAIN or self.app.queue_settings:
            labels = constraints.labels(sending, args, kwargs, lacks_first_argument)
        return Call(
            self.name,
            self.declared.queue,
            payload,
            self.signature.returns,
            sending,
            constraints,
            labels,
            payload_after_first,
            lacks_first_argument,
            self.declared.run_in,
            Any if payload_after_first is None else self.signature.first,
            self.packer,
        )

    @property
    def offload(self) -> Offload | None:
        """Where its large payloads are."""
        return self.declared.payloads.offload

    @property
    def _most_sent(self) -> int:
        """How many bytes the arguments of a job may take, in the store or outside of it."""
        return self.max_payload if self.offload is None else self.offload.max_payload

    @overload
    def job(self: Task[P, Coroutine[Any, Any, T]], id: str) -> Job[T]: ...
    @overload
    def job(self: Task[P, R], id: str) -> Job[R]: ...
    def job(self, id: str) -> Job[Any]:
        """The handle of a job of this task whose id is known; its result has the task's type.

        Args:
            id: The id of a job.
        """
        return Job(self.app, ids.to_id(id), None, self.signature.returns)

    def options(self, **changes: Unpack[SendKwargs]) -> Self:
        """The task with other options for jobs sent through it: `await
        add.options(delay=60).enqueue(1, 2)`. Options that are not given stay as they are.

        Args:
            queue: The queue that jobs wait in; "default" unless said. Some worker must read it.
            priority: From 0, the default, to 100: within a queue, a higher one goes first.
            unique_for: How long after its end a unique job still keeps others of its name away:
                seconds or a timedelta; 0, so not at all, unless said.
            debounce: Sent again within this time, the job starts that much later, with the newest
                arguments, instead of twice: seconds or a timedelta. None unless said.
            delay: How long from now, by the store's clock, the job may start: seconds or a
                timedelta.
            at: When the job may start: an aware datetime. One in the past means now.
            id: An id of your own, 1 to 256 bytes of printable text. One that the store still knows
                in this queue is not added again.
            retry: What happens after a failure, instead of the task's `retry`: a plain
                `Retry(...)`, for only its parameters travel.
            timeout: Seconds, or a timedelta, that one run may take, instead of the task's; None for
                no limit.
            on_timeout: "retry", "dead" or "defer", instead of the task's.
            max_defers: How often the job may be deferred before it is dead, instead of the task's;
                None for any number.
            expires: When the job may no longer start, and is dead as `expired` instead: seconds or
                a timedelta from now, or an aware datetime.
            headers: Texts by name that travel with the job; the function reads them as
                `ctx.headers`.
            tags: Up to 32 texts by which people find the job.
            key: Jobs of one key run one after the other, as they were sent, or as many at a time as
                the task says.
            unique: True or False, or the name that is to be unique among the jobs of the task.
            rate_key: The text whose `rate` the job counts for.
            batch_key: The key of the batch that the job gathers in.
            confirm: "replicated" or "disk": the send returns when a Redis replica, or the disk, has
                the job.
        """
        other = copy.copy(self)
        other._sending = self._sending.changed(**changes)
        self.constraints.check(other._sending)
        return other

    def unpack(
        self, envelope: Envelope, first_argument: bytes = b""
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments in an envelope, after `first_argument` if other jobs gave it;
        `BadArguments` if they do not fit."""
        signature = self.signature
        try:
            if envelope.overrides.content != signature.content:
                signature = signature.of_content(envelope.overrides.content)
            if first_argument:
                return signature.decode_with_first(envelope.payload, first_argument)
            return signature.decode(envelope.payload)
        except UnknownContent as error:
            raise NotKnownHere(Reason.BAD_ARGUMENTS, str(error)) from None
        except Misfit as error:
            raise BadArguments(str(error)) from None

    def with_context(
        self, context: Context, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with the context where the function wants it."""
        return self.signature.with_injected(context, args, kwargs)

    def _signature(self, function: Callable[..., Any]) -> Signature:
        return Signature.of_task(function, self.declared, Context)

    def _run_one(self, item: Any) -> Any:
        here, named = self._local_arguments(([item],), {})
        given = self.function(*here, **named)
        return awaited_item(given) if self.is_async else only_item(given)

    def _local_arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = self.signature.is_injected_in(kwargs) or any(isinstance(a, Context) for a in args)
        if given or not self.injects:
            return args, kwargs
        run = running.get()
        if run is not None:
            return self.with_context(run.context(), args, kwargs)
        if self.signature.can_be_none:
            return self.signature.with_injected(None, args, kwargs)
        raise needs_context(f"task {self.name!r}")

    def __repr__(self) -> str:
        return f"<Task {self.name!r} on {self.declared.queue!r}>"
