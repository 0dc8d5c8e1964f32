"""Which pages a worker, a parent of workers and a dashboard serve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headrace.exposition import health, prometheus
from headrace.exposition.server import Answer, Exposition, Page
from headrace.exposition.store_families import StoreWide
from headrace.exposition.store_probe import StoreProbe

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.core.workers import Scaled
    from headrace.metrics.multiprocess import Gathering
    from headrace.metrics.totals import Totals

Reasons: TypeAlias = Callable[[], list[str]]
"""Says what is wrong; nothing if all is well."""
Why: TypeAlias = Callable[[str], list[str]]
"""The same, given what is wrong with the store."""


class Crew(Protocol):
    """What is asked of a supervisor."""

    @property
    def ages(self) -> dict[int, float]: ...
    @property
    def scaled(self) -> Scaled: ...


class Pages:
    """`/metrics`, `/healthz` and `/readyz`, asked from any thread that has no event loop."""

    def __init__(self, app: Headrace, metrics: Answer, not_alive: Reasons, not_ready: Why) -> None:
        self._app = app
        self._probe = StoreProbe(app)
        self.metrics = metrics
        self._not_alive = not_alive
        self._not_ready = not_ready

    @property
    def answers(self) -> dict[str, Answer]:
        return {"/metrics": self.metrics, "/healthz": self.healthz, "/readyz": self.readyz}

    def healthz(self, _: Mapping[str, str]) -> Page:
        return health.page(self._not_alive())

    def readyz(self, _: Mapping[str, str]) -> Page:
        return health.page(self._not_ready(self._app.portal.run(self._probe.why_away())))


def pages_of_worker(app: Headrace, totals: Totals) -> Pages:
    """Those of one worker."""
    store = StoreWide()

    def metrics(headers: Mapping[str, str]) -> Page:
        view = app.portal.run(store.look(app))
        return prometheus.of_worker(totals.snapshot(), view, None, headers)

    return Pages(
        app,
        metrics,
        lambda: health.why_not_alive(totals.presence()),
        lambda trouble: health.why_not_ready(totals.presence(), trouble),
    )


def pages_of_parent(app: Headrace, gathering: Gathering, crew: Crew) -> Pages:
    """Those of a parent, about all of its worker processes."""
    store = StoreWide()

    def metrics(headers: Mapping[str, str]) -> Page:
        view = app.portal.run(store.look(app))
        return prometheus.of_worker(gathering.snapshot(), view, crew.scaled, headers)

    return Pages(
        app,
        metrics,
        lambda: health.why_crew_not_alive(crew.ages, gathering.living()),
        lambda trouble: health.why_crew_not_ready(crew.ages, gathering.living(), trouble),
    )


def serve_fleet(app: Headrace, host: str, port: int, allowed: Iterable[str] = ()) -> Exposition:
    """Serve the metrics of a whole store, for a dashboard: `/metrics`, and the health of a process
    that only has to reach its store. Not started yet; `ConfigError` if the port is taken."""

    def metrics(headers: Mapping[str, str]) -> Page:
        return app.portal.run(prometheus.of_fleet(app, headers))

    pages = Pages(app, metrics, list, health.why_store_not_ready)
    return Exposition(host, port, pages.answers, allowed)
