"""What a task declares."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypedDict, get_args

import msgspec

from headrace.core.bounds import (
    DEFAULT_QUEUE,
    RESULT_TTL,
    TIMEOUT,
    check_count,
    check_name,
    check_seconds,
)
from headrace.core.clock import to_ms
from headrace.core.job.capacity import Runner
from headrace.core.job.history_rules import HistoryBounds, Keep
from headrace.core.job.retry import MAX_DEFERS, OnTimeout, Retry, check_on_timeout
from headrace.core.payload.codecs import Codec, TaskCodecName, task_form
from headrace.core.payload.compression import Compression
from headrace.core.payload.offload import Offload
from headrace.core.payload.packing import PLAIN_PAYLOADS, PayloadOptions
from headrace.core.queue_names import check_queue
from headrace.core.task.gathering import TaskGathering
from headrace.core.task.rate import Rate
from headrace.core.task.send_options import JobOptions, check_priority
from headrace.core.task.uniqueness import NOT_UNIQUE, LabelMaker, Uniqueness
from headrace.errors import ConfigError

BATCH_WAIT = 0.5


class TaskKwargs(JobOptions, total=False):
    """What `@app.task(...)` takes, beside `batch` and what goes with it."""

    name: str | None
    retry: Retry | None
    timeout: float | None
    on_timeout: OnTimeout
    max_defers: int | None
    run_in: Runner | None
    result_ttl: float
    keep_done: Keep | None
    unique: bool | LabelMaker
    rate: str | None
    burst: int | None
    rate_key: LabelMaker | None
    concurrency: int | None
    key_concurrency: int | None
    on_success: Callable[..., Any] | None
    on_dead: Callable[..., Any] | None
    codec: TaskCodecName | Codec | None
    compress: Compression | None
    compress_threshold: int | None
    offload: Offload | None


class DefaultKwargs(TypedDict, total=False):
    """What `app.defaults(...)` takes: options of tasks that do not say otherwise."""

    queue: str
    priority: int
    retry: Retry
    timeout: float | None
    on_timeout: OnTimeout
    max_defers: int | None
    result_ttl: float
    keep_done: Keep


def check_defaults(options: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults if tasks can have them; `ConfigError` if not."""
    known = sorted(DefaultKwargs.__annotations__)
    if unknown := sorted(options.keys() - set(known)):
        raise ConfigError(f"app.defaults() has no {unknown[0]!r}; it takes {', '.join(known)}")
    if "queue" in options:
        check_queue("app.defaults(): queue", options["queue"])
    try:
        TaskOptions.of({"name": "-", "run_in": "loop", **options})
    except ConfigError as error:
        problem = str(error).removeprefix("task '-': ")
        raise ConfigError(f"app.defaults(): {problem}") from None
    return dict(options)


