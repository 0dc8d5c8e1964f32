"""`@app.task`, `@app.cron` and the like, which apps and `Tasks` have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from headrace.client.context import Context
from headrace.client.decorators import (
    BatchTaskDecorator,
    ScheduleArguments,
    ScheduleDecorator,
    TaskDecorator,
)
from headrace.client.task import Task
from headrace.core.clock import Duration
from headrace.core.foreign_words import SCHEDULE_OPTIONS, TASK_OPTIONS
from headrace.core.job.retry import check_timeouts
from headrace.core.schedule.definition import Missed, Times, check_arguments, check_times
from headrace.core.task.options import BATCH_WAIT, DefaultKwargs, TaskKwargs, check_defaults
from headrace.core.task.uniqueness import LabelMaker
from headrace.core.wrong_use import checks_options, unknown_option
from headrace.errors import ConfigError

P = ParamSpec("P")
R = TypeVar("R")


class TaskDeclarations(ABC):
    """Declares tasks and their schedules."""

    def __init__(self) -> None:
        self._task_defaults: dict[str, Any] = {}

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
        """Make a function a task, whose jobs workers run: `@app.task`, or
        `@app.task(queue="mail")`. Calling the task still runs the function here. With `batch`, the
        function takes a list. A wrong option is refused now, with a `ConfigError`.

        Args:
            function: The function, where `@app.task` stands without brackets.
            batch: The function takes a list of up to this many items, one of each job. None, the
                default, for one job at a time.
            max_wait: How long the first job of a batch waits for others: seconds or a timedelta;
                0.5 unless said.
            batch_key: A function that makes a text from the arguments, or the name of one of them:
                jobs of one text gather in the store, from all senders.
            grace: A batch that gathers in the store runs when none came for this long: seconds or a
                timedelta.
            queue: The queue that jobs wait in; "default" unless said. Some worker must read it.
            priority: From 0, the default, to 100: within a queue, a higher one goes first.
            unique_for: How long after its end a unique job still keeps others of its name away:
                seconds or a timedelta; 0, so not at all, unless said.
            debounce: Sent again within this time, the job starts that much later, with the newest
                arguments, instead of twice: seconds or a timedelta. None unless said.
            name: How jobs find the task; the function's name unless said. Two tasks of one app
                cannot share one.
            aliases: Names that the task had before: jobs that were sent under them run it too. The
                first one stays the name of its limits and lanes.
            retry: What happens after a failure; `Retry()`, three runs in all, unless said.
            timeout: How long one run may take: seconds or a timedelta; 300 unless said, None for no
                limit.
            on_timeout: What a run that takes longer means: a failed attempt ("retry", the default),
                the end ("dead"), or another run that counts no attempt ("defer").
            max_defers: How often a job may be deferred before it is dead; 1,000 unless said, None
                for no limit.
            run_in: Where the function runs: "loop", the default of async functions, "thread", the
                default of plain ones, or "process", which can be killed.
            result_ttl: How long the result is kept: seconds or a timedelta; 600 unless said. 0
                keeps none, which is the fastest.
            strict_result: Whether a job is dead if what its function returned cannot travel. Unless
                said, it is done, with a warning in the log, and `job.result()` raises `ResultLost`,
                which shows what it was.
            keep_done: What is kept of jobs that have ended: a number of jobs, a timedelta, a pair
                of both, or 0 for nothing. The app's unless said.
            unique: True for one job at a time per arguments, or a function that makes the name to
                be unique from them. A second send returns the first job.
            rate: How often jobs may start, on all workers together: "100/m", "3/10s". No limit
                unless said.
            burst: How many of a `rate` may start at once; the others follow evenly. All unless
                said.
            rate_key: A function that makes a text from the arguments: each text has a `rate` of its
                own.
            concurrency: How many jobs run at a time: of each key, for jobs sent with a `key`, else
                of the task. No limit unless said.
            key_concurrency: How many jobs of each key run at a time; `concurrency` is then for all
                jobs of the task.
            on_success: A function or a task that runs as a job of its own once a job is done, with
                that job and its result.
            on_dead: A function or a task that runs as a job of its own once a job is dead, with
                that job and its failure.
            codec: How arguments and results are encoded: "msgpack", "json", or a `Codec`. The app's
                unless said.
            compress: "zstd" or "zlib" makes large payloads smaller. The app's unless said.
            compress_threshold: Bytes from which on a payload is compressed. The app's, or 1,024,
                unless said.
            offload: Where large payloads go instead of into the store. The app's unless said.
            unknown_arguments: What happens to a job with an argument that the function does not
                take (any more): it is dead ("refuse", the default), or runs without it ("ignore").
            renamed_arguments: New names of arguments by old ones, for jobs that wait under the old
                ones.
        """

        def make(function: Callable[..., Any]) -> Task[..., Any]:
            check_timeouts(f"task {getattr(function, '__name__', function)!r}: ", options)
            task = self.make_task(function, options)
            self.register(task)
            return task

        if function is not None:
            return make(function)
        return TaskDecorator(make) if options.get("batch") is None else BatchTaskDecorator(make)

    def defaults(self, **options: Unpack[DefaultKwargs]) -> None:
        """Options of all tasks that are declared from now on and do not say otherwise. Said again,
        it changes those that are named.

        Args:
            queue: The queue that jobs wait in; "default" unless said. Some worker must read it.
            priority: From 0, the default, to 100: within a queue, a higher one goes first.
            retry: What happens after a failure; `Retry()`, three runs in all, unless said.
            timeout: How long one run may take: seconds or a timedelta; 300 unless said, None for no
                limit.
            on_timeout: What a run that takes longer means: a failed attempt ("retry", the default),
                the end ("dead"), or another run that counts no attempt ("defer").
            max_defers: How often a job may be deferred before it is dead; 1,000 unless said, None
                for no limit.
            result_ttl: How long the result is kept: seconds or a timedelta; 600 unless said. 0
                keeps none, which is the fastest.
            strict_result: Whether a job is dead if what its function returned cannot travel. Unless
                said, it is done, with a warning in the log, and `job.result()` raises `ResultLost`,
                which shows what it was.
            keep_done: What is kept of jobs that have ended: a number of jobs, a timedelta, a pair
                of both, or 0 for nothing. The app's unless said.
            unknown_arguments: What happens to a job with an argument that the function does not
                take (any more): it is dead ("refuse", the default), or runs without it ("ignore").
        """
        self._task_defaults |= check_defaults(options)

    @checks_options("app.cron()", SCHEDULE_OPTIONS)
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
        """Run a function or a task at the times of a cron expression, once for the whole fleet.
        The schedule has the name of its task unless `name` is given.

        Args:
            expression: A cron expression of five fields, such as "*/5 * * * *", or six with
                seconds.
            timezone: The time zone that it is in, such as "Europe/Berlin".
            missed: What happens to ticks at which no worker ran: "skip", the default, "once" for
                one job in all, or "all" for one each.
            start: No tick before this: an aware datetime.
            end: No tick after this: an aware datetime.
            limit: How many ticks there are in all; no limit unless said.
            args: The arguments that each job is sent with, by position.
            kwargs: The arguments that each job is sent with, by name.
            queue: The queue that jobs wait in; "default" unless said. Some worker must read it.
            priority: From 0, the default, to 100: within a queue, a higher one goes first.
            unique_for: How long after its end a unique job still keeps others of its name away:
                seconds or a timedelta; 0, so not at all, unless said.
            debounce: Sent again within this time, the job starts that much later, with the newest
                arguments, instead of twice: seconds or a timedelta. None unless said.
            name: How jobs find the task; the function's name unless said. Two tasks of one app
                cannot share one.
            aliases: Names that the task had before: jobs that were sent under them run it too. The
                first one stays the name of its limits and lanes.
            retry: What happens after a failure; `Retry()`, three runs in all, unless said.
            timeout: How long one run may take: seconds or a timedelta; 300 unless said, None for no
                limit.
            on_timeout: What a run that takes longer means: a failed attempt ("retry", the default),
                the end ("dead"), or another run that counts no attempt ("defer").
            max_defers: How often a job may be deferred before it is dead; 1,000 unless said, None
                for no limit.
            run_in: Where the function runs: "loop", the default of async functions, "thread", the
                default of plain ones, or "process", which can be killed.
            result_ttl: How long the result is kept: seconds or a timedelta; 600 unless said. 0
                keeps none, which is the fastest.
            strict_result: Whether a job is dead if what its function returned cannot travel. Unless
                said, it is done, with a warning in the log, and `job.result()` raises `ResultLost`,
                which shows what it was.
            keep_done: What is kept of jobs that have ended: a number of jobs, a timedelta, a pair
                of both, or 0 for nothing. The app's unless said.
            unique: True for one job at a time per arguments, or a function that makes the name to
                be unique from them. A second send returns the first job.
            rate: How often jobs may start, on all workers together: "100/m", "3/10s". No limit
                unless said.
            burst: How many of a `rate` may start at once; the others follow evenly. All unless
                said.
            rate_key: A function that makes a text from the arguments: each text has a `rate` of its
                own.
            concurrency: How many jobs run at a time: of each key, for jobs sent with a `key`, else
                of the task. No limit unless said.
            key_concurrency: How many jobs of each key run at a time; `concurrency` is then for all
                jobs of the task.
            on_success: A function or a task that runs as a job of its own once a job is done, with
                that job and its result.
            on_dead: A function or a task that runs as a job of its own once a job is dead, with
                that job and its failure.
            codec: How arguments and results are encoded: "msgpack", "json", or a `Codec`. The app's
                unless said.
            compress: "zstd" or "zlib" makes large payloads smaller. The app's unless said.
            compress_threshold: Bytes from which on a payload is compressed. The app's, or 1,024,
                unless said.
            offload: Where large payloads go instead of into the store. The app's unless said.
            unknown_arguments: What happens to a job with an argument that the function does not
                take (any more): it is dead ("refuse", the default), or runs without it ("ignore").
            renamed_arguments: New names of arguments by old ones, for jobs that wait under the old
                ones.
        """
        if callable(expression):
            raise ConfigError("@app.cron needs its times: write @app.cron('*/5 * * * *')")
        times = Times(
            cron=expression, timezone=timezone, missed=missed, start=start, end=end, limit=limit
        )
        return self._scheduling("app.cron()", options, (args, kwargs or {}), times)

    @checks_options("app.every()", SCHEDULE_OPTIONS)
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
        `start`, or from midnight UTC of 1970, however long a run takes.

        Args:
            interval: Seconds, or a timedelta, between two ticks.
            missed: What happens to ticks at which no worker ran: "skip", the default, "once" for
                one job in all, or "all" for one each.
            start: No tick before this: an aware datetime.
            end: No tick after this: an aware datetime.
            limit: How many ticks there are in all; no limit unless said.
            args: The arguments that each job is sent with, by position.
            kwargs: The arguments that each job is sent with, by name.
            queue: The queue that jobs wait in; "default" unless said. Some worker must read it.
            priority: From 0, the default, to 100: within a queue, a higher one goes first.
            unique_for: How long after its end a unique job still keeps others of its name away:
                seconds or a timedelta; 0, so not at all, unless said.
            debounce: Sent again within this time, the job starts that much later, with the newest
                arguments, instead of twice: seconds or a timedelta. None unless said.
            name: How jobs find the task; the function's name unless said. Two tasks of one app
                cannot share one.
            aliases: Names that the task had before: jobs that were sent under them run it too. The
                first one stays the name of its limits and lanes.
            retry: What happens after a failure; `Retry()`, three runs in all, unless said.
            timeout: How long one run may take: seconds or a timedelta; 300 unless said, None for no
                limit.
            on_timeout: What a run that takes longer means: a failed attempt ("retry", the default),
                the end ("dead"), or another run that counts no attempt ("defer").
            max_defers: How often a job may be deferred before it is dead; 1,000 unless said, None
                for no limit.
            run_in: Where the function runs: "loop", the default of async functions, "thread", the
                default of plain ones, or "process", which can be killed.
            result_ttl: How long the result is kept: seconds or a timedelta; 600 unless said. 0
                keeps none, which is the fastest.
            strict_result: Whether a job is dead if what its function returned cannot travel. Unless
                said, it is done, with a warning in the log, and `job.result()` raises `ResultLost`,
                which shows what it was.
            keep_done: What is kept of jobs that have ended: a number of jobs, a timedelta, a pair
                of both, or 0 for nothing. The app's unless said.
            unique: True for one job at a time per arguments, or a function that makes the name to
                be unique from them. A second send returns the first job.
            rate: How often jobs may start, on all workers together: "100/m", "3/10s". No limit
                unless said.
            burst: How many of a `rate` may start at once; the others follow evenly. All unless
                said.
            rate_key: A function that makes a text from the arguments: each text has a `rate` of its
                own.
            concurrency: How many jobs run at a time: of each key, for jobs sent with a `key`, else
                of the task. No limit unless said.
            key_concurrency: How many jobs of each key run at a time; `concurrency` is then for all
                jobs of the task.
            on_success: A function or a task that runs as a job of its own once a job is done, with
                that job and its result.
            on_dead: A function or a task that runs as a job of its own once a job is dead, with
                that job and its failure.
            codec: How arguments and results are encoded: "msgpack", "json", or a `Codec`. The app's
                unless said.
            compress: "zstd" or "zlib" makes large payloads smaller. The app's unless said.
            compress_threshold: Bytes from which on a payload is compressed. The app's, or 1,024,
                unless said.
            offload: Where large payloads go instead of into the store. The app's unless said.
            unknown_arguments: What happens to a job with an argument that the function does not
                take (any more): it is dead ("refuse", the default), or runs without it ("ignore").
            renamed_arguments: New names of arguments by old ones, for jobs that wait under the old
                ones.
        """
        if callable(interval):
            raise ConfigError("@app.every needs its interval: write @app.every(30), in seconds")
        times = Times(every=interval, missed=missed, start=start, end=end, limit=limit)
        return self._scheduling("app.every()", options, (args, kwargs or {}), times)

    def _scheduling(
        self, what: str, options: TaskKwargs, arguments: ScheduleArguments, times: Times
    ) -> ScheduleDecorator:
        check_times(what, times)
        if unknown := sorted(options.keys() - TaskKwargs.__annotations__.keys()):
            known = (*Times.__annotations__, *TaskKwargs.__annotations__)
            value = options.get(unknown[0])
            raise unknown_option(what, unknown[0], known, TASK_OPTIONS | SCHEDULE_OPTIONS, value)
        check_arguments(what, *arguments)
        return ScheduleDecorator(self, options, arguments, times)

    @abstractmethod
    def make_task(self, function: Callable[..., Any], options: Mapping[str, Any]) -> Task[..., Any]:
        """A task that could be registered; `ConfigError` if not."""

    @abstractmethod
    def register(self, task: Task[..., Any]) -> None:
        """Add a task that `make_task` has made."""

    @abstractmethod
    def prepare_schedule(
        self, task: Task[..., Any], name: str | None, arguments: ScheduleArguments, times: Times
    ) -> Callable[[], None]:
        """Adds a schedule, which cannot fail any more; `ConfigError` if it would be refused. `name`
        is that of the task if it is None."""
