"""`headrace worker`: run the jobs of an app."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import click
import msgspec

from headrace.cli.app_loader import OF_ONE_PROCESS, is_of_one_process, load_app, one_app
from headrace.cli.logs import log_options, log_to_stderr
from headrace.cli.processes.metrics_options import (
    Place,
    count_for_parent,
    metrics_options,
    place_of,
    serve_supervisor,
    serve_worker,
    shared_totals,
)
from headrace.cli.processes.worker_process import exit_on_signal, leave, work
from headrace.core import bounds as limits
from headrace.core.scaling.scaling import Scaling
from headrace.errors import ConfigError
from headrace.middleware import LogRuns
from headrace.worker.processes.child_lifetime import follow_supervisor, start_process
from headrace.worker.processes.gauge import Gauge
from headrace.worker.processes.supervisor import Supervisor
from headrace.worker.store_wait import StoreWait
from headrace.worker.upkeep.own_strategy import OwnStrategy
from headrace.worker.upkeep.workload import workloads_of

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.worker.worker import Worker

log = logging.getLogger("headrace.worker")

_COUNT = click.IntRange(min=1)


def _numbers(_: click.Context, __: click.Parameter, text: str) -> tuple[int, int]:
    """The least and the most number in `4` or `1..8`."""
    texts = text.split("..")
    try:
        least, most = int(texts[0]), int(texts[-1])
    except ValueError:
        least, most = 0, 0
    if len(texts) > 2 or not 1 <= least <= most:
        raise click.BadParameter(f"{text!r} is neither a number from 1 on nor two, such as 1..8")
    return least, most


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

    def worker(self, app: Headrace) -> Worker:
        if self.log_runs:
            app.middleware(LogRuns(starts=True, failures=False))
        return app.worker(
            queues=self.queues,
            strict=self.strict,
            concurrency=self.concurrency,
            threads=self.threads,
            processes=self.processes,
            drain=self.drain,
            wait_for_store=self.wait_for_store,
        )

    def command(self) -> list[str]:
        """The command that starts one worker process with the same settings."""
        command = [sys.executable, "-m", "headrace", "worker", self.app, "-p", "1"]
        command += ["-c", str(self.concurrency), "--drain", str(self.drain)]
        if self.queues is not None:
            command += ["-Q", ",".join(_written(self.queues))]
        command += ["--strict"] if self.strict else []
        command += ["--log-runs"] if self.log_runs else []
        counts = (("--threads", self.threads), ("--processes", self.processes))
        for option, value in (*counts, ("--wait-for-store", self.wait_for_store)):
            command += [] if value is None else [option, str(value)]
        for option, text in (("--log-level", self.log_level), ("--log-format", self.log_format)):
            command += [] if text is None else [option, text]
        return command


@click.command()
@click.argument("app", required=False)
@click.option("-A", "--app", "app_option", metavar="APP", help="App, as module:attribute.")
@click.option(
    "-Q",
    "--queues",
    multiple=True,
    metavar="NAME[=WEIGHT],…",
    help="Queues to read, and the share of each.  [default: those of the tasks, equally]",
)
@click.option("--strict", is_flag=True, help="Read each queue only when those before it are empty.")
@click.option(
    "-c",
    "--concurrency",
    type=_COUNT,
    default=limits.CONCURRENCY,
    show_default=True,
    metavar="N",
    help="Jobs at a time in each worker process.",
)
@click.option(
    "--threads", type=_COUNT, metavar="N", help="Threads for sync tasks.  [default: 4 x CPUs]"
)
@click.option(
    "--processes", type=_COUNT, metavar="N", help="Processes for run_in='process'.  [default: CPUs]"
)
@click.option(
    "-p",
    "workers",
    callback=_numbers,
    default="1",
    show_default=True,
    metavar="N[..M]",
    help="Worker processes to keep running; with 1..8, as many as the backlog calls for.",
)
@click.option(
    "--drain",
    type=float,
    default=limits.DRAIN,
    show_default=True,
    metavar="SECONDS",
    help="Time for running jobs to end after SIGTERM.",
)
@click.option(
    "--wait-for-store",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long to wait for the store at the start.  [default: for ever]",
)
@click.option("--log-runs", is_flag=True, help="Log each start and end of a run.")
@metrics_options
@log_options
def worker(
    app: str | None,
    app_option: str | None,
    queues: tuple[str, ...],
    strict: bool,
    concurrency: int,
    threads: int | None,
    processes: int | None,
    workers: tuple[int, int],
    drain: float,
    wait_for_store: float | None,
    log_runs: bool,
    metrics_port: int | None,
    metrics_host: str | None,
    metrics_allow: tuple[str, ...],
    log_level: str | None,
    log_format: str | None,
) -> None:
    """Run the jobs of APP, for example shop:app.

    After SIGTERM, Ctrl-C or a closed terminal it takes no more jobs, lets running ones end and
    hands back the rest. A second SIGTERM or Ctrl-C cancels the running ones.

    Exit codes: 0 clean, 1 outcomes could not be written, 2 wrong usage or a crash inside the
    worker, 3 jobs were cut short.
    """
    # First: the supervisor may end, or ask for an end, while the app is imported.
    exit_on_signal()
    follow_supervisor()
    name, context = one_app(app, app_option), click.get_current_context()
    if name is None:
        raise click.UsageError("say which app: headrace worker shop:app", context)
    settings = WorkerOptions(
        name,
        _queues(queues),
        strict,
        concurrency,
        threads,
        processes,
        drain,
        wait_for_store,
        log_level,
        log_format,
        log_runs,
    )
    metrics = place_of(metrics_port, metrics_host, metrics_allow)
    if workers == (1, 1):
        _work(settings, metrics)
    else:
        _supervise(settings, metrics, *workers)


def _work(settings: WorkerOptions, metrics: Place | None) -> NoReturn:
    app = load_app(settings.app)
    worker = settings.worker(app)
    log_to_stderr(settings.log_level, settings.log_format, worker=worker.name)
    if is_of_one_process(app):
        log.warning(
            "%s: no other can send jobs to this worker; use the default, an SQLite file, or Redis",
            OF_ONE_PROCESS,
            extra={"store": app.url},
        )
    if metrics is None:
        count_for_parent(worker)
    else:
        serve_worker(app, worker, metrics)
    work(worker)


def _supervise(settings: WorkerOptions, metrics: Place | None, least: int, most: int) -> NoReturn:
    app = load_app(settings.app)
    log_to_stderr(settings.log_level, settings.log_format)
    if is_of_one_process(app):
        raise ConfigError(f"{OF_ONE_PROCESS}: leave -p out, or use another store")
    # Errors are shown once, here, and not by every process.
    workloads = workloads_of(settings.worker(app).settings)
    scaling = Scaling.of(least, most, os.environ)
    asyncio.run(_reach(app, settings.wait_for_store))
    gauge = None if scaling.fixed else Gauge(app, workloads, scaling.poll)
    with shared_totals(metrics) as variables:
        start = partial(start_process, settings.command(), variables)
        supervisor = Supervisor(
            scaling, start, gauge=gauge, strategy=OwnStrategy.of(app.scaling_strategy)
        )
        if metrics is not None:
            serve_supervisor(app, supervisor, metrics, variables)
        code = supervisor.run()
    leave(code)


async def _reach(app: Headrace, within: float | None) -> None:
    """Wait for the store; a signal meanwhile ends the process."""
    async with AsyncExitStack() as stack:
        wait = StoreWait(within, asyncio.Event())
        await wait.through(partial(stack.enter_async_context, app))


def _queues(given: tuple[str, ...]) -> list[str] | dict[str, int] | None:
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
