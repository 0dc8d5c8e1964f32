"""The endpoints that a worker, a supervisor and a dashboard serve on the metrics port."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headrace.exposition import health, prometheus
from headrace.exposition.health import StoreProbe
from headrace.exposition.server import Endpoint, ExpositionServer, HttpResponse
from headrace.exposition.store_families import StoreReader

if TYPE_CHECKING:
    from headrace.core.workers import Scaled
    from headrace.exposition.health import MonitoredApp
    from headrace.metrics.multiprocess import MultiprocessTotals
    from headrace.metrics.totals import Totals

Liveness: TypeAlias = Callable[[], list[str]]
"""Returns problems; none if all is well."""
Readiness: TypeAlias = Callable[[str], list[str]]
"""Returns problems, given the error of the store."""


class SupervisedProcesses(Protocol):
    """What the endpoints need of a supervisor."""

    @property
    def ages(self) -> dict[int, float]: ...
    @property
    def scaled(self) -> Scaled: ...


class Endpoints:
    """`/metrics`, `/healthz` and `/readyz`; to be called from threads without an event loop."""

    def __init__(
        self, app: MonitoredApp, metrics: Endpoint, liveness: Liveness, readiness: Readiness
    ) -> None:
        self._app = app
        self._probe = StoreProbe(app)
        self.metrics = metrics
        self._liveness = liveness
        self._readiness = readiness

    @property
    def by_path(self) -> dict[str, Endpoint]:
        return {"/metrics": self.metrics, "/healthz": self.healthz, "/readyz": self.readyz}

    def healthz(self, _: Mapping[str, str]) -> HttpResponse:
        return health.response(self._liveness())

    def readyz(self, _: Mapping[str, str]) -> HttpResponse:
        return health.response(self._readiness(self._app.portal.run(self._probe.error())))


def worker_endpoints(app: MonitoredApp, totals: Totals) -> Endpoints:
    """The endpoints of one worker."""
    reader = StoreReader()

    def metrics(headers: Mapping[str, str]) -> HttpResponse:
        state = app.portal.run(reader.read(app.admin))
        return prometheus.worker_metrics(
            totals.snapshot(), state, None, headers, app.metrics_prefix
        )

    return Endpoints(
        app,
        metrics,
        lambda: health.liveness_problems(totals.presence()),
        lambda error: health.readiness_problems(totals.presence(), error),
    )


def supervisor_endpoints(
    app: MonitoredApp, totals: MultiprocessTotals, processes: SupervisedProcesses
) -> Endpoints:
    """The endpoints of a supervisor, about all of its worker processes."""
    reader = StoreReader()

    def metrics(headers: Mapping[str, str]) -> HttpResponse:
        state = app.portal.run(reader.read(app.admin))
        counts, prefix = totals.snapshot(), app.metrics_prefix
        return prometheus.worker_metrics(counts, state, processes.scaled, headers, prefix)

    def readiness(error: str) -> list[str]:
        return health.supervisor_readiness_problems(processes.ages, totals.living(), error)

    return Endpoints(
        app,
        metrics,
        lambda: health.supervisor_liveness_problems(processes.ages, totals.living()),
        readiness,
    )


def fleet_server(
    app: MonitoredApp, host: str, port: int, allowed: Iterable[str] = ()
) -> ExpositionServer:
    """A server of the metrics of a whole store, for a dashboard. It is healthy while the process
    runs, ready while the store answers. Not started yet; `ConfigError` if the port is taken."""

    def metrics(headers: Mapping[str, str]) -> HttpResponse:
        return app.portal.run(prometheus.fleet_metrics(app, headers))

    endpoints = Endpoints(app, metrics, list, health.store_problems)
    return ExpositionServer(host, port, endpoints.by_path, allowed)
