"""Which pages a worker, a parent of workers and a dashboard serve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from headrace.telemetry import health, prometheus
from headrace.telemetry.exposition import Answer, Exposition, Page
from headrace.telemetry.store_wide import StoreWide

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.core.workers import Scaled
    from headrace.telemetry.sharing import Gathering
    from headrace.telemetry.totals import Totals


class Crew(Protocol):
    """What is asked of a supervisor."""

    @property
    def ages(self) -> dict[int, float]: ...
    @property
    def scaled(self) -> Scaled: ...


class WorkerPages:
    """`/metrics`, `/healthz` and `/readyz` of one worker."""

    def __init__(self, app: Headrace, totals: Totals) -> None:
        self._app = app
        self._totals = totals
        self._store = StoreWide()

    @property
    def answers(self) -> dict[str, Answer]:
        return {"/metrics": self.metrics, "/healthz": self.healthz, "/readyz": self.readyz}

    def metrics(self, headers: Mapping[str, str]) -> Page:
        view = self._app.portal.run(self._store.look(self._app))
        return prometheus.of_worker(self._totals.snapshot(), view, None, headers)

    def healthz(self, _: Mapping[str, str]) -> Page:
        return health.page(health.why_not_alive(self._totals.presence()))

    def readyz(self, _: Mapping[str, str]) -> Page:
        trouble = _store_trouble(self._app, self._store)
        return health.page(health.why_not_ready(self._totals.presence(), trouble))


class ParentPages:
    """The same of a parent, about all of its worker processes."""

    def __init__(self, app: Headrace, gathering: Gathering, crew: Crew) -> None:
        self._app = app
        self._gathering = gathering
        self._crew = crew
        self._store = StoreWide()

    @property
    def answers(self) -> dict[str, Answer]:
        return {"/metrics": self.metrics, "/healthz": self.healthz, "/readyz": self.readyz}

    def metrics(self, headers: Mapping[str, str]) -> Page:
        view = self._app.portal.run(self._store.look(self._app))
        counted = self._gathering.snapshot()
        return prometheus.of_worker(counted, view, self._crew.scaled, headers)

    def healthz(self, _: Mapping[str, str]) -> Page:
        return health.page(health.why_crew_not_alive(self._crew.ages, self._gathering.living()))

    def readyz(self, _: Mapping[str, str]) -> Page:
        trouble = _store_trouble(self._app, self._store)
        latest = self._gathering.living()
        return health.page(health.why_crew_not_ready(self._crew.ages, latest, trouble))


def serve_fleet(app: Headrace, host: str, port: int) -> Exposition:
    """Serve the metrics of a whole store, for a dashboard: `/metrics`, and the health of a process
    that only has to reach its store. Not started yet; `ConfigError` if the port is taken."""
    store = StoreWide()

    def metrics(headers: Mapping[str, str]) -> Page:
        return app.portal.run(prometheus.of_fleet(app, headers))

    def healthz(_: Mapping[str, str]) -> Page:
        return health.page([])

    def readyz(_: Mapping[str, str]) -> Page:
        trouble = _store_trouble(app, store)
        return health.page([f"the store cannot be reached: {trouble}"] if trouble else [])

    return Exposition(host, port, {"/metrics": metrics, "/healthz": healthz, "/readyz": readyz})


def _store_trouble(app: Headrace, store: StoreWide) -> str:
    app.portal.run(store.look(app))
    return store.trouble
