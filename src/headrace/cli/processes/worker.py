"""`headrace worker`: run the jobs of an app."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import click

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
from headrace.cli.processes.worker_options import WorkerOptions, chosen_queues, worker_options
from headrace.cli.processes.worker_process import exit_on_signal, leave, work
from headrace.core.scaling.scaling import Scaling
from headrace.errors import ConfigError
from headrace.worker.logs.banner import Banner
from headrace.worker.processes.child_lifetime import follow_supervisor, start_process
from headrace.worker.processes.environment import forget_dashboard
from headrace.worker.processes.gauge import Gauge
from headrace.worker.processes.supervisor import Supervisor
from headrace.worker.store_wait import StoreWait
from headrace.worker.upkeep.own_strategy import OwnStrategy
from headrace.worker.upkeep.workload import workloads_of

if TYPE_CHECKING:
    from headrace import Headrace

log = logging.getLogger("headrace.worker")


@click.command(context_settings={"allow_extra_args": True})
@click.argument("app", required=False)
@click.option("-A", "--app", "app_option", metavar="APP", help="App, as module:attribute.")
@worker_options
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
    max_jobs_per_process: int | None,
    workers: tuple[int, int],
    drain: float,
    wait_for_store: float | None,
    log_runs: bool,
    name: str | None,
    schedules: bool | None,
    upkeep: bool,
    burst: bool,
    supervised: bool,
    metrics_port: int | None,
    metrics_host: str | None,
    metrics_allow: tuple[str, ...],
    log_level: str | None,
    log_format: str | None,
) -> None:
    """Run the jobs of APP, for example shop:app.

    After SIGTERM, SIGQUIT, Ctrl-C or a closed terminal it takes no more jobs, lets running ones end
    and hands back the rest. A second one but for the terminal's cancels the running ones. SIGUSR1
    writes what each thread does to stderr.

    Exit codes: 0 clean, 1 outcomes could not be written, 2 wrong usage or a crash inside the
    worker, 3 jobs were cut short.
    """
    # First: the supervisor may end, or ask for an end, while the app is imported.
    exit_on_signal()
    follow_supervisor()
    # Before the app is imported: its modules find the same here as in the processes of tasks.
    forget_dashboard()
    chosen, context = one_app(app, app_option), click.get_current_context()
    if chosen is None:
        raise click.UsageError("say which app: headrace worker shop:app", context)
    if context.args:
        written = f"-Q {shlex.quote(','.join(context.args))}"
        raise click.UsageError(f"name queues with an option: {written}", context)
    settings = WorkerOptions(
        chosen,
        chosen_queues(queues),
        strict,
        concurrency,
        threads,
        processes,
        drain,
        wait_for_store,
        log_level,
        log_format,
        log_runs,
        name,
        schedules,
        upkeep,
        max_jobs_per_process,
        burst,
    )
    metrics = place_of(metrics_port, metrics_host, metrics_allow)
    if workers == (1, 1):
        _work(settings, metrics, is_supervised=supervised)
    else:
        _supervise(settings, metrics, *workers)


def _work(settings: WorkerOptions, metrics: Place | None, *, is_supervised: bool) -> NoReturn:
    app = load_app(settings.app)
    worker = settings.worker(app)
    worker.is_supervised = is_supervised
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
    checked = settings.worker(app).settings
    scaling = Scaling.of(least, most, os.environ)
    banner = Banner(app, checked)
    asyncio.run(_reach(app, settings.wait_for_store, banner))
    banner.supervises(least, most)
    gauge = None if scaling.fixed else Gauge(app, workloads_of(checked), scaling.poll)
    with shared_totals(metrics) as variables:
        start = partial(start_process, settings.command(), variables)
        supervisor = Supervisor(
            scaling,
            start,
            gauge=gauge,
            strategy=OwnStrategy.of(app.scaling_strategy),
            burst=settings.burst,
        )
        if metrics is not None:
            serve_supervisor(app, supervisor, metrics, variables)
        code = supervisor.run()
    leave(code)


async def _reach(app: Headrace, within: float | None, banner: Banner) -> None:
    """Wait for the store; a signal meanwhile ends the process."""
    async with AsyncExitStack() as stack:
        wait = StoreWait(within, asyncio.Event())
        await wait.through(partial(stack.enter_async_context, app))
        await wait.through(banner.warn_of_undeclared_queues)
        await wait.through(banner.warn_of_strangers)
