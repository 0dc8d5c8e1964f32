"""The options of `headrace worker` that say what each worker process does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from headrace.cli.processes.store_option import wait_for_store_option
from headrace.core import bounds as limits
from headrace.core.scaling.scaling import read_range
from headrace.middleware import LogRuns

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.worker.worker import Worker

Command = TypeVar("Command", bound=Callable[..., Any])

_COUNT = click.IntRange(min=1)


def _numbers(_: click.Context, __: click.Parameter, text: str) -> tuple[int, int]:
    """The least and the most number in `4` or `1..8`."""
    try:
        return read_range(text)
    except ValueError:
        said = f"{text!r} is neither a number from 1 on nor two, such as 1..8"
        raise click.BadParameter(said) from None


class WorkerOptions(msgspec.Struct, frozen=True):
    """The options of each worker process."""

    app: str
    queues: Sequence[str] | Mapping[str, int] | None
    strict: bool
    concurrency: int
    threads: int | None
    processes: int | None
    drain: float
    wait_for_store: float | None
    log_level: str | None
    log_format: str | None
    log_runs: bool = False
    name: str | None = None
    schedules: bool | None = None
    upkeep: bool = True
    max_jobs_per_process: int | None = None
    burst: bool = False

    def worker(self, app: Headrace) -> Worker:
        if self.log_runs:
            app.middleware(LogRuns(starts=True, failures=False))
        return app.worker(
            queues=self.queues,
            strict=self.strict,
            concurrency=self.concurrency,
            threads=self.threads,
            processes=self.processes,
            max_jobs_per_process=self.max_jobs_per_process,
            drain=self.drain,
            wait_for_store=self.wait_for_store,
            name=self.name,
            schedules=self.schedules,
            upkeep=self.upkeep,
            burst=self.burst,
        )

    def command(self) -> list[str]:
        """The command that starts one worker process with the same settings."""
        command = [sys.executable, "-m", "headrace", "worker", self.app, "-p", "1", "--supervised"]
        command += ["-c", str(self.concurrency), "--drain", str(self.drain)]
        if self.queues is not None:
            command += ["-Q", ",".join(_written(self.queues))]
        command += ["--strict"] if self.strict else []
        command += ["--log-runs"] if self.log_runs else []
        command += ["--no-schedules"] if self.schedules is False else []
        command += [] if self.upkeep else ["--no-upkeep"]
        command += ["--burst"] if self.burst else []
        counts = (
            ("--threads", self.threads),
            ("--processes", self.processes),
            ("--max-jobs-per-process", self.max_jobs_per_process),
        )
        for option, value in (*counts, ("--wait-for-store", self.wait_for_store)):
            command += [] if value is None else [option, str(value)]
        texts = (
            ("--name", self.name),
            ("--log-level", self.log_level),
            ("--log-format", self.log_format),
        )
        for option, text in texts:
            command += [] if text is None else [option, text]
        return command


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "-Q",
        "--queues",
        multiple=True,
        envvar="HEADRACE_QUEUES",
        show_envvar=True,
        metavar="NAME[=WEIGHT],…",
        help="Queues to read, and the share of each.  [default: those of the tasks, equally]",
    ),
    click.option(
        "--strict",
        is_flag=True,
        envvar="HEADRACE_STRICT",
        show_envvar=True,
        help="Read each queue only when those before it are empty.",
    ),
    click.option(
        "-c",
        "--concurrency",
        type=_COUNT,
        default=limits.CONCURRENCY,
        show_default=True,
        envvar="HEADRACE_CONCURRENCY",
        show_envvar=True,
        metavar="N",
        help="Jobs at a time in each worker process.",
    ),
    click.option(
        "--threads",
        type=_COUNT,
        envvar="HEADRACE_THREADS",
        show_envvar=True,
        metavar="N",
        help="Threads for sync tasks.  [default: 4 x CPUs]",
    ),
    click.option(
        "--processes",
        type=_COUNT,
        envvar="HEADRACE_PROCESSES",
        show_envvar=True,
        metavar="N",
        help="Processes for run_in='process'.  [default: CPUs]",
    ),
    click.option(
        "--max-jobs-per-process",
        type=_COUNT,
        envvar="HEADRACE_MAX_JOBS_PER_PROCESS",
        show_envvar=True,
        metavar="N",
        help="Replace a process of run_in='process' after N jobs.  [default: never]",
    ),
    click.option(
        "-p",
        "--workers",
        "workers",
        callback=_numbers,
        default="1",
        show_default=True,
        envvar="HEADRACE_WORKERS",
        show_envvar=True,
        metavar="N[..M]",
        help="Worker processes to keep running; with 1..8, as many as the backlog calls for.",
    ),
    click.option(
        "--drain",
        type=float,
        default=limits.DRAIN,
        show_default=True,
        envvar="HEADRACE_DRAIN",
        show_envvar=True,
        metavar="SECONDS",
        help="Time for running jobs to end after SIGTERM.",
    ),
    wait_for_store_option("for ever"),
    click.option(
        "--name",
        envvar="HEADRACE_WORKER_NAME",
        show_envvar=True,
        metavar="NAME",
        help="Name that people see; a part that no other has is added.  [default: host and pid]",
    ),
    click.option(
        "--schedules/--no-schedules",
        default=None,
        envvar="HEADRACE_SCHEDULES",
        show_envvar=True,
        help="Whether to fire the schedules; another worker has to otherwise.",
    ),
    click.option(
        "--upkeep/--no-upkeep",
        default=True,
        envvar="HEADRACE_UPKEEP",
        show_envvar=True,
        help="Whether to look after the queues too: retries that are due, flows, schedules, "
        "on_dead, old events; another worker has to otherwise.",
    ),
    click.option(
        "--burst",
        is_flag=True,
        envvar="HEADRACE_BURST",
        show_envvar=True,
        help="End when nothing waits or runs; what is scheduled for later is left.",
    ),
    click.option("--supervised", is_flag=True, hidden=True),
    click.option(
        "--log-runs",
        is_flag=True,
        envvar="HEADRACE_LOG_RUNS",
        show_envvar=True,
        help="Log each start and end of a run.",
    ),
)


def worker_options(command: Command) -> Command:
    """Add the options to a command, in this order."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def chosen_queues(given: tuple[str, ...]) -> list[str] | dict[str, int] | None:
    """Names, or names with weights if any has one."""
    texts = [text.strip() for texts in given for text in texts.split(",")]
    weights: dict[str, int] = {}
    for text in texts:
        name, _, weight = text.rpartition("=")
        # A name may have a "=" in it: only a number behind the last one is a weight.
        weights.update({name: int(weight)} if name and weight.isdecimal() else {text: 1})
    return (texts if list(weights) == texts else weights) or None


def _written(queues: Sequence[str] | Mapping[str, int]) -> list[str]:
    if isinstance(queues, Mapping):
        return [f"{name}={weight}" for name, weight in queues.items()]
    return list(queues)