def with_defaults(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of a task, with defaults for what they do not say. A `timeout` or `max_defers` of
    None says that there is none."""
    said = {
        name: value
        for name, value in options.items()
        if value is not None or name in ("timeout", "max_defers")
    }
    return {**defaults, **said} if defaults else options


_KNOWN = sorted((*TaskKwargs.__annotations__, "batch", "max_wait", "batch_key", "grace"))


class TaskOptions(msgspec.Struct, frozen=True):
    """What `@app.task(...)` declares. Checked here, so that a wrong option fails at import."""

    name: str
    run_in: Runner
    queue: str = DEFAULT_QUEUE
    retry: Retry = msgspec.field(default_factory=Retry)
    timeout: float | None = TIMEOUT
    on_timeout: OnTimeout = "retry"
    max_defers: int | None = MAX_DEFERS
    """How often its jobs may be put off; None for as often as they like."""
    result_ttl: float = RESULT_TTL
    keep_done: Keep | None = None
    """What is kept of its ended jobs; None for what the app keeps."""
    priority: int = 0
    unique: Uniqueness = NOT_UNIQUE
    rate: Rate | None = None
    rate_key: LabelMaker | None = None
    concurrency: int | None = None
    """How many of its jobs run at a time; of each key, if `key_concurrency` is not given."""
    key_concurrency: int | None = None
    batch: int | None = None
    max_wait: float = BATCH_WAIT
    """How many seconds the first job of a batch waits for others."""
    payloads: PayloadOptions = PLAIN_PAYLOADS
    gathering: TaskGathering | None = None
    """How batches gather in the store; None if each worker fills its own."""

    @classmethod
    def of_function(
        cls,
        function: Any,
        options: Mapping[str, Any],
        payloads: PayloadOptions = PLAIN_PAYLOADS,
    ) -> TaskOptions:
        """The options of a function, named and placed by what it is unless they say otherwise;
        `payloads` is what the app says of them."""
        if not inspect.isroutine(function):
            raise ConfigError(
                f"@app.task goes on a function, not on {function!r}; put it into a def"
            )
        if unknown := sorted(options.keys() - set(_KNOWN)):
            raise ConfigError(f"app.task() has no {unknown[0]!r}; it takes {', '.join(_KNOWN)}")
        if "queue" in options:
            # Not in `__post_init__`: the queue of a topic's group has an '@'.
            check_queue(f"task {getattr(function, '__name__', '')!r}: queue", options["queue"])
        by_default = {
            "name": str(getattr(function, "__name__", "")),
            "run_in": "loop" if inspect.iscoroutinefunction(function) else "thread",
            "retry": Retry(),
        }
        unset = {name for name in by_default if options.get(name) is None}
        made = {name: by_default[name] for name in unset}
        return cls.of({**options, **made, "payloads": payloads})

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> TaskOptions:
        """Checked options; `name` and `run_in` must be among them."""
        where = f"task {options['name']!r}: "
        given = {name: options[name] for name in cls.__struct_fields__ if name in options}
        given["unique"] = Uniqueness.declared(where, options)
        given["rate"] = _rate(where, options)
        given["payloads"] = _payloads(where, options)
        if (gathering := TaskGathering.declared(where, options)) is not None:
            given["gathering"] = gathering
            given["max_wait"] = gathering.max_wait(where, options, BATCH_WAIT)
        return cls(**given)

    def __post_init__(self) -> None:
        where = f"task {self.name!r}: "
        check_name("task name", self.name)
        check_name(f"{where}queue", self.queue)
        if self.run_in not in get_args(Runner):
            raise ConfigError(
                f"{where}run_in must be 'loop', 'thread' or 'process', not {self.run_in!r}"
            )
        if not isinstance(self.retry, Retry):
            raise ConfigError(f"{where}retry must be a Retry(...), not {self.retry!r}")
        if self.timeout is not None:
            check_seconds(f"{where}timeout", self.timeout, least=0.001)
        check_on_timeout(f"{where}on_timeout", self.on_timeout)
        if self.max_defers is not None:
            check_count(f"{where}max_defers", self.max_defers, least=0)
        check_seconds(f"{where}result_ttl", self.result_ttl)
        if self.keep_done is not None:
            HistoryBounds.of(f"{where}keep_done", self.keep_done)
        check_priority(f"{where}priority", self.priority)
        for what in ("concurrency", "key_concurrency"):
            if getattr(self, what) is not None:
                check_count(f"{where}{what}", getattr(self, what))
        _check_batch(where, self)


def _payloads(where: str, options: Mapping[str, Any]) -> PayloadOptions:
    given: PayloadOptions = options.get("payloads", PLAIN_PAYLOADS)
    payloads = given.changed(where, options)
    try:
        task_form(payloads.codec)
    except ConfigError as error:
        raise ConfigError(f"{where}{error}") from None
    return payloads


def _rate(where: str, options: Mapping[str, Any]) -> Rate | None:
    text, burst, key = (options.get(name) for name in ("rate", "burst", "rate_key"))
    if text is None and (burst is not None or key is not None):
        raise ConfigError(f"{where}{'burst' if burst else 'rate_key'} needs rate=")
    if key is not None and not callable(key):
        raise ConfigError(
            f"{where}rate_key must be a function of the arguments that returns a text, not {key!r}"
        )
    return None if text is None else Rate.of(where, text, burst)


def _check_batch(where: str, options: TaskOptions) -> None:
    if options.batch is None:
        if options.max_wait != BATCH_WAIT:
            raise ConfigError(f"{where}max_wait needs batch=")
        return
    check_count(f"{where}batch", options.batch)
    if options.gathering is not None:
        options.gathering.check_size(where, options.batch)
    seconds = to_ms(f"{where}max_wait", options.max_wait) / 1000
    # A timedelta is fine too, but is read as seconds: a frozen value settles this once.
    msgspec.structs.force_setattr(options, "max_wait", seconds)
    if options.run_in == "process":
        raise ConfigError(f"{where}batch does not go with run_in='process'")
