"""Prometheus pages: of a worker, of a supervisor, of a whole store."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from headrace.errors import ConfigError
from headrace.exposition.server import HttpResponse
from headrace.metrics.totals import TotalsSnapshot

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import choose_encoder, gzip_accepted
    from prometheus_client.registry import Collector

    from headrace.exposition import families
    from headrace.exposition.store_families import (
        StoreReader,
        StoreState,
        capacity_families,
        store_families,
    )
except ModuleNotFoundError as error:
    if error.name != "prometheus_client":
        raise
    raise ConfigError("metrics need prometheus-client: pip install 'headrace[metrics]'") from None

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from headrace.core.workers import Scaled
    from headrace.exposition.health import MonitoredApp

_readers: WeakKeyDictionary[MonitoredApp, StoreReader] = WeakKeyDictionary()


def worker_metrics(
    snapshot: TotalsSnapshot,
    state: StoreState | None,
    processes: Scaled | None,
    headers: Mapping[str, str],
) -> HttpResponse:
    """The counts of a worker and the state of its store; with `processes`, of a supervisor."""
    own = families.worker_families(snapshot)
    parent = () if processes is None else families.supervisor_families(processes)
    return _page(chain(own, parent, store_families(state)), headers)


async def fleet_metrics(
    app: MonitoredApp, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """The counts of all workers of an app's store since this process first asked, and the state of
    the store.

    `headers` are those of the request, with lower-case names: they choose the format and gzip. A
    store that does not answer is `headrace_store_up 0`, not an error.
    """
    reader = _readers.setdefault(app, StoreReader())
    state = await reader.read(app.admin, fleet=True)
    fleet = families.fleet_families(reader.fleet.counts)
    return _page(chain(fleet, capacity_families(state), store_families(state)), headers or {})


class _Collected(Collector):
    """Metrics that were collected already."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _page(metrics: Iterator[Metric], headers: Mapping[str, str]) -> HttpResponse:
    # Not the global registry, which is the user's.
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(list(metrics)))
    encode: Callable[[Collector], bytes]
    encode, content_type = choose_encoder(headers.get("accept", ""))
    body = encode(registry)
    if gzip_accepted(headers.get("accept-encoding", "")):
        return HttpResponse(gzip.compress(body, 5), content_type, encoding="gzip")
    return HttpResponse(body, content_type)
