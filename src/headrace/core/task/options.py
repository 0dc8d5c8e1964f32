"""What a task declares."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, get_args

import msgspec

from headrace.core.bounds import (
    DEFAULT_QUEUE,
    RESULT_TTL,
    TIMEOUT,
    check_count,
    check_flag,
    check_name,
    check_seconds,
)
from headrace.core.clock import Duration, to_ms
from headrace.core.foreign_words import TASK_OPTIONS
from headrace.core.job.capacity import Runner
from headrace.core.job.history_rules import HistoryBounds, Keep
from headrace.core.job.retry import (
    MAX_DEFERS,
    OnTimeout,
    Retry,
    check_on_timeout,
    check_timeouts,
)
from headrace.core.payload.codecs import Codec, TaskCodecName, task_form
from headrace.core.payload.compression import Compression
from headrace.core.payload.offload import Offload
from headrace.core.payload.packing import PLAIN_PAYLOADS, PayloadOptions
from headrace.core.queue_names import check_queue
from headrace.core.task.functions import checked_function
from headrace.core.task.gathering import TaskGathering
from headrace.core.task.rate import Rate
from headrace.core.task.send_options import JobOptions, check_priority
from headrace.core.task.uniqueness import NOT_UNIQUE, LabelMaker, Uniqueness
from headrace.core.wrong_use import unknown_option
from headrace.errors import ConfigError

BATCH_WAIT = 0.5

UnknownArguments = Literal["refuse", "ignore"]
"""What to do with a job that has an argument which its task does not take (any more)."""


class TaskKwargs(JobOptions, total=False):
    """What `@app.task(...)` takes, beside `batch` and what goes with it."""

    name: str | None
    """How jobs find the task; the function's name unless said. Two tasks of one app cannot share
    one."""
    aliases: Sequence[str]
    """Names that the task had before: jobs that were sent under them run it too. The first one
    stays the name of its limits and lanes."""
    retry: Retry | None
    """What happens after a failure; `Retry()`, three runs in all, unless said."""
    timeout: Duration | None
    """How long one run may take: seconds or a timedelta; 300 unless said, None for no limit."""
    on_timeout: OnTimeout
    """What a run that takes longer means: a failed attempt ("retry", the default), the end
    ("dead"), or another run that counts no attempt ("defer")."""
    max_defers: int | None
    """How often a job may be deferred before it is dead; 1,000 unless said, None for no limit."""
    run_in: Runner | None
    """Where the function runs: "loop", the default of async functions, "thread", the default of
    plain ones, or "process", which can be killed."""
    result_ttl: Duration
    """How long the result is kept: seconds or a timedelta; 600 unless said. 0 keeps none, which is
    the fastest."""
    strict_result: bool
    """Whether a job is dead if what its function returned cannot travel. Unless said, it is done,
    with a warning in the log, and `job.result()` raises `ResultLost`, which shows what it was."""
    keep_done: Keep | None
    """What is kept of jobs that have ended: a number of jobs, a timedelta, a pair of both, or 0 for
    nothing. The app's unless said."""
    unique: bool | LabelMaker
    """True for one job at a time per arguments, or a function that makes the name to be unique from
    them. A second send returns the first job."""
    rate: str | None
    """How often jobs may start, on all workers together: "100/m", "3/10s". No limit unless said."""
    burst: int | None
    """How many of a `rate` may start at once; the others follow evenly. All unless said."""
    rate_key: LabelMaker | None
    """A function that makes a text from the arguments: each text has a `rate` of its own."""
    concurrency: int | None
    """How many jobs run at a time: of each key, for jobs sent with a `key`, else of the task. No
    limit unless said."""
    key_concurrency: int | None
    """How many jobs of each key run at a time; `concurrency` is then for all jobs of the task."""
    on_success: Callable[..., Any] | None
    """A function or a task that runs as a job of its own once a job is done, with that job and its
    result."""
    on_dead: Callable[..., Any] | None
    """A function or a task that runs as a job of its own once a job is dead, with that job and its
    failure."""
    codec: TaskCodecName | Codec | None
    """How arguments and results are encoded: "msgpack", "json", or a `Codec`. The app's unless
    said."""
    compress: Compression | None
    """"zstd" or "zlib" makes large payloads smaller. The app's unless said."""
    compress_threshold: int | None
    """Bytes from which on a payload is compressed. The app's, or 1,024, unless said."""
    offload: Offload | None
    """Where large payloads go instead of into the store. The app's unless said."""
    unknown_arguments: UnknownArguments
    """What happens to a job with an argument that the function does not take (any more): it is dead
    ("refuse", the default), or runs without it ("ignore")."""
    renamed_arguments: Mapping[str, str]
    """New names of arguments by old ones, for jobs that wait under the old ones."""


