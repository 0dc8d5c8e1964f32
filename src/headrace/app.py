"""`Headrace`: the registry of tasks, the store, and their lifetime."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import ExitStack, suppress
from datetime import datetime
from types import TracebackType, UnionType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from headrace.audit.audit import Audit, OnSinkError, Target
from headrace.audit.record import AuditRecord
from headrace.client.context import CurrentRun
from headrace.client.decorators import ScheduleArguments, Subscribe, SubscribeBatch
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
from headrace.client.include.declaring import TaskDeclarations
from headrace.client.include.inclusion import take_all
from headrace.client.include.modules import IncludedModules
from headrace.client.include.registry import TaskRegistry
from headrace.client.include.tasks import Entry, Tasks, join
from headrace.client.job import Job
from headrace.client.portal import Portal
from headrace.client.schedules import Schedules
from headrace.client.send.flow_sender import send_flow
from headrace.client.send.outgoing import Outgoing
from headrace.client.send.sync_use import explained_in_sync_code
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
from headrace.core.flow.flow import Flow, one_call
from headrace.core.foreign_words import (
    APP_OPTIONS,
    OF_APPS,
    WORKER_OPTIONS,
)
from headrace.core.job import ids
from headrace.core.job.history_rules import HistoryBounds, Keep
from headrace.core.job.ids import JobId
from headrace.core.job.retry import check_timeouts
from headrace.core.payload.codecs import Codec, Form, TaskCodecName, form_of
from headrace.core.payload.compression import Compression
from headrace.core.payload.offload import Offload
from headrace.core.schedule.definition import Times
from headrace.core.sends import Sends
from headrace.core.task.call import Call
from headrace.core.task.options import (
    BATCH_WAIT,
    TaskOptions,
    with_defaults,
)
from headrace.core.task.process_lifespan import START_TIMEOUT, ProcessLifespan, process_lifespan_of
from headrace.core.task.queue_settings import QueueSettings
from headrace.core.topic.subscription import SubscribeTopicsKwargs
from headrace.core.topic.topic import TopicKwargs
from headrace.core.wrong_use import checks_options, foreign_names, needs_async_with
from headrace.errors import ConfigError, HeadraceError, ResultTimeout
from headrace.middleware import nesting, wrapping
from headrace.middleware.wrapping import Middleware
from headrace.override import Override, overridden
from headrace.settings import Settings
from headrace.store.contract import Store
from headrace.store.loop_local import LoopLocal
from headrace.store.url import CredentialProvider, check_clock, open_store

if TYPE_CHECKING:
    from headrace.admin import Admin
    from headrace.core.scaling.snapshot import ScalingStrategy
    from headrace.metrics.pusher import MetricsPusher, MetricsSink
    from headrace.testing.kit import TestKit
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
_ProcessLifespanT = TypeVar("_ProcessLifespanT", bound=Callable[..., Iterator[Any]])
_LifespanT = TypeVar("_LifespanT", bound=Callable[..., AsyncIterator[Any]])


@needs_async_with("app", "in code without an event loop leave it out, and use enqueue_sync")
@foreign_names(OF_APPS)
class Headrace(Settings, TaskDeclarations):
    """Background jobs on the store that `url` names: `$HEADRACE_URL` or `sqlite:///headrace.db` if
    none is given. Each setting has a variable, `HEADRACE_LEASE` and so on; the argument wins.

    `include` names modules that declare tasks; they are imported when all tasks are needed, by a
    worker for example, so they may import the app.

    `async with app:` connects and closes; without it, connections are made when first needed.

    Args:
        url: The store: `sqlite:///…`, `memory://`, `redis://…`, `rediss://…`, `redis+sentinel://…`
            or `redis+cluster://…`, or the same with `valkey`. `sqlite:///headrace.db` unless said.
        namespace: Apps in different namespaces of one store see nothing of each other. "headrace"
            unless said.
        lease: Seconds until the jobs of a silent worker are taken over; 30 unless said.
        crash_limit: How many workers a job may crash before it is dead; 3 unless said.
        require_durable: Whether to refuse a store that may lose jobs; False unless said.
        max_payload: Bytes that the arguments, the result, or a value of `ctx.once` may take; 4 MiB
            unless said.
        events: Whether events and counters are kept; True unless said.
        confirm_replicas: How many Redis replicas must have a job before its send returns; 0 unless
            said.
        confirm_disk: Whether a send returns only when the job is on the disk of the Redis server;
            False unless said.
        credential_provider: Gives connections to Redis their user and password, again and again,
            for passwords that change.
        redact: What people see of arguments and results: a function of the task's name and the
            value, or "module:function". All of it unless said.
        actions_kept: Seconds for which the audit log keeps what people did; 90 days unless said.
        keep_done: What is kept of jobs that have ended: a number of jobs, a timedelta, a pair of
            both, or 0 for nothing. The last 1,000 of each queue, for an hour, unless said.
        keep_dead: What is kept of the dead jobs of each queue, as with `keep_done`; 100,000, for 30
            days, unless said.
        keep_events: About how many events of each queue are kept; 100,000 unless said.
        keep_log: How many lines of each job's log are kept; 1,000 unless said.
        max_pending_per_key: How many jobs of one key may wait behind others of it; any number
            unless said.
        metrics_prefix: What the names of metrics begin with; "headrace" unless said.
        unknown_task_after: How long a job waits for a worker that knows its task, or of another
            version that may take its arguments, before it is dead: seconds or a timedelta; an hour
            unless said.
        max_reconnect: How long a store may be away before workers end and waits for results fail:
            seconds or a timedelta; for ever unless said.
        codec: The codec of tasks and topics that name none: "msgpack", the default, "json", or a
            `Codec`.
        compress: "zstd" or "zlib" makes large payloads smaller; none unless said.
        compress_threshold: Bytes from which on a payload is compressed; 1,024 unless said.
        offload: Where large payloads go instead of into the store; none unless said.
        include: Modules that declare tasks, such as "shop.mail": they are imported when all tasks
            are needed.
        clock: The time, for tests on SQLite and in memory; the system's unless said.
    """

    @checks_options("Headrace()", APP_OPTIONS)
    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        lease: Duration | None = None,
        crash_limit: int | None = None,
        require_durable: bool | None = None,
        max_payload: int | None = None,
        events: bool | None = None,
        confirm_replicas: int | None = None,
        confirm_disk: bool | None = None,
        credential_provider: CredentialProvider | None = None,
        redact: Callable[[str, Any], Any] | str | None = None,
        actions_kept: Duration | None = None,
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
        include: Sequence[str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        TaskDeclarations.__init__(self)
        Settings.__init__(
            self,
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
            include=include,
        )
        self._included = IncludedModules(self.modules)
        self.clock: Clock = clock or SystemClock()
        check_clock(self.url, self.clock)
        self.tasks: TaskRegistry = TaskRegistry()
        self.topics: dict[str, Topic[Any]] = {}
        self.queue_settings: dict[str, QueueSettings] = {}
        self._queues: set[str] = set()
        self.patterns: list[PatternSubscription[..., Any]] = []
        """What `subscribe` declares."""
        self.new_declarations = NewDeclarations()
        """For running workers, which serve what is declared later too."""
        self.schedules: Schedules = Schedules(self)
        """Schedules at run time: make, list, change, pause and remove them."""
        self.lifespan_function: Callable[..., AsyncIterator[Any]] | None = None
        self.process_lifespan_declared: ProcessLifespan | None = None
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
        self.running_workers: set[object] = set()
        """The workers of this app that run in this process."""
        self.overrides: list[Override[Any]] = []
        """Those that hold, the innermost last; see `override`."""
        self._store: Store | None = None
        self._sessions: LoopLocal[ClientSession] = LoopLocal()
        self.portal: Portal = Portal(self.close)

    # Declaring

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
    @overload
    def topic(
        self,
        name: str,
        event: type[Any] | UnionType,
        *,
        key: None = None,
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
        """Declare a topic: a log of events of one type. Each group that subscribes to it gets each
        event. An event stays for `retention`, and until each group has settled it, except groups
        that were not seen for `group_gone_after`.

        Args:
            name: The name of the topic.
            event: The type of its events: a dataclass, a msgspec struct, a pydantic model, a union
                of those, or `bytes`.
            key: Makes the key of an event. Events of one key go to the same shard, and can be
                handled in order. No event has one unless said.
            retention: How long an event stays at least: seconds or a timedelta; a day unless said.
            shards: How many logs share the events, for Redis Cluster; 1 unless said.
            max_length: How many events the topic holds; no limit unless said.
            overflow: What happens to an event too many: "reject", the default, raises `TopicFull`;
                "block" waits; "drop_oldest" and "drop_newest" drop one.
            codec: How events are encoded: "msgpack", "json", "raw", "protobuf", or an `EventCodec`.
                The app's unless said.
            version: The version of the event type, from 1, the default.
            upcast: Makes events of older versions into those of this one: a function, or one for
                each version.
            source: The name of the publisher, unless `publish` gives another.
            max_payload: Bytes that an event may take. The app's unless said.
            group_gone_after: How long a group without workers still holds events back: seconds or a
                timedelta; 7 days unless said.
            require_key: Whether an event without a key is refused; False unless said.
            compress: "zstd" or "zlib" makes large payloads smaller. The app's unless said.
            compress_threshold: Bytes from which on a payload is compressed. The app's, or 1,024,
                unless said.
            offload: Where large payloads go instead of into the store. The app's unless said.
        """
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
        event: type[Any] | UnionType | None = None,
        batch: None = None,
        **options: Unpack[SubscribeTopicsKwargs],
    ) -> Subscribe[Any]: ...
    @overload
    def subscribe(
        self,
        topics: str | Iterable[str],
        group: str,
        *,
        event: type[Any] | UnionType | None = None,
        batch: int,
        max_wait: Duration = BATCH_WAIT,
        **options: Unpack[SubscribeTopicsKwargs],
    ) -> SubscribeBatch[Any]: ...
    def subscribe(
        self, topics: str | Iterable[str], group: str, *, event: Any = None, **options: Any
    ) -> Any:
        """Have a function called with the events of several topics. Each topic has a group of this
        name. A topic that the app declares gives events of its own type; another gives those that
        can be read as `event`, or `bytes`.

        Args:
            topics: A list of names, or patterns such as `orders.*`, which also match topics that
                are declared, or appear in the store, later.
            group: The name of the group, in each of these topics.
            event: The type of the events of topics that this app does not declare.
            batch: The function takes a list of up to this many events. None, the default, for one
                event at a time.
            max_wait: How long the first event of a batch waits for others: seconds or a timedelta;
                0.5 unless said.
            retry: What happens after a failure; `Retry()`, three runs in all, unless said.
            timeout: How long one run may take: seconds or a timedelta; 300 unless said, None for no
                limit.
            on_timeout: What a run that takes longer means: a failed attempt ("retry", the default),
                the end ("dead"), or another run that counts no attempt ("defer").
            max_defers: How often a job may be deferred before it is dead; 1,000 unless said, None
                for no limit.
            ack: When an event is acknowledged: after the function has returned ("success", the
                default), before it begins ("receive"), or by its `Delivery` ("manual").
            ordered: Whether events of one key are handled one after the other; False unless said.
            on_failure: What a dead event of an ordered group does to later ones of its key: "block"
                them, the default, "skip" it, or "fail_key", which fails them too.
            max_in_flight: How many events one consumer holds at a time; the worker's concurrency
                unless said.
            begin: Where a new group begins: "new", the default, "start", the id of an event, or a
                time.
            consumers: How many consumers each worker process has: a number, 1 unless said, or the
                least and the most.
            name: The name in logs, counters and AsyncAPI; `topic/group` unless said.
            require_key: Whether the topic refuses events without a key, for the sake of this group;
                False unless said.
            on_dead: A function that is called with each event that the group gives up, as for
                `topic.on_dead`.
        """

        def make(function: Callable[..., Any]) -> PatternSubscription[..., Any]:
            made = subscribe(self, topics, group, function, event, options)
            bind_all(made, self.topics, self.patterns)
            self.patterns.append(made)
            self.new_declarations.changed()
            return made

        return Subscribe[Any](make) if options.get("batch") is None else SubscribeBatch[Any](make)

    @checks_options("app.queue()")
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
        """Declare a queue, which workers then read even if no task uses it. What is said holds for
        all jobs of any task that are sent to it from then on.

        Args:
            name: The name of the queue.
            rate: How often its jobs may start, on all workers together: "100/m", "3/10s".
            burst: How many of a `rate` may start at once; the others follow evenly.
            concurrency: How many of its jobs run at a time, on all workers of this program
                together.
            max_length: How many jobs that have not ended it holds, running ones included.
            overflow: What happens to a job too many: "reject" raises `QueueFull`, "block" makes its
                sender wait, "drop_oldest" cancels the job that has waited longest.
            max_pending_per_key: How many jobs of one key may wait behind others of it; one more is
                refused with `KeyFull`. The app's unless said.
            keep_dead: What is kept of its dead jobs: a number, a timedelta, or a pair of both. The
                app's unless said.
            keep_events: About how many of its events are kept. The app's unless said.
            keep_log: How many lines of each job's log are kept. The app's unless said.
        """
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

    def lifespan(self, function: _LifespanT) -> _LifespanT:
        """An async generator that a worker runs around its work: what it yields is `ctx.state`.

        Args:
            function: An async generator function; it may take the app as its only parameter.
        """
        yields: bool = inspect.isasyncgenfunction(function)
        if not yields:
            raise ConfigError("@app.lifespan goes on an async generator function: one that yields")
        if self.lifespan_function is not None:
            raise ConfigError("the app has a lifespan already; it can have one")
        self.lifespan_function = function
        return function

    @overload
    def process_lifespan(self, function: _ProcessLifespanT) -> _ProcessLifespanT: ...
    @overload
    def process_lifespan(
        self, *, timeout: float = START_TIMEOUT
    ) -> Callable[[_ProcessLifespanT], _ProcessLifespanT]: ...
    def process_lifespan(self, function: Any = None, *, timeout: float = START_TIMEOUT) -> Any:
        """A plain generator that each process of `run_in="process"` tasks runs around its work:
        what it yields is `ctx.state` there. It runs before the first job of the process, and may
        take `timeout` seconds, which do not count for the job. What follows its `yield` runs when
        the process leaves: after `max_jobs_per_process`, or when the worker stops. If it fails, the
        job at hand fails with its error, and the next job of the process tries again. If it takes
        too long, its process is killed, and the job at hand fails with `ProcessDied`.

        Args:
            function: A plain generator function, where the decorator stands without brackets.
            timeout: Seconds that it may take to begin. A warning is logged after half of them.
        """

        def declare(function: _ProcessLifespanT) -> _ProcessLifespanT:
            self.process_lifespan_declared = process_lifespan_of(
                function, timeout, self.process_lifespan_declared
            )
            return function

        return declare if function is None else declare(function)

    def scaling(self, strategy: _StrategyT) -> _StrategyT:
        """Decide how many worker processes `-p 1..8` runs, and how many consumers a subscription
        with `consumers=(1, 4)` has: `strategy` takes a `ScalingSnapshot` and returns a number. It
        is within the bounds given there, and must be wanted for a while before it is acted on.

        Args:
            strategy: A plain function from a `ScalingSnapshot` to a number.
        """
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
        """Call a function with each job whose task no worker knew in time, as an `UnknownJob`. How
        it ends settles the job: its result, an error, `Reject`, `RetryLater` or `Defer`. An app has
        one.

        Args:
            function: The function, where the decorator stands without brackets.
            after: How long other workers have to know the task: seconds or a timedelta;
                `unknown_task_after` unless said, and no longer than that.
            retry: What happens after a failure; `Retry()`, three runs in all, unless said.
            timeout: How long one run may take: seconds or a timedelta; 300 unless said, None for no
                limit.
            on_timeout: What a run that takes longer means: a failed attempt ("retry", the default),
                the end ("dead"), or another run that counts no attempt ("defer").
            max_defers: How often a job may be deferred before it is dead; 1,000 unless said, None
                for no limit.
            result_ttl: How long the result is kept: seconds or a timedelta; 600 unless said. 0
                keeps none, which is the fastest.
        """

        def declare(function: FallbackT) -> FallbackT:
            if self.last_resort is not None:
                raise ConfigError("the app has a fallback already; it can have one")
            check_timeouts("fallback: ", options)
            given = with_defaults(options, self._fallback_defaults())
            self.last_resort = Fallback(self, function, given, self.unknown_task_after)
            return function

        return declare if function is None else declare(function)

    def middleware(self, *middleware: Middleware) -> None:
        """Wrap sending and running; the first one outermost, inside of those added before.

        Args:
            middleware: Any number of them, outermost first.
        """
        self.middlewares += [wrapping.check(one) for one in middleware]
        nesting.wrap(self.outgoing, self.middlewares)

    def metrics(self, sink: _MetricsSinkT, *, every: Duration = 10.0) -> _MetricsSinkT:
        """Hand the metrics of this process to `sink` every few seconds, from the first use of the
        store on: what it sends, and what a worker in it does. `sink` takes a list of
        `MetricSample`; `Statsd` and `OpenTelemetryMetrics` in `headrace.metrics` are sinks.

        Args:
            sink: Takes a list of `MetricSample`, and sends them somewhere.
            every: Seconds between two lists.
        """
        from headrace.metrics.pusher import MetricsPusher

        pusher = MetricsPusher(sink, every, self.metrics_prefix, self.sends)
        self.metrics_pushers.append(pusher)
        return sink

    def on_error(self, hook: _HookT) -> _HookT:
        """Call `hook(scope, error, details)` for each error of a handler ("handler",
        "broadcast", "on_dead"), of a sink ("audit") and of the store ("read", "reclaim", "settle",
        "promote", "trim" and so on). Sync, in a thread of its own, or async. Nothing waits for it,
        and its own errors are only logged.

        Args:
            hook: A function of the scope, the error, and a dict of details.
        """
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
        logged.

        Args:
            kind: What happened: "done", "dead", "retried", "cancelled" or "stalled".
            task: Only jobs of this task: a task, its name (`orders/billing` for a group), or a list
                of those. All unless said.
        """
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
        timeout: Duration | None = None,
        payloads: bool = False,
        only: Callable[[AuditRecord], bool] | None = None,
    ) -> _SinkT:
        """Record each delivery in the worker, before its outcome is settled: to a topic of
        `AuditRecord`, whose own deliveries are not recorded; as a line of a logger; or by a
        function, sync, in a thread of its own, or async. If that fails, or takes longer than
        `timeout` (5 s), the outcome stands, or with `on_error="fail"` the delivery fails.

        Args:
            sink: A topic of `AuditRecord`, a logger, or a function of a record.
            on_error: What happens if recording fails: the outcome stands ("keep"), or the delivery
                fails ("fail").
            timeout: Seconds that recording may take; 5 unless said.
            payloads: Whether records hold arguments and results.
            only: Says of each record whether it is written; all are unless said.
        """
        if timeout is not None:
            timeout = limits.check_seconds("audit(timeout=)", timeout)
        audit = Audit(sink, on_error, timeout, payloads, only)
        if isinstance(sink, Topic) and sink.app is not self:
            raise ConfigError(
                f"audit(): topic {sink.name!r} is another app's: give a function that publishes to "
                "it, and see that the other app is open"
            )
        self.audits.append(audit)
        return sink

    def include(self, tasks: Tasks, *, prefix: str = "") -> None:
        """Make the tasks and schedules of a `Tasks` those of this app, under their own names, which
        begin with the prefix of the `Tasks`, or with `prefix` before that. `defaults` of the app
        hold for what they do not say.

        Args:
            tasks: What is included; in one app only.
            prefix: One more prefix for the names of its tasks and schedules.
        """
        join(self, tasks, prefix)

    def load(self) -> None:
        """Import the modules of `include`, so that all tasks are declared. Workers, commands, the
        dashboard and `testing` do so by themselves. `ConfigError` names a module that fails."""
        self._included.load(self)

    # Sending

    def enter_middleware(self, run: CurrentRun) -> ExitStack:
        """Enter every middleware's `within`, around a function in a task process."""
        return nesting.entered(self.middlewares, run)

    @overload
    async def enqueue(self, step: Call[R]) -> Job[R]: ...
    @overload
    async def enqueue(self, step: Flow[R]) -> FlowJob[R]: ...
    @explained_in_sync_code("app.enqueue_sync(…)")
    async def enqueue(self, step: Call[Any] | Flow[Any], *_: object, **__: object) -> Any:
        """Send one call, or a flow, or a call with all that it is after.

        Args:
            step: What `task.call`, `chain` or `group` made.
        """
        if _ or __:
            raise one_call(step)
        if not isinstance(step, Call) or step.links is not None:
            return await send_flow(self.outgoing, step)
        return await self.outgoing.send(step)

    @overload
    def enqueue_sync(self, step: Call[R]) -> Job[R]: ...
    @overload
    def enqueue_sync(self, step: Flow[R]) -> FlowJob[R]: ...
    def enqueue_sync(self, step: Call[Any] | Flow[Any], *_: object, **__: object) -> Any:
        """`enqueue` for code without an event loop.

        Args:
            step: What `task.call`, `chain` or `group` made.
        """
        if _ or __:
            raise one_call(step)
        return self.portal.run(self.enqueue(step))

    @explained_in_sync_code("app.enqueue_many_sync(…)")
    async def enqueue_many(self, calls: Iterable[Call[R]]) -> list[Job[R]]:
        """Send many calls, in batches; the jobs in the order of the calls. If queues or keys are
        full, the others are stored, and `QueueFull.job_ids` has all that are not. If the store goes
        away meanwhile, `EnqueueUnknown.job_ids` has all that are not known to be stored.

        Args:
            calls: What `task.call` made, any number, of any tasks.
        """
        return await self.outgoing.send_many(calls)

    def enqueue_many_sync(self, calls: Iterable[Call[R]]) -> list[Job[R]]:
        """`enqueue_many` for code without an event loop.

        Args:
            calls: What `task.call` made, any number, of any tasks.
        """
        return self.portal.run(self.enqueue_many(calls))

    @overload
    def job(self, id: str) -> Job[Any]: ...
    @overload
    def job(self, id: str, task: Task[..., Coroutine[Any, Any, R]]) -> Job[R]: ...
    @overload
    def job(self, id: str, task: Task[..., R]) -> Job[R]: ...
    def job(self, id: str, task: Task[..., Any] | None = None) -> Job[Any]:
        """The handle of a job whose id is known.

        Args:
            id: The id of a job.
            task: Its task, whose type the result then has; else it is a plain value.
        """
        if task is None:
            return Job(self, ids.to_id(id), None)
        if not isinstance(task, Task):
            raise ConfigError(f"app.job(id, task) takes a task of this app, not {task!r}")
        return task.job(id)

    def flow(self, id: str) -> FlowJob[Any]:
        """The handle of a flow whose id is known: to count, resume or cancel it in another process
        than the one that sent it. It asks every queue. Its `jobs` are the last one alone.

        Args:
            id: The `id` of what `app.enqueue` returned for the flow.
        """
        return FoundFlow(self.job(id))

    # Working

    @checks_options("app.worker()", WORKER_OPTIONS)
    def worker(
        self,
        *,
        queues: Sequence[str] | Mapping[str, int] | None = None,
        strict: bool = False,
        concurrency: int = limits.CONCURRENCY,
        threads: int | None = None,
        processes: int | None = None,
        max_jobs_per_process: int | None = None,
        drain: Duration = limits.DRAIN,
        wait_for_store: Duration | None = None,
        name: str | None = None,
        schedules: bool | None = None,
        upkeep: bool = True,
        burst: bool = False,
    ) -> Worker:
        """A worker of this app's tasks: `await app.worker().run()`, or `async with app.worker():`
        beside other code.

        Args:
            queues: The queues to read, alike, or by weight: `{"mail": 3, "default": 1}`. Those of
                the app's tasks, and those declared with `app.queue`, unless said.
            strict: Whether a queue is read only when those before it are empty.
            concurrency: How many jobs run at a time.
            threads: How many plain functions run at a time, within `concurrency`; four for each CPU
                unless said.
            processes: How many functions with `run_in="process"` run at a time, within
                `concurrency`; one for each CPU unless said.
            max_jobs_per_process: After this many jobs, a process of `run_in="process"` functions is
                replaced; never unless said.
            drain: Seconds that running jobs have to end when the worker stops.
            wait_for_store: Seconds to wait for a store that is away at the start; for ever unless
                said.
            name: What people see; a part that no other worker has is added. Host and process id
                unless said.
            schedules: Whether it fires schedules; if not, another worker has to. As `upkeep` unless
                said.
            upkeep: Whether it looks after the queues, or only runs jobs; then another worker has
                to.
            burst: Whether it ends when nothing waits or runs in its queues; what is scheduled for
                later is left.
        """
        self.load()
        from headrace.worker.process_tasks import check_process_tasks
        from headrace.worker.settings import worker_settings
        from headrace.worker.worker import Worker

        settings = worker_settings(
            self,
            queues=queues,
            strict=strict,
            concurrency=concurrency,
            threads=threads,
            processes=processes,
            max_jobs_per_process=max_jobs_per_process,
            drain=drain,
            wait_for_store=wait_for_store,
            name=name,
            schedules=schedules,
            upkeep=upkeep,
            burst=burst,
        )
        check_process_tasks(self)
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

    def override(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        lease: float | None = None,
        crash_limit: int | None = None,
        require_durable: bool | None = None,
        events: bool | None = None,
        confirm_replicas: int | None = None,
        confirm_disk: bool | None = None,
        credential_provider: CredentialProvider | None = None,
        max_reconnect: Duration | None = None,
        clock: Clock | None = None,
    ) -> Override[Headrace]:
        """`with app.override(url=…):` has this app, with all that is declared on it, use another
        store or namespace inside, in all threads and event loops. Then it is as it was. `async
        with` does the same. Settings that are not given stay, except those that only Redis has, if
        the URL is SQLite's. Refused while a worker of this app runs.

        Args:
            url: The other store.
            namespace: The other namespace.
            lease: As in `Headrace(…)`.
            crash_limit: As in `Headrace(…)`.
            require_durable: As in `Headrace(…)`.
            events: As in `Headrace(…)`.
            confirm_replicas: As in `Headrace(…)`.
            confirm_disk: As in `Headrace(…)`.
            credential_provider: As in `Headrace(…)`.
            max_reconnect: As in `Headrace(…)`.
            clock: As in `Headrace(…)`.
        """
        given = {
            "url": url,
            "namespace": namespace,
            "lease": lease,
            "crash_limit": crash_limit,
            "require_durable": require_durable,
            "events": events,
            "confirm_replicas": confirm_replicas,
            "confirm_disk": confirm_disk,
            "credential_provider": credential_provider,
            "max_reconnect": max_reconnect,
            "clock": clock,
        }
        return Override(self, overridden(self, self.clock, given))

    def testing(
        self, *, inline: bool = False, raise_errors: bool = True, now: datetime | None = None
    ) -> TestKit:
        """`with app.testing() as headrace:` has this app use a store in memory inside, which is
        empty, with a clock that the test moves. The clock begins at `now`, by default the present.
        With `inline`, what is sent is run at once. `async with` does the same.

        Args:
            inline: Whether what is sent is run at once.
            raise_errors: Whether errors of jobs that are run are raised in the test.
            now: Where the clock begins: an aware datetime; the present unless said.
        """
        from headrace.testing.kit import TestKit

        self.load()
        return TestKit(self, inline=inline, raise_errors=raise_errors, now=now)

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
        if session.entered:
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

    @property
    def awaits_results(self) -> bool:
        """Whether code in this process waits for the result of a job, in any event loop."""
        return any(session.waiter.waiting for _, session in self._sessions.all())

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

    def make_task(self, function: Callable[..., Any], options: Mapping[str, Any]) -> Task[..., Any]:
        """A task that could be registered; `ConfigError` if not."""
        given = with_defaults(options, self._task_defaults)
        task = Task[..., Any](
            self, function, TaskOptions.of_function(function, given, self.payloads)
        )
        self.tasks.check(task)
        task.on_success = end_handler(task, "on_success", given, self._task_defaults)
        task.on_dead = end_handler(task, "on_dead", given, self._task_defaults)
        for handler in (task.on_success, task.on_dead):
            if handler is not None:
                self.tasks.check(handler)
        return task

    def register(self, task: Task[..., Any]) -> None:
        """Add a task that `make_task` has made."""
        for handler in (task.on_success, task.on_dead):
            if handler is not None and handler.name not in self.tasks:
                self.register(handler)
        self.tasks.add(task)
        if (keep_done := task.declared.keep_done) is not None:
            bounds = HistoryBounds.of(f"task {task.name!r}: keep_done", keep_done)
            for name in task.declared.names:
                self.history_rules.set(name, bounds)

    def prepare_schedule(
        self, task: Task[..., Any], name: str | None, arguments: ScheduleArguments, times: Times
    ) -> Callable[[], None]:
        """Declares a schedule, which cannot fail any more."""
        return self.schedules.prepare(task, name, arguments, times)

    def accept(self, entries: Sequence[Entry]) -> None:
        """Take what a `Tasks` declares: all of it, or none."""
        take_all(self, entries, self.tasks, self.schedules.declared)
