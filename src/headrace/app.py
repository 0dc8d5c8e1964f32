"""`Headrace`: the registry of tasks, the store, and their lifetime."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from types import TracebackType, UnionType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from headrace.audit.audit import Audit, OnSinkError, Target
from headrace.audit.record import AuditRecord
from headrace.client.context import Context, CurrentRun
from headrace.client.decorators import (
    BatchTaskDecorator,
    ScheduleDecorator,
    Subscribe,
    SubscribeBatch,
    TaskDecorator,
)
from headrace.client.ends.handlers import end_handler
from headrace.client.ends.listener import (
    ListenedTask,
    Listener,
    ListenerT,
    Moment,
    listener_of,
)
from headrace.client.fallback import Fallback, FallbackKwargs, FallbackT
from headrace.client.flow_job import FlowJob
from headrace.client.found_flow import FoundFlow
from headrace.client.job import Job
from headrace.client.portal import Portal
from headrace.client.schedules import Schedules
from headrace.client.send.flow_sender import send_flow
from headrace.client.send.outgoing import Outgoing
from headrace.client.session import ClientSession
from headrace.client.task import Task
from headrace.client.topic.new_declarations import NewDeclarations
from headrace.client.topic.pattern_subscription import (
    PatternSubscription,
    bind_all,
    bind_topic,
    subscribe,
)
from headrace.client.topic.topic import Topic
from headrace.core import bounds as limits
from headrace.core.bounds import Overflow
from headrace.core.clock import Clock, Duration, SystemClock
from headrace.core.flow.flow import Flow
from headrace.core.job import ids
from headrace.core.job.history_rules import HistoryBounds, Keep
from headrace.core.job.ids import JobId
from headrace.core.payload.codecs import Codec, Form, TaskCodecName, form_of
from headrace.core.payload.compression import Compression
from headrace.core.payload.offload import Offload
from headrace.core.schedule.definition import Missed, Times
from headrace.core.sends import Sends
from headrace.core.task.call import Call
from headrace.core.task.options import (
    BATCH_WAIT,
    DefaultKwargs,
    TaskKwargs,
    TaskOptions,
    check_defaults,
    with_defaults,
)
from headrace.core.task.queue_settings import QueueSettings
from headrace.core.task.uniqueness import LabelMaker
from headrace.core.topic.subscription import SubscribeTopicsKwargs
from headrace.core.topic.topic import TopicKwargs
from headrace.errors import ConfigError, HeadraceError, ResultTimeout
from headrace.middleware import nesting, wrapping
from headrace.middleware.wrapping import Middleware
from headrace.settings import Settings
from headrace.store.contract import Store
from headrace.store.loop_local import LoopLocal
from headrace.store.url import CredentialProvider, open_store

if TYPE_CHECKING:
    from headrace.admin import Admin
    from headrace.core.scaling.snapshot import ScalingStrategy
    from headrace.metrics.pusher import MetricsPusher, MetricsSink
    from headrace.worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E")
ErrorHook = Callable[[str, BaseException, dict[str, Any]], object]
# What may be added to the wait of someone whose time is over.
_PATIENCE = 1.0
_HookT = TypeVar("_HookT", bound=ErrorHook)
_SinkT = TypeVar("_SinkT", bound=Target)
_StrategyT = TypeVar("_StrategyT", bound="ScalingStrategy")
_MetricsSinkT = TypeVar("_MetricsSinkT", bound="MetricsSink")
_LifespanT = TypeVar("_LifespanT", bound=Callable[..., AsyncIterator[Any]])


class Headrace(Settings):
    """Background jobs on the store that `url` names: `$HEADRACE_URL` or `sqlite:///headrace.db` if
    none is given. Each setting has a variable, `HEADRACE_LEASE` and so on; the argument wins.

    `async with app:` connects and closes; without it, connections are made when first needed.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        lease: float | None = None,
        crash_limit: int | None = None,
        require_durable: bool | None = None,
        max_payload: int | None = None,
        events: bool | None = None,
        confirm_replicas: int | None = None,
        confirm_disk: bool | None = None,
        credential_provider: CredentialProvider | None = None,
        redact: Callable[[str, Any], Any] | str | None = None,
        actions_kept: float | None = None,
        keep_done: Keep | None = None,
        keep_dead: Keep | None = None,
        keep_events: int | None = None,
        keep_log: int | None = None,
        max_pending_per_key: int | None = None,
        metrics_prefix: str | None = None,
        unknown_task_after: Duration | None = None,
        max_reconnect: Duration | None = None,
        codec: TaskCodecName | Codec | None = None,
        compress: Compression | None = None,
        compress_threshold: int | None = None,
        offload: Offload | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(
            url,
            namespace=namespace,
            lease=lease,
            crash_limit=crash_limit,
            require_durable=require_durable,
            max_payload=max_payload,
            events=events,
            confirm_replicas=confirm_replicas,
            confirm_disk=confirm_disk,
            credential_provider=credential_provider,
            redact=redact,
            actions_kept=actions_kept,
            keep_done=keep_done,
            keep_dead=keep_dead,
            keep_events=keep_events,
            keep_log=keep_log,
            max_pending_per_key=max_pending_per_key,
            metrics_prefix=metrics_prefix,
            unknown_task_after=unknown_task_after,
            max_reconnect=max_reconnect,
            codec=codec,
            compress=compress,
            compress_threshold=compress_threshold,
            offload=offload,
        )
        self.clock = clock or SystemClock()
        self.tasks: dict[str, Task[..., Any]] = {}
        self.topics: dict[str, Topic[Any]] = {}
        self.queue_settings: dict[str, QueueSettings] = {}
        self._queues: set[str] = set()
        self._task_defaults: dict[str, Any] = {}
        self.patterns: list[PatternSubscription[..., Any]] = []
        """What `subscribe` declares."""
        self.new_declarations = NewDeclarations()
        """For running workers, which serve what is declared later too."""
        self.schedules: Schedules = Schedules(self)
        """Schedules at run time: make, list, change, pause and remove them."""
        self.lifespan_function: Callable[..., AsyncIterator[Any]] | None = None
        self.scaling_strategy: ScalingStrategy | None = None
        """Says how many consumers there should be; None for `scale_by_load`."""
        self.middlewares: list[Middleware] = []
        """Outermost first; see `middleware`."""
        self.error_hooks: list[ErrorHook] = []
        self.listeners: list[Listener] = []
        """What `on` declares."""
        self.last_resort: Fallback | None = None
        """What `fallback` was given."""
        self.audits: list[Audit] = []
        self.outgoing: Outgoing = Outgoing(self)
        """Sends through the middleware."""
        self.sends: Sends = Sends()
        """What this process has sent, if metrics are asked for."""
        self.metrics_pushers: list[MetricsPusher] = []
        self._store: Store | None = None
        self._sessions: LoopLocal[ClientSession] = LoopLocal()
        self.portal: Portal = Portal(self.close)

    # Declaring

    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self, function: None = None, /, *, batch: None = None, **options: Unpack[TaskKwargs]
    ) -> TaskDecorator: ...
    @overload
    def task(
        self,
        function: None = None,
        /,
        *,
        batch: int,
        max_wait: Duration = BATCH_WAIT,
        batch_key: LabelMaker | str | None = None,
        grace: Duration | None = None,
        **options: Unpack[TaskKwargs],
    ) -> BatchTaskDecorator: ...
    def task(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a function a task. `timeout` None is no limit; `result_ttl` 0 keeps no result, which
        is the fastest. With `batch`, the function takes a list of up to `batch` items; the first
        waits up to `max_wait` for others. With `batch_key` or `grace`, jobs of one key gather in
        the store, until there are enough, or none came for `grace`. `on_success` and `on_dead` are
        functions or tasks that run as jobs of their own: with the job and its result, and with the
        job and its failure."""

        def make(function: Callable[..., Any]) -> Task[..., Any]:
            return self._registered(self._make_task(function, options))

        if function is not None:
            return make(function)
        return TaskDecorator(make) if options.get("batch") is None else BatchTaskDecorator(make)

    @overload
    def topic(
        self,
        name: str,
        event: type[E],
        *,
        key: Callable[[E], str | None] | None = None,
        **options: Unpack[TopicKwargs],
    ) -> Topic[E]: ...
    @overload
    def topic(
        self,
        name: str,
        event: UnionType,
        *,
        key: Callable[[Any], str | None] | None = None,
        **options: Unpack[TopicKwargs],
    ) -> Topic[Any]: ...
    def topic(
        self,
        name: str,
        event: Any,
        *,
        key: Callable[[Any], str | None] | None = None,
        **options: Unpack[TopicKwargs],
    ) -> Topic[Any]:
        """Declare a topic of events of one type. Events with the same `key` go to the same shard,
        and can be handled in order. An event stays for `retention`, and until each group has
        settled it, except groups that were not seen for `group_gone_after`. `overflow` says what
        happens when the log has `max_length` events."""
        if name in self.topics:
            raise ConfigError(f"topic {name!r} is declared twice: say all of it at one place")
        topic = Topic[Any](self, name, event, key, options)
        bind_topic(topic, self.patterns)
        self.topics[name] = topic
        self.new_declarations.changed()
        return topic

    @overload
    def subscribe(
        self,
        topics: str | Iterable[str],
        group: str,
        *,
        event: type[E],
        batch: None = None,
        **options: Unpack[SubscribeTopicsKwargs],
    ) -> Subscribe[E]: ...
    @overload
    def subscribe(
        self,
        topics: str | Iterable[str],
        group: str,
        *,
        event: type[E],
        batch: int,
        max_wait: Duration = BATCH_WAIT,
        **options: Unpack[SubscribeTopicsKwargs],
    ) -> SubscribeBatch[E]: ...
    @overload
    def subscribe(
        self,
        topics: str | Iterable[str],
        group: str,
        *,
        event: UnionType | None = None,
        batch: None = None,
        **options: Unpack[SubscribeTopicsKwargs],
    ) -> Subscribe[Any]: ...
    @overload
    def subscribe(
        self,
        topics: str | Iterable[str],
        group: str,
        *,
        event: UnionType | None = None,
        batch: int,
        max_wait: Duration = BATCH_WAIT,
        **options: Unpack[SubscribeTopicsKwargs],
    ) -> SubscribeBatch[Any]: ...
    def subscribe(
        self, topics: str | Iterable[str], group: str, *, event: Any = None, **options: Any
    ) -> Any:
        """Have a function called with the events of several topics: a list of names, or patterns
        such as `orders.*`, which also match topics that are declared, or appear in the store,
        later. Each topic has a group of this name. A topic that the app declares gives events of
        its own type; another gives those that can be read as `event`, or `bytes`. Other options
        are those of `topic.subscribe`, and `on_dead`, a function as for `topic.on_dead`."""

        def make(function: Callable[..., Any]) -> PatternSubscription[..., Any]:
            made = subscribe(self, topics, group, function, event, options)
            bind_all(made, self.topics, self.patterns)
            self.patterns.append(made)
            self.new_declarations.changed()
            return made

        return Subscribe[Any](make) if options.get("batch") is None else SubscribeBatch[Any](make)

    def queue(
        self,
        name: str,
        *,
        rate: str | None = None,
        burst: int | None = None,
        concurrency: int | None = None,
        max_length: int | None = None,
        overflow: Overflow = "reject",
        max_pending_per_key: int | None = None,
        keep_dead: Keep | None = None,
        keep_events: int | None = None,
        keep_log: int | None = None,
    ) -> None:
        """Declare a queue, which workers then read even if no task uses it. A `rate` holds for all
        jobs of any task that are sent to it from then on. At most `concurrency` of its jobs run at
        a time, on all workers of this program together. With `max_length`, it holds no more jobs
        that have not ended, running ones included: one that is too many is refused with
        `QueueFull`, or its sender waits ("block"), or the job that has waited longest is cancelled
        ("drop_oldest"). A job whose key has `max_pending_per_key` jobs that wait behind others of
        it already is refused with `KeyFull`. This, `keep_dead`, `keep_events` and `keep_log` are
        those of the app unless they are given."""
        settings = QueueSettings.of(
            name, rate, burst, max_length, overflow, concurrency, max_pending_per_key
        )
        usual = self.history_rules.queues.default
        retention = usual.changed(f"queue {name!r}: ", keep_dead, keep_events, keep_log)
        if settings.says_anything or any(
            each is not None for each in (keep_dead, keep_events, keep_log)
        ):
            if name in self.queue_settings:
                raise ConfigError(f"queue {name!r} is declared twice: say all of it at one place")
            self.queue_settings[name] = settings
            self.history_rules.queues.set(name, retention)
        self._queues.add(name)

    def defaults(self, **options: Unpack[DefaultKwargs]) -> None:
        """Options of all tasks that are declared from now on and do not say otherwise: `timeout`,
        `retry`, `result_ttl`, `keep_done`, `queue` and `priority`. Said again, it changes those
        that are named."""
        self._task_defaults |= check_defaults(options)

    def cron(
        self,
        expression: str,
        *,
        timezone: str = "UTC",
        missed: Missed = "skip",
        start: datetime | None = None,
        end: datetime | None = None,
        limit: int | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[TaskKwargs],
    ) -> ScheduleDecorator:
        """Run a function or a task at the times of a cron expression, once for the whole
        fleet, with these arguments. `missed` says what to do about ticks at which no worker ran.
        `name` is the schedule's, if not the task's; other options are those of `@app.task`."""
        times = Times(
            cron=expression, timezone=timezone, missed=missed, start=start, end=end, limit=limit
        )
        return self._scheduling(options, (args, kwargs or {}), times)

    def every(
        self,
        interval: Duration,
        *,
        missed: Missed = "skip",
        start: datetime | None = None,
        end: datetime | None = None,
        limit: int | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[TaskKwargs],
    ) -> ScheduleDecorator:
        """Run a function or a task every `interval`, as `cron` does: at whole intervals from
        `start`, or from midnight UTC of 1970, however long a run takes."""
        times = Times(every=interval, missed=missed, start=start, end=end, limit=limit)
        return self._scheduling(options, (args, kwargs or {}), times)

    def lifespan(self, function: _LifespanT) -> _LifespanT:
        """An async generator that a worker runs around its work: what it yields is `ctx.state`."""
        yields: bool = inspect.isasyncgenfunction(function)
        if not yields:
            raise ConfigError("@app.lifespan goes on an async generator function: one that yields")
        if self.lifespan_function is not None:
            raise ConfigError("the app has a lifespan already; it can have one")
        self.lifespan_function = function
        return function

    def scaling(self, strategy: _StrategyT) -> _StrategyT:
        """Decide how many worker processes `-p 1..8` runs, and how many consumers a subscription
        with `consumers=(1, 4)` has: `strategy` takes a `ScalingSnapshot` and returns a number. It
        is within the bounds given there, and must be wanted for a while before it is acted on."""
        if not callable(strategy):
            raise ConfigError(f"@app.scaling goes on a function of a snapshot, not on {strategy!r}")
        if inspect.iscoroutinefunction(strategy):
            raise ConfigError("@app.scaling goes on a plain function: it is asked in a parent too")
        if self.scaling_strategy is not None:
            raise ConfigError("the app has a scaling strategy already; it can have one")
        self.scaling_strategy = strategy
        return strategy

    @overload
    def fallback(self, function: FallbackT, /) -> FallbackT: ...
    @overload
    def fallback(
        self, /, **options: Unpack[FallbackKwargs]
    ) -> Callable[[FallbackT], FallbackT]: ...
    def fallback(self, function: Any = None, /, **options: Any) -> Any:
        """Call a function with each job whose task no worker knew in time, as an `UnknownJob`:
        after `unknown_task_after`, or `after`, which may be shorter. How it ends settles the job:
        its result, an error, `Reject`, `RetryLater` or `Defer`. Other options are those of
        `@app.task`. An app has one."""

        def declare(function: FallbackT) -> FallbackT:
            if self.last_resort is not None:
                raise ConfigError("the app has a fallback already; it can have one")
            given = with_defaults(options, self._fallback_defaults())
            self.last_resort = Fallback(self, function, given, self.unknown_task_after)
            return function

        return declare if function is None else declare(function)

    def middleware(self, *middleware: Middleware) -> None:
        """Wrap sending and running; the first one outermost, inside of those added before."""
        self.middlewares += [wrapping.check(one) for one in middleware]
        nesting.wrap(self.outgoing, self.middlewares)

    def metrics(self, sink: _MetricsSinkT, *, every: float = 10.0) -> _MetricsSinkT:
        """Hand the metrics of this process to `sink` every few seconds, from the first use of the
        store on: what it sends, and what a worker in it does. `sink` takes a list of
        `MetricSample`; `Statsd` and `OpenTelemetryMetrics` in `headrace.metrics` are sinks."""
        from headrace.metrics.pusher import MetricsPusher

        pusher = MetricsPusher(sink, every, self.metrics_prefix, self.sends)
        self.metrics_pushers.append(pusher)
        return sink

    def on_error(self, hook: _HookT) -> _HookT:
        """Call `hook(scope, error, details)` for each error of a handler ("handler",
        "broadcast", "on_dead"), of a sink ("audit") and of the store ("read", "reclaim", "settle",
        "promote", "trim" and so on). Sync, in a thread of its own, or async. Nothing waits for it,
        and its own errors are only logged."""
        if not callable(hook):
            raise ConfigError(f"on_error() takes a function, not {hook!r}")
        self.error_hooks.append(hook)
        return hook

    def on(
        self, kind: Moment, *, task: ListenedTask | Sequence[ListenedTask] | None = None
    ) -> Callable[[ListenerT], ListenerT]:
        """Call a function with a `WorkerEvent` after a worker of this app has written that a job is
        "done", "dead", "retried" or "cancelled", or has taken it over from a worker that is gone
        ("stalled"). `task` is a task, its name (`orders/billing` for a group), or a list of those.
        Sync, in a thread of its own, or async. Nothing waits for it, and its own errors are only
        logged."""
        make = listener_of(kind, task)

        def declare(function: ListenerT) -> ListenerT:
            self.listeners.append(make(function))
            return function

        return declare

    def audit(
        self,
        sink: _SinkT,
        *,
        on_error: OnSinkError = "keep",
        timeout: float | None = None,
        payloads: bool = False,
        only: Callable[[AuditRecord], bool] | None = None,
    ) -> _SinkT:
        """Record each delivery in the worker, before its outcome is settled: to a topic of
        `AuditRecord`, whose own deliveries are not recorded; as a line of a logger; or by a
        function, sync, in a thread of its own, or async. If that fails, or takes longer than
        `timeout` (5 s), the outcome stands, or with `on_error="fail"` the delivery fails."""
        audit = Audit(sink, on_error, timeout, payloads, only)
        if isinstance(sink, Topic) and sink.app is not self:
            raise ConfigError(
                f"audit(): topic {sink.name!r} is another app's: give a function that publishes to "
                "it, and see that the other app is open"
            )
        self.audits.append(audit)
        return sink

    # Sending

    def enter_middleware(self, run: CurrentRun) -> ExitStack:
        """Enter every middleware's `within`, around a function in a task process."""
        return nesting.entered(self.middlewares, run)

    @overload
    async def enqueue(self, step: Call[R]) -> Job[R]: ...
    @overload
    async def enqueue(self, step: Flow[R]) -> FlowJob[R]: ...
    async def enqueue(self, step: Call[Any] | Flow[Any]) -> Job[Any]:
        """Send one call, or a flow, or a call with all that it is after."""
        if not isinstance(step, Call) or step.links is not None:
            return await send_flow(self.outgoing, step)
        return await self.outgoing.send(step)

    @overload
    def enqueue_sync(self, step: Call[R]) -> Job[R]: ...
    @overload
    def enqueue_sync(self, step: Flow[R]) -> FlowJob[R]: ...
    def enqueue_sync(self, step: Call[Any] | Flow[Any]) -> Job[Any]:
        """`enqueue` for code without an event loop."""
        return self.portal.run(self.enqueue(step))

    async def enqueue_many(self, calls: Iterable[Call[R]]) -> list[Job[R]]:
        """Send many calls, in batches; the jobs in the order of the calls. Each batch is stored as
        a whole; if one fails, those before it are stored."""
        return await self.outgoing.send_many(calls)

    def job(self, id: str) -> Job[Any]:
        """The handle of a job whose id is known."""
        return Job(self, ids.to_id(id), None)

    def flow(self, id: str) -> FlowJob[Any]:
        """The handle of a flow whose id is known: to count, resume or cancel it in another process
        than the one that sent it. It asks every queue. Its `jobs` are the last one alone."""
        return FoundFlow(self.job(id))

    # Working

    def worker(
        self,
        *,
        queues: Sequence[str] | Mapping[str, int] | None = None,
        strict: bool = False,
        concurrency: int = limits.CONCURRENCY,
        threads: int | None = None,
        processes: int | None = None,
        drain: float = limits.DRAIN,
        wait_for_store: float | None = None,
        name: str | None = None,
        schedules: bool = True,
        upkeep: bool = True,
    ) -> Worker:
        """A worker of this app's tasks, on the queues they use unless others are given: alike, by
        weight (`{"mail": 3, "default": 1}`), or `strict`, each only what those before it leave. A
        store that is away at the start is waited for: for ever, or for `wait_for_store` seconds.
        `name` is for people; a part that no other worker has is added. With `schedules=False` it
        fires no schedules, with `upkeep=False` it only runs jobs: another worker has to do that."""
        from headrace.worker.settings import worker_settings
        from headrace.worker.worker import Worker

        settings = worker_settings(
            self,
            queues=queues,
            strict=strict,
            concurrency=concurrency,
            threads=threads,
            processes=processes,
            drain=drain,
            wait_for_store=wait_for_store,
            name=name,
            schedules=schedules,
            upkeep=upkeep,
        )
        return Worker(self, settings)

    @property
    def admin(self) -> Admin:
        """What people ask and do about queues and jobs."""
        from headrace.admin import Admin

        return Admin(self)

    @property
    def queues(self) -> list[str]:
        """The queues that the declared tasks use, and those that are declared themselves."""
        return sorted({*self._queues, *(task.declared.queue for task in self.tasks.values())})

    # Lifetime

    async def __aenter__(self) -> Headrace:
        (await self.session()).entered += 1
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        session = self._sessions.get()
        if session is None:
            return
        session.entered -= 1
        if not session.entered:
            await self.close()

    async def session(self) -> ClientSession:
        """What this event loop holds of the store; opened when first asked for."""
        session = self._sessions.get()
        if session is None:
            store = self.store
            await store.open()
            for pusher in self.metrics_pushers:
                pusher.start()
            session = self._sessions.get() or self._sessions.set(
                ClientSession(
                    store,
                    self.queue_settings,
                    self.sends,
                    self.max_pending_per_key,
                    max_reconnect=self.max_reconnect,
                )
            )
        return session

    async def close(self) -> None:
        """Close what this event loop holds; the app may be used again."""
        session = self._sessions.pop()
        if session is not None:
            await session.close()

    @property
    def store(self) -> Store:
        if self._store is None:
            self._store = open_store(
                self.url,
                namespace=self.namespace,
                crash_limit=self.crash_limit,
                require_durable=self.require_durable,
                events=self.events,
                clock=self.clock,
                confirm_replicas=self.confirm_replicas,
                confirm_disk=self.confirm_disk,
                credential_provider=self.credential_provider,
                history_rules=self.history_rules,
            )
        return self._store

    async def find_queue(self, job_id: JobId) -> str | None:
        """The queue that knows this job."""
        store = (await self.session()).store
        known = dict.fromkeys([*self.queues, *await store.queues()])
        return next(iter(await store.locate(list(known), job_id)), None)

    def result_form(self, content: str) -> Form | None:
        """The codec of results with this content type, if a task of the app has it."""
        forms = (task.signature.form for task in self.tasks.values())
        return form_of(content) or next((f for f in forms if f.on_the_wire == content), None)

    async def result_timeout(self, job_id: str, queue: str, waited: float) -> ResultTimeout:
        """The error of someone who has waited so long for this job."""
        with suppress(HeadraceError, TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                why = await self.admin.redacted().why(job_id, queue)
                return ResultTimeout(job_id, waited, why, self.shown_url)
        return ResultTimeout(job_id, waited)

    def _fallback_defaults(self) -> dict[str, Any]:
        own = FallbackKwargs.__annotations__
        return {name: given for name, given in self._task_defaults.items() if name in own}

    def _scheduling(
        self,
        options: TaskKwargs,
        arguments: tuple[Sequence[Any], Mapping[str, Any]],
        times: Times,
    ) -> ScheduleDecorator:
        return ScheduleDecorator(
            self.schedules, self._make_task, self._registered, options, arguments, times
        )

    def _make_task(
        self, function: Callable[..., Any], options: Mapping[str, Any]
    ) -> Task[..., Any]:
        """A task that could be registered; `ConfigError` if not."""
        given = with_defaults(options, self._task_defaults)
        task = Task[..., Any](
            self, function, TaskOptions.of_function(function, given, self.payloads)
        )
        self._check_name(task)
        task.on_success = end_handler(task, "on_success", given, self._task_defaults)
        task.on_dead = end_handler(task, "on_dead", given, self._task_defaults)
        for handler in (task.on_success, task.on_dead):
            if handler is not None:
                self._check_name(handler)
        return task

    def _check_name(self, task: Task[..., Any]) -> None:
        other = self.tasks.get(task.name, task)
        if other is not task:
            raise ConfigError(
                f"two tasks are named {task.name!r}: {other.__module__}.{other.__qualname__} and "
                f"{task.__module__}.{task.__qualname__}; give one of them @app.task(name=…)"
            )

    def _registered(self, task: Task[..., Any]) -> Task[..., Any]:
        for handler in (task.on_success, task.on_dead):
            if handler is not None and handler.name not in self.tasks:
                self._registered(handler)
        self.tasks[task.name] = task
        if (keep_done := task.declared.keep_done) is not None:
            bounds = HistoryBounds.of(f"task {task.name!r}: keep_done", keep_done)
            self.history_rules.set(task.name, bounds)
        return task
