"""Metrics and probes on a port of their own: options, and serving."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from headrace.errors import ConfigError
from headrace.metrics.multiprocess import (
    TOTALS_DIR,
    MultiprocessTotals,
    TotalsWriter,
    pop_totals_dir,
    temporary_totals_dir,
)
from headrace.metrics.totals import Totals

if TYPE_CHECKING:
    from headrace import Headrace
    from headrace.exposition.endpoints import Endpoints
    from headrace.worker.processes.supervisor import Supervisor
    from headrace.worker.worker import Worker

log = logging.getLogger("headrace.metrics")

Command = TypeVar("Command", bound=Callable[..., Any])

_HOST = "127.0.0.1"


class Place(NamedTuple):
    """Where to serve."""

    host: str
    port: int
    allowed: tuple[str, ...] = ()
    """Further host names that it answers to."""


def metrics_options(command: Command) -> Command:
    """The options that `place_of` takes, as `metrics_port`, `metrics_host` and `metrics_allow`."""
    for option in (
        click.option(
            "--metrics-allow-host",
            "metrics_allow",
            multiple=True,
            envvar="HEADRACE_METRICS_ALLOW_HOST",
            metavar="NAME",
            help="Host name with dots that --metrics-port answers to, such as shop.example or "
            "*.shop.example; may be repeated. It answers to addresses and other names anyway.",
        ),
        click.option(
            "--metrics-host",
            metavar="HOST",
            help=f"Address for --metrics-port: 0.0.0.0 for all.  [default: {_HOST}]",
        ),
        click.option(
            "--metrics-port",
            type=click.IntRange(0, 65535),
            metavar="PORT",
            help="Serve /metrics (Prometheus), /healthz and /readyz; 0 takes a free port.",
        ),
    ):
        command = option(command)
    return command


def place_of(
    metrics_port: int | None, metrics_host: str | None, allowed: tuple[str, ...] = ()
) -> Place | None:
    """Where to serve; None for nowhere."""
    if metrics_port is None:
        if metrics_host is not None:
            raise ConfigError("--metrics-host is of no use without --metrics-port")
        # The variable may be set for all processes of a machine, also those that serve nothing.
        context = click.get_current_context(silent=True)
        source = context and context.get_parameter_source("metrics_allow")
        if allowed and source is ParameterSource.COMMANDLINE:
            raise ConfigError("--metrics-allow-host is of no use without --metrics-port")
        return None
    return Place(_HOST if metrics_host is None else metrics_host, metrics_port, allowed)


def count_for_parent(worker: Worker) -> None:
    """Count what a worker does, if the parent process asks for it."""
    folder = pop_totals_dir()
    if folder is None:
        return
    worker.totals = Totals(worker.app.sends)
    writer = TotalsWriter(worker.totals, folder)
    writer.start()
    atexit.register(writer.close)


def serve_worker(app: Headrace, worker: Worker, place: Place) -> None:
    """Serve what a worker of this process counts, until the process ends."""
    from headrace.exposition.endpoints import worker_endpoints

    worker.totals = Totals(app.sends)
    endpoints = worker_endpoints(app, worker.totals)
    _serve(endpoints, place)


@contextmanager
def shared_totals(place: Place | None) -> Iterator[Mapping[str, str]]:
    """Environment variables for worker processes, so that they report what they count."""
    if place is None:
        yield {}
        return
    with temporary_totals_dir() as folder:
        yield {TOTALS_DIR: str(folder)}


def serve_supervisor(
    app: Headrace, supervisor: Supervisor, place: Place, settings: Mapping[str, str]
) -> None:
    """Serve what the worker processes of a supervisor count, until this process ends."""
    from headrace.exposition.endpoints import supervisor_endpoints

    totals = MultiprocessTotals(Path(settings[TOTALS_DIR]), lambda: supervisor.pids)
    endpoints = supervisor_endpoints(app, totals, supervisor)
    _serve(endpoints, place)


def _serve(endpoints: Endpoints, place: Place) -> None:
    from headrace.exposition.server import ExpositionServer

    exposition = ExpositionServer(place.host, place.port, endpoints.by_path, place.allowed)
    exposition.start()
    log.info(
        "metrics are at %s/metrics, health at /healthz and /readyz",
        exposition.url,
        extra={"url": exposition.url},
    )