class DefaultKwargs(TypedDict, total=False):
    """What `app.defaults(...)` takes: options of tasks that do not say otherwise."""

    queue: str
    priority: int
    retry: Retry
    timeout: Duration | None
    on_timeout: OnTimeout
    max_defers: int | None
    result_ttl: Duration
    strict_result: bool
    keep_done: Keep
    unknown_arguments: UnknownArguments


def check_defaults(options: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults if tasks can have them; `ConfigError` if not."""
    known = sorted(DefaultKwargs.__annotations__)
    if unknown := sorted(options.keys() - set(known)):
        raise unknown_option("app.defaults()", unknown[0], known, TASK_OPTIONS, options[unknown[0]])
    check_timeouts("app.defaults(): ", options)
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
    strict_result: bool = False
    """Whether its jobs are dead if their results cannot travel."""
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
    aliases: tuple[str, ...] = ()
    unknown_arguments: UnknownArguments = "refuse"
    renamed_arguments: Mapping[str, str] = {}
    """The names of its arguments now, by those that waiting jobs may have."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which its jobs may come."""
        return (self.name, *self.aliases)

    @property
    def label(self) -> str:
        """What its limits, lanes and unique names are called: they outlive its present name."""
        return self.aliases[0] if self.aliases else self.name

    @classmethod
    def of_function(
        cls,
        function: Any,
        options: Mapping[str, Any],
        payloads: PayloadOptions = PLAIN_PAYLOADS,
    ) -> TaskOptions:
        """The options of a function, named and placed by what it is unless they say otherwise;
        `payloads` is what the app says of them."""
        checked_function("@app.task", function, named=bool(options.get("name")))
        if unknown := sorted(options.keys() - set(_KNOWN)):
            raise unknown_option(
                "app.task()", unknown[0], _KNOWN, TASK_OPTIONS, options[unknown[0]]
            )
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
        given["aliases"] = _aliases(where, options)
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
            seconds = check_seconds(f"{where}timeout", self.timeout, least=0.001)
            # A timedelta is read as seconds: a frozen value settles this once.
            msgspec.structs.force_setattr(self, "timeout", seconds)
        check_on_timeout(f"{where}on_timeout", self.on_timeout)
        if self.max_defers is not None:
            check_count(f"{where}max_defers", self.max_defers, least=0)
        kept = check_seconds(f"{where}result_ttl", self.result_ttl)
        msgspec.structs.force_setattr(self, "result_ttl", kept)
        check_flag(f"{where}strict_result", self.strict_result)
        if self.keep_done is not None:
            HistoryBounds.of(f"{where}keep_done", self.keep_done)
        check_priority(f"{where}priority", self.priority)
        for what in ("concurrency", "key_concurrency"):
            if getattr(self, what) is not None:
                check_count(f"{where}{what}", getattr(self, what))
        _check_arguments(where, self)
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


def _aliases(where: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    given = options.get("aliases", ())
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ConfigError(f"{where}aliases must be a list of names, such as ['old'], not {given!r}")
    for alias in given:
        check_name(f"{where}an alias", alias)
    if options["name"] in given:
        raise ConfigError(f"{where}its own name cannot be an alias of it")
    return tuple(given)


def _check_arguments(where: str, options: TaskOptions) -> None:
    if options.unknown_arguments not in get_args(UnknownArguments):
        raise ConfigError(
            f"{where}unknown_arguments must be 'refuse' or 'ignore', not "
            f"{options.unknown_arguments!r}"
        )
    renamed: Any = options.renamed_arguments
    if not isinstance(renamed, Mapping) or not all(
        isinstance(name, str) for pair in renamed.items() for name in pair
    ):
        raise ConfigError(
            f"{where}renamed_arguments maps old names to new ones, such as {{'mail': 'to'}}, not "
            f"{renamed!r}"
        )


def _check_batch(where: str, options: TaskOptions) -> None:
    if options.batch is None:
        if options.max_wait != BATCH_WAIT:
            raise ConfigError(f"{where}max_wait needs batch=")
        return
    check_count(f"{where}batch", options.batch)
    if options.gathering is not None:
        options.gathering.check_size(where, options.batch)
    seconds = to_ms(f"{where}max_wait", options.max_wait) / 1000
    msgspec.structs.force_setattr(options, "max_wait", seconds)
    if options.run_in == "process":
        raise ConfigError(f"{where}batch does not go with run_in='process'")
